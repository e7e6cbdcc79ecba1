"""Native batches with bad samples: views, devices' memory, samplers, persistent workers, indices, interrupts."""

from __future__ import annotations

import itertools
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from bad_folders import ByHand, loader_by_hand, make_bad_folder
from PIL import Image, PngImagePlugin
from recipes import evaluation, training
from torch.utils.data import (
    BatchSampler,
    ConcatDataset,
    DistributedSampler,
    SequentialSampler,
    Subset,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
from torchvision import transforms
from torchvision.datasets import ImageFolder

import fastload
from fastload._quarantine._substitutes import candidates_of

NUM_IMAGES = 40
BAD = [(3, "HTML"), (4, "missing"), (11, "truncated"), (12, "too small"), (30, "bomb"), (39, "empty")]


def small_crop() -> transforms.Compose:
    return transforms.Compose([transforms.RandomHorizontalFlip(), transforms.RandomCrop(64), transforms.ToTensor()])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> ImageFolder:
    folder = make_bad_folder(tmp_path_factory.mktemp("bad"), NUM_IMAGES, BAD)
    folder.transform = small_crop()
    return folder


def native(dataset: Any, batch_size: int = 5, **arguments: Any) -> fastload.DataLoader[Any]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*worker threads, more than")
        loader = fastload.DataLoader(dataset, batch_size, **{"on_error": "replace", "max_errors": 1, **arguments})
    assert loader.explain().is_native, loader.explain()
    return loader


def by_hand(dataset: Any, candidates: Any, **arguments: Any) -> torch.utils.data.DataLoader[Any]:
    return torch.utils.data.DataLoader(ByHand(dataset, candidates), **{"batch_size": 5, **arguments})


def _all_of(loader: Any, num_epochs: int = 2) -> list[Any]:
    torch.manual_seed(4)
    return [batch for _ in range(num_epochs) for batch in loader]


def assert_equal(found: list[Any], expected: list[Any]) -> None:
    assert [batch[1].tolist() for batch in found] == [batch[1].tolist() for batch in expected]
    for step, (ours, theirs) in enumerate(zip(found, expected, strict=True)):
        assert torch.equal(ours[0], theirs[0]), step


SAMPLERS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "subset": lambda _: {"sampler": SubsetRandomSampler([3, 4, 5, 8, 9, 11, 12, 20, 21, 22, 30])},
    "weighted": lambda _: {"sampler": WeightedRandomSampler([float(i % 3) for i in range(NUM_IMAGES)], 33)},
    "distributed": lambda dataset: {"sampler": DistributedSampler(dataset, 3, 1)},
    "sharded": lambda dataset: {"sampler": fastload.ShardedSampler(dataset, num_replicas=3, rank=2)},
    "batches": lambda dataset: {"batch_sampler": BatchSampler(SequentialSampler(dataset), 7, True), "batch_size": 1},
    "dropped last": lambda _: {"shuffle": True, "drop_last": True, "batch_size": 7},
}


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("name", SAMPLERS)
def test_substitutes_are_those_that_the_sampler_can_give(name: str, num_workers: int, folder: ImageFolder) -> None:
    def arguments() -> dict[str, Any]:
        return {"num_workers": num_workers, **SAMPLERS[name](folder)}

    loader = native(folder, **arguments())
    candidates = candidates_of(loader, None)
    assert_equal(_all_of(loader), _all_of(by_hand(folder, candidates, **arguments())))


@pytest.mark.parametrize("num_workers", [0, 2])
def test_named_substitutes_serve_an_own_batch_sampler_and_negative_indices(
    num_workers: int, folder: ImageFolder
) -> None:
    batches = [[0, -1, 11], [4, 4, 4], [-10, 12], [39, 3, 11, 12, 30]]
    arguments: dict[str, Any] = {"batch_sampler": batches, "num_workers": num_workers}
    loader = native(folder, 1, substitutes=[5, 7, 4, 9, 12], **arguments)
    expected = _all_of(by_hand(folder, [4, 5, 7, 9, 12], batch_size=1, **arguments))
    assert_equal(_all_of(loader), expected)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_parts_of_data_sets_have_their_own_indices(num_workers: int, folder: ImageFolder) -> None:
    dataset = ConcatDataset([Subset(folder, [11, 1, 2, 12]), folder, Subset(folder, [39, 5])])
    arguments: dict[str, Any] = {"shuffle": True, "num_workers": num_workers}
    assert_equal(_all_of(native(dataset, **arguments)), _all_of(by_hand(dataset, None, **arguments)))


@pytest.mark.parametrize("on_error", ["replace", "skip"])
def test_workers_that_stay_draw_on_behind_batches_that_nobody_has_asked_for(on_error: str, folder: ImageFolder) -> None:
    """torch's workers finish their requests before they begin the next epoch; bad samples among these count."""

    def epochs(loader: Any) -> list[Any]:
        torch.manual_seed(6)
        found = []
        for stop in (3, 1, 100):
            for step, batch in enumerate(loader):
                found.append(batch)
                if step == stop:
                    break
        return found

    arguments: dict[str, Any] = {"shuffle": True, "num_workers": 2, "persistent_workers": True}
    loader = native(folder, on_error=on_error, **arguments)
    assert_equal(epochs(loader), epochs(loader_by_hand(folder, on_error, 5, **arguments)))


@pytest.mark.parametrize("rng", ["torch", "sample"])
@pytest.mark.parametrize("num_workers", [0, 3])
def test_every_view_is_of_the_substitute(num_workers: int, rng: str, folder: ImageFolder) -> None:
    views = fastload.MultiView([small_crop(), evaluation(72, 64)])
    dataset = ImageFolder(folder.root, views)
    dataset.samples, dataset.targets, dataset.imgs = folder.samples, folder.targets, folder.samples
    arguments: dict[str, Any] = {"num_workers": num_workers}
    found = _all_of(native(dataset, rng=rng, seed=1 if rng == "sample" else None, **arguments), 1)
    if rng == "torch":
        expected = _all_of(by_hand(dataset, None, **arguments), 1)
        for ours, theirs in zip(found, expected, strict=True):
            assert torch.equal(ours[1], theirs[1])
            assert all(torch.equal(mine, other) for mine, other in zip(ours[0], theirs[0], strict=True))
        return
    for step, batch in enumerate(found):
        for position, label in enumerate(batch[1].tolist()):
            index = 5 * step + position
            attempt = 0
            choice = index
            while choice in dict(BAD):
                attempt += 1
                choice = fastload.substitute(index, attempt, NUM_IMAGES)
            assert label == folder.targets[choice]
            expected_image = evaluation(72, 64)(folder.loader(folder.samples[choice][0]))
            assert torch.equal(batch[0][1][position], expected_image)


def test_a_report_names_the_substitute_and_the_sample_that_it_stands_for(folder: ImageFolder) -> None:
    for on_error in ("replace", "skip"):
        loader = native(folder, on_error=on_error, num_workers=2)
        iterator = iter(loader)
        for step, (_, labels) in enumerate(iterator):
            reports = iterator.batch_report()
            asked = range(5 * step, 5 * step + 5)
            assert len(reports) == len(labels)
            assert [folder.targets[report.index] for report in reports] == labels.tolist()
            assert [report.path for report in reports] == [folder.samples[report.index][0] for report in reports]
            if on_error == "skip":
                assert [report.index for report in reports] == [index for index in asked if index not in dict(BAD)]
                assert {report.replaced for report in reports} <= {None}
            else:
                named = [report.index if report.replaced is None else report.replaced for report in reports]
                assert named == list(asked)
                assert [report.replaced is not None for report in reports] == [index in dict(BAD) for index in asked]


def test_a_file_that_failed_by_its_contents_is_not_opened_again_and_still_counts(
    tmp_path: Path, folder: ImageFolder
) -> None:
    ledger = tmp_path / "bad.jsonl"
    loader = native(folder, num_workers=0, ledger=ledger)
    num_loaded = []
    for epoch in range(3):
        before = loader.stats()
        assert len(list(loader)) == 8
        after = loader.stats()
        assert after.samples_replaced == (epoch + 1) * len(BAD)
        num_loaded.append(
            after.samples_native + after.samples_failed + after.samples_fallback
            - before.samples_native - before.samples_failed - before.samples_fallback
        )  # fmt: skip
    lines = [json.loads(line) for line in ledger.read_text().splitlines()]
    for line in lines:
        del line["time"]
    by_epoch = [[{**line, "epoch": 0} for line in lines if line["epoch"] == epoch] for epoch in range(3)]
    assert by_epoch[0] == by_epoch[1] == by_epoch[2]
    assert num_loaded[1] == num_loaded[2] < num_loaded[0]
    # Only samples that may be good the next time are tried: a missing file, and an image that does not fit a crop.
    stay = sum(kind in ("missing", "too small") for _, kind in BAD)
    assert num_known(loader) == len(BAD) - stay


@pytest.fixture
def known_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remembers new files, too, by turning off the check of their age."""
    monkeypatch.setattr("fastload._quarantine._quarantine._CLOCK_NS", -(10**9))


def num_known(loader: Any) -> int:
    return len(loader._fastload.quarantine.known._known)


@pytest.mark.usefixtures("known_at_once")
def test_a_file_that_is_repaired_meanwhile_is_loaded(tmp_path: Path) -> None:
    folder = make_bad_folder(tmp_path, 6, [(2, "HTML"), (4, "missing")])
    folder.transform = evaluation(72, 64)
    loader = native(folder, 3, num_workers=1)
    list(loader)
    assert num_known(loader) == 1
    good = Path(folder.samples[0][0]).read_bytes()
    for index in (2, 4):
        Path(folder.samples[index][0]).write_bytes(good)
    iterator = iter(loader)
    reports = [report for _ in iterator for report in iterator.batch_report()]
    assert [(report.index, report.replaced) for report in reports] == [(index, None) for index in range(6)]


@pytest.mark.usefixtures("known_at_once")
def test_a_sample_that_found_no_memory_is_loaded_the_next_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make_bad_folder(tmp_path, 6, [])
    path = Path(folder.samples[2][0]).with_suffix(".png")
    Image.new("RGB", (90, 80)).save(path)
    folder.samples[2] = str(path), folder.samples[2][1]
    folder.transform = evaluation(72, 64)
    loader = native(folder, 3, num_workers=1)
    expected = [images.clone() for images, _ in loader]

    def fail(image: Any) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(PngImagePlugin.PngImageFile, "load_prepare", fail)
        iterator = iter(loader)
        with pytest.raises(MemoryError):
            next(iterator)
        assert torch.equal(next(iterator)[0], expected[1])
    assert num_known(loader) == 0
    assert all(torch.equal(images, before) for (images, _), before in zip(loader, expected, strict=True))


@pytest.mark.usefixtures("known_at_once")
def test_a_limit_that_is_lifted_is_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make_bad_folder(tmp_path, 4, [])
    folder.transform = evaluation(72, 64)
    loader = native(folder, 4, num_workers=0, on_error="skip")
    with monkeypatch.context() as patch:
        patch.setattr(Image, "MAX_IMAGE_PIXELS", 90 * 80 // 2)
        num_loaded = sum(len(labels) for _, labels in loader)
    assert 0 < num_loaded < 4
    assert num_known(loader) == 4 - num_loaded
    assert sum(len(labels) for _, labels in loader) == 4


class _InRange(ByHand):
    """An index out of range is not a bad sample."""

    def __getitem__(self, index: int) -> Any:
        return super().__getitem__(index) if index < len(self) else self.dataset[index]


def test_a_batch_that_ends_in_a_bad_index_raises_that_error_behind_replaced_samples(folder: ImageFolder) -> None:
    batches = [[0, 3, 99, 1], [1, 2]]
    arguments: dict[str, Any] = {"batch_sampler": batches, "num_workers": 1}
    loader = native(folder, 1, substitutes="all", **arguments)
    found = []
    for each in (loader, torch.utils.data.DataLoader(_InRange(folder, None), **arguments)):
        torch.manual_seed(2)
        iterator = iter(each)
        with pytest.raises(IndexError):
            next(iterator)
        found.append(next(iterator)[0])
    assert torch.equal(*found)
    assert loader.stats().samples_replaced == 1


def test_too_many_bad_samples_end_a_native_run(tmp_path: Path) -> None:
    folder = make_bad_folder(tmp_path, 120, [(index, "HTML") for index in range(0, 120, 2)])
    folder.transform = training(24)
    for on_error in ("replace", "skip"):
        loader = native(folder, 20, on_error=on_error, num_workers=2, max_errors=0.4)
        iterators = itertools.chain(iter(loader), iter(loader), iter(loader))
        assert len(list(itertools.islice(iterators, 11))) == 11
        with pytest.raises(fastload.TooManyErrors, match=r"110 of 220 samples .*header: UnidentifiedImageError"):
            next(iterators)


# The arguments that leave nothing in some batches of two of the first six samples.
UNREPAIRABLE: dict[str, dict[str, Any]] = {
    "nothing can stand in": {"on_error": "replace", "substitutes": [1, 2, 5]},
    "nothing is left": {"on_error": "skip"},
}


@pytest.mark.usefixtures("known_at_once")
@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("name", UNREPAIRABLE)
def test_ledger_and_errors_are_those_of_samples_that_are_loaded_one_by_one(
    name: str, num_workers: int, tmp_path: Path
) -> None:
    bad = [(1, "HTML"), (2, "truncated"), (3, "missing"), (5, "empty"), (7, "bomb"), (8, "HTML")]
    folder = make_bad_folder(tmp_path / "images", 10, bad)
    folder.transform = evaluation(72, 64)

    def told(target_transform: Any, ledger: Path) -> tuple[list[Any], list[Any]]:
        folder.target_transform = target_transform
        loader = fastload.DataLoader(
            folder, 2, num_workers=num_workers, max_errors=1, ledger=ledger, **UNREPAIRABLE[name]
        )
        assert loader.explain().is_native == (target_transform is None)
        outcomes: list[Any] = []
        for _ in range(3):
            iterator = iter(loader)
            while True:
                try:
                    outcomes.append(next(iterator)[1].tolist())
                except StopIteration:
                    break
                except fastload.SampleError as error:
                    outcomes.append(str(error))
        lines = [json.loads(line) for line in ledger.read_text().splitlines()]
        for line in lines:
            del line["time"]
        return outcomes, lines

    one_by_one = told(abs, tmp_path / "one.jsonl")
    assert any(isinstance(outcome, str) for outcome in one_by_one[0])
    assert told(None, tmp_path / "native.jsonl") == one_by_one
