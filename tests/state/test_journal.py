"""journal=: every epoch that was begun is known by its number, with torch's random numbers, too, in a new process."""

from __future__ import annotations

import hashlib
import json
import random
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import recipes
import torch
from children import RunChild
from resumed_runs import BATCH_SIZE, Case, batch_of, epochs_of, program_bytes
from torchvision.datasets import ImageFolder

import fastload

NUM_EPOCHS = 3


def noted_loader(root: Path, journal: Any, sampler: str = "random", rng: str = "torch", **arguments: Any) -> Any:
    arguments = {"num_workers": 2, "rng": rng, "journal": journal, **arguments}
    return Case(sampler=sampler).make_loader(root, **arguments)


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("rng", ["torch", "sample"])
@pytest.mark.parametrize("sampler", ["random", "random with generator", "distributed", "sequential"])
def test_every_epoch_is_known_by_its_number(
    sampler: str, rng: str, persistent: bool, folder: Path, tmp_path: Path
) -> None:
    journal = tmp_path / "epochs.jsonl"
    loader = noted_loader(folder, journal, sampler, rng, persistent_workers=persistent)
    epochs = epochs_of(loader, NUM_EPOCHS)
    contents, before, dice = journal.read_bytes(), program_bytes(), random.Random(2)
    assert len(contents.splitlines()) == NUM_EPOCHS
    for asked in (loader, noted_loader(folder, str(journal), sampler, rng)):
        for _ in range(4):
            epoch, step = dice.randrange(NUM_EPOCHS), dice.randrange(len(loader))
            batch, reports = epochs[epoch][step]
            part = iter(asked.at(epoch, step, step + 1))
            assert [batch_of(*given) for given in part] == [batch]
            assert asked.plan(epoch, step) == [replace(report, source="planned") for report in reports]
            sample, made = asked.replay(reports[-1].index, epoch)
            assert made == reports[-1]
            assert sample[0].numpy().tobytes() == batch[0][-len(batch[0]) // len(reports) :]
    assert program_bytes() == before
    assert journal.read_bytes() == contents, "nothing that is made again is noted"


OTHER_PROCESS = """
import hashlib, sys
import recipes
from torchvision.datasets import ImageFolder
import fastload

dataset = ImageFolder({root!r}, recipes.training(32))
loader = fastload.DataLoader(dataset, {batch_size}, shuffle=True, num_workers=2, journal={journal!r})
for epoch in range({num_epochs}):
    for images, labels in loader.at(epoch, 1, 3):
        print(epoch, hashlib.sha256(images.numpy().tobytes()).hexdigest(), labels.tolist())
"""


def test_another_process_makes_the_same_batches(folder: Path, tmp_path: Path, run_child: RunChild) -> None:
    journal = str(tmp_path / "epochs.jsonl")
    epochs = epochs_of(noted_loader(folder, journal), NUM_EPOCHS)
    lines = [
        f"{epoch} {hashlib.sha256(pixels).hexdigest()} {labels}"
        for epoch, batches in enumerate(epochs)
        for (pixels, labels), _ in batches[1:3]
    ]
    code = OTHER_PROCESS.format(root=str(folder), batch_size=BATCH_SIZE, journal=journal, num_epochs=NUM_EPOCHS)
    assert run_child(code).stdout.splitlines() == lines


KILLED = """
import os, signal
import recipes
from torchvision.datasets import ImageFolder
import fastload

dataset = ImageFolder({root!r}, recipes.training(32))
loader = fastload.DataLoader(dataset, {batch_size}, shuffle=True, num_workers=2, journal={journal!r})
list(loader)
next(iter(loader))
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_run_that_is_killed_has_noted_its_last_epoch(folder: Path, tmp_path: Path, run_child: RunChild) -> None:
    journal = tmp_path / "epochs.jsonl"
    run_child(KILLED.format(root=str(folder), batch_size=BATCH_SIZE, journal=str(journal)), check=False)
    loader = noted_loader(folder, journal)
    assert len(list(loader.at(1))) == len(loader)
    with pytest.raises(ValueError, match=r"epoch 2 is not in the journal '.*', which has 2 from 0 to 1"):
        loader.at(2)


def test_a_torn_line_is_passed_over_and_the_next_one_is_whole(folder: Path, tmp_path: Path) -> None:
    journal = tmp_path / "epochs.jsonl"
    epochs = epochs_of(noted_loader(folder, journal), NUM_EPOCHS)
    whole = journal.read_bytes()
    begin = whole.index(b"\n", whole.index(b"\n") + 1) + 1  # of the third line
    for length in (begin + 1, begin + 500, len(whole) - 2):
        journal.write_bytes(whole[:length])
        loader = noted_loader(folder, journal)
        with pytest.raises(ValueError, match=r"epoch 2 is not in the journal '.*', which has 2 from 0 to 1"):
            loader.plan(2, 0)
        assert loader.plan(1, 2)[0].index == epochs[1][2][1][0].index
        batches = [batch_of(*batch) for batch in loader]
        assert [batch_of(*batch) for batch in loader.at(0)] == batches, "the last beginning counts"
    journal.write_bytes(whole[:-1])  # nothing but the end of the line is missing
    assert [batch_of(*batch) for batch in noted_loader(folder, journal).at(2)] == [batch for batch, _ in epochs[2]]


def test_an_epoch_that_goes_on_is_not_noted_again(folder: Path, tmp_path: Path) -> None:
    journal = tmp_path / "epochs.jsonl"
    loader = noted_loader(folder, journal)
    iterator = iter(loader)
    batches = [batch_of(*next(iterator)) for _ in range(3)]
    again = noted_loader(folder, journal)
    again.load_state_dict(loader.state_dict())
    batches += [batch_of(*batch) for batch in again]
    assert [batch_of(*batch) for batch in again.at(0)] == batches
    next(iter(again))
    assert [json.loads(line)["fastload"]["epoch"] for line in journal.read_text().splitlines()] == [0, 1]


def test_a_line_is_a_state_that_can_be_loaded(folder: Path, tmp_path: Path) -> None:
    journal = tmp_path / "epochs.jsonl"
    epochs = epochs_of(noted_loader(folder, journal), NUM_EPOCHS)
    loader = noted_loader(folder, None)
    loader.load_state_dict(json.loads(journal.read_text().splitlines()[1]))
    assert [batch_of(*batch) for batch in loader] == [batch for batch, _ in epochs[1]]


def test_a_journal_of_another_data_set_is_refused(folder: Path, tmp_path: Path) -> None:
    journal = tmp_path / "epochs.jsonl"
    next(iter(noted_loader(folder, journal)))
    other = tmp_path / "other"
    shutil.copytree(folder, other)
    sorted(other.rglob("*.JPEG"))[0].unlink()
    loader = noted_loader(other, journal)
    for call in (lambda: loader.at(0), lambda: loader.plan(0, 0), lambda: loader.replay(1, 0)):
        with pytest.raises(fastload.StateError, match=r"fastload\.fingerprint\.samples.*has 22.*has 21"):
            call()


def test_epochs_of_seeds_need_no_journal(folder: Path, tmp_path: Path) -> None:
    loader = noted_loader(folder, tmp_path / "absent" / "epochs.jsonl", "distributed", "sample", seed=4)
    assert len(list(loader.at(7))) == len(loader)
    assert loader.replay(3, 7)[1].index == 3


def test_ranks_but_the_first_note_nothing(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = tmp_path / "epochs.jsonl"
    loader = noted_loader(folder, journal, "distributed")
    monkeypatch.setattr(sys.modules["fastload._loader._journal"], "rank_and_world_size", lambda: (1, 2))
    next(iter(loader))
    assert not journal.exists()


class OwnOrder(torch.utils.data.Sampler[int]):
    def __iter__(self) -> Any:
        return iter([3, 1, 2])

    def __len__(self) -> int:
        return 3


REFUSED: dict[str, tuple[Callable[[Any, Any], Any], type[Exception], str]] = {
    "no path": (lambda data, path: fastload.DataLoader(data, journal=3), TypeError, "journal must be None or the path"),
    "steps": (
        lambda data, path: fastload.DataLoader(data, journal=path, steps=3),
        ValueError,
        r"journal='.*' notes epochs as the sampler gives them, and steps=3",
    ),
    "processes": (
        lambda data, path: fastload.DataLoader(data, journal=path, num_workers=1, workers="processes"),
        ValueError,
        "journal=.* needs workers='threads'",
    ),
    "not native": (
        lambda data, path: iter(fastload.DataLoader(list(range(5)), journal=path)),
        ValueError,
        r"journal='.*' needs native batches, but:\nnot native",
    ),
    "a sampler of one's own": (
        lambda data, path: iter(fastload.DataLoader(data, sampler=OwnOrder(), num_workers=1, journal=path)),
        ValueError,
        "is of no use with a OwnOrder",
    ),
    "draws without workers": (
        lambda data, path: iter(fastload.DataLoader(data, journal=path)),
        ValueError,
        r"needs num_workers >= 1 here: without workers random transforms draw from.*Take num_workers=1",
    ),
    "an order without workers": (
        lambda data, path: iter(fastload.DataLoader(data, shuffle=True, rng="sample", journal=path)),
        ValueError,
        "without workers a RandomSampler draws from",
    ),
    "no folder": (
        lambda data, path: iter(fastload.DataLoader(data, num_workers=1, journal=path.parent / "absent" / "a.jsonl")),
        FileNotFoundError,
        r"the journal cannot be written \(No such file or directory\): .* or leave it out: '.*absent",
    ),
    "a folder": (
        lambda data, path: iter(fastload.DataLoader(data, num_workers=1, journal=path.parent)),
        IsADirectoryError,
        "the journal cannot be written",
    ),
    "nothing noted": (
        lambda data, path: fastload.DataLoader(data, num_workers=1, journal=path).at(0),
        ValueError,
        "epoch 0 cannot be made again: the journal cannot be read: .*No such file",
    ),
    "no journal": (
        lambda data, path: fastload.DataLoader(data, num_workers=1, journal=written(path)).at(0),
        ValueError,
        "epoch 0 is not in the journal '.*', in which no line is a state",
    ),
}


def written(path: Path) -> Path:
    path.write_text('{"epoch": 0}\n[1]\n"fastload"\n\n' + "[" * 100_000)
    return path


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_noted_or_found_says_why(name: str, folder: Path, tmp_path: Path) -> None:
    call, kind, text = REFUSED[name]
    before = program_bytes()
    with pytest.raises(kind, match=text):
        call(ImageFolder(str(folder), recipes.training(16)), tmp_path / "epochs.jsonl")
    assert program_bytes() == before, "and nothing was drawn"
