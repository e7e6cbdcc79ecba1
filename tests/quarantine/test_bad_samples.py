"""Bad samples that are replaced or left out: a program that does this by hand under torch gives the same batches."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from bad_folders import SPOILS, ListOfFiles, loader_by_hand, make_bad_folder
from both_loaders import Threads
from numbered import Made, Numbered
from recipes import bytes_of, evaluation, training
from torch.utils.data import IterableDataset, TensorDataset
from torchvision import transforms
from torchvision.datasets import ImageFolder

import fastload

NUM_IMAGES = 30
# Several are in one batch, and some are the first or last of a batch.
BAD = list(zip((0, 4, 5, 11, 12, 17, 23, 29), (*SPOILS, "truncated", "missing"), strict=True))


def _ending_in_python(folder: ImageFolder) -> ImageFolder:
    noise = transforms.Lambda(lambda image: image + torch.rand(()))
    folder.transform = transforms.Compose([*training(48).transforms, noise])
    return folder


# test_native_repairs.py has the data sets that are native.
DATASETS: dict[str, Callable[[ImageFolder], Any]] = {
    "an end in Python": _ending_in_python,
    "own data set": lambda folder: ListOfFiles(folder, training(48)),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> ImageFolder:
    return make_bad_folder(tmp_path_factory.mktemp("bad"), NUM_IMAGES, BAD)


def _epochs(loader: Any, count: int = 2) -> list[Any]:
    torch.manual_seed(8)
    return [batch for _ in range(count) for batch in loader]


@pytest.mark.parametrize("on_error", ["replace", "skip"])
@pytest.mark.parametrize("num_workers", [0, 1, 3])
@pytest.mark.parametrize("name", DATASETS)
def test_batches_are_those_of_a_program_that_treats_bad_samples_by_hand(
    name: str, num_workers: int, on_error: Any, folder: ImageFolder
) -> None:
    dataset, is_skipping = DATASETS[name](folder), on_error == "skip"
    arguments: dict[str, Any] = {"batch_size": 4, "shuffle": True, "num_workers": num_workers}
    loader = fastload.DataLoader(dataset, on_error=on_error, max_errors=1, **arguments)
    by_hand = loader_by_hand(dataset, on_error, **arguments)
    found = _epochs(loader)
    assert bytes_of(found) == bytes_of(_epochs(by_hand))
    assert len(found) == 2 * len(loader)
    stats = loader.stats()
    assert (stats.samples_replaced, stats.samples_skipped) == ((0, 2 * 7) if is_skipping else (2 * 7, 0))


def test_with_counted_draws_a_substitute_is_the_sample_that_it_is_elsewhere(folder: ImageFolder) -> None:
    dataset = DATASETS["own data set"](folder)
    bad = {index for index, kind in BAD if kind != "too small"}
    counted: dict[str, Any] = {"rng": "sample", "seed": 3, "num_workers": 2}
    found = [images[0] for images, _ in fastload.DataLoader(dataset, 1, on_error="replace", max_errors=1, **counted)]
    chosen = []
    for index in range(NUM_IMAGES):
        tried = [index, *(fastload.substitute(index, attempt, NUM_IMAGES) for attempt in range(1, 17))]
        chosen += [choice for choice in tried if choice not in bad][:1]
    alone = fastload.DataLoader(dataset, 1, sampler=chosen, **counted)
    assert all(torch.equal(image, images[0]) for image, (images, _) in zip(found, alone, strict=True))


def test_a_batch_of_which_nothing_is_left_raises_and_the_next_one_comes(tmp_path: Path) -> None:
    folder = make_bad_folder(tmp_path, 6, [(2, "HTML"), (3, "missing")])
    folder.transform = evaluation(72, 64)
    iterator = iter(fastload.DataLoader(folder, 2, on_error="skip", num_workers=2, max_errors=1))
    assert len(next(iterator)[1]) == 2
    with pytest.raises(fastload.SampleError, match=r"sample 2 .*cannot identify"):
        next(iterator)
    assert len(next(iterator)[1]) == 2
    with pytest.raises(StopIteration):
        next(iterator)


def test_where_no_sample_can_stand_in_the_batch_raises_its_own_error(tmp_path: Path) -> None:
    folder = make_bad_folder(tmp_path, 4, [(number, "empty") for number in range(3)])
    folder.transform = evaluation(72, 64)
    loader = fastload.DataLoader(folder, 2, on_error="replace", substitutes=[0, 1, 2], num_workers=1)
    iterator = iter(loader)
    for index in (0, 2):
        with pytest.raises(fastload.SampleError, match=f"sample {index} "):
            next(iterator)
    with pytest.raises(StopIteration):
        next(iterator)


def _failing(error: type[BaseException]) -> Made:
    def sample(index: int) -> int:
        if index == 2:
            raise error("bad")
        return index

    return Made(sample, 6)


@pytest.mark.parametrize("error", [IndexError, MemoryError, KeyboardInterrupt])
@pytest.mark.parametrize("num_workers", [0, 1])
def test_what_is_no_fault_of_a_sample_is_raised(error: type[BaseException], num_workers: int) -> None:
    loader = Threads(_failing(error), 3, on_error="replace", num_workers=num_workers)
    with pytest.raises(error, match="bad"):
        list(loader)


def test_samples_without_batches_are_replaced() -> None:
    loader = fastload.DataLoader(_failing(ValueError), None, on_error="replace", num_workers=1)
    found = [int(sample) for sample in loader]
    assert found == [0, 1, fastload.substitute(2, 1, 6), 3, 4, 5]


class _Storage(Numbered):
    """Fails sometimes, as a network file system does."""

    def __init__(self, num_failures: int) -> None:
        super().__init__(4)
        self.num_left = num_failures

    def sample(self, index: int) -> int:
        if index == 1 and self.num_left > 0:
            self.num_left -= 1
            raise OSError(5, "Input/output error", "1.jpg")
        return index


@pytest.mark.parametrize(("num_failures", "expected"), [(2, 1), (3, 0)])
def test_a_storage_that_fails_is_asked_again(num_failures: int, expected: int, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("fastload._quarantine._guard.time.sleep", pauses.append)
    loader = fastload.DataLoader(_Storage(num_failures), 4, on_error="replace", retries=2)
    (batch,) = loader
    assert batch.tolist() == [0, expected, 2, 3]
    assert pauses == [0.1, 0.2]


DATASET = TensorDataset(torch.arange(10))
REFUSED: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"on_error": "ignore"}, ValueError, "on_error must be 'raise', 'replace' or 'skip', got 'ignore'"),
    ({"on_error": "skip", "substitutes": "all"}, ValueError, "substitutes needs on_error='replace'"),
    ({"on_error": "replace", "substitutes": "most"}, ValueError, "'all' or a sequence of indices, got 'most'"),
    ({"on_error": "replace", "substitutes": []}, ValueError, "substitutes is empty"),
    ({"on_error": "replace", "retries": -1}, ValueError, "retries must be an int from 0 to 100, got -1"),
    ({"on_error": "replace", "retries": 1.5}, ValueError, "retries must be an int"),
    ({"on_error": "skip", "max_errors": 5}, ValueError, "max_errors is a share of the samples, from 0.0 to 1.0, got 5"),
    ({"on_error": "skip", "max_errors": float("nan")}, ValueError, "max_errors"),
    ({"on_error": "skip", "ledger": 3}, TypeError, "ledger must be None or the path of a file, got 3"),
    ({"retries": 2}, ValueError, "retries=2 needs on_error='replace' or 'skip'"),
    ({"ledger": "bad.jsonl"}, ValueError, "ledger='bad.jsonl' needs on_error"),
    ({"max_errors": 0.5}, ValueError, "max_errors=0.5 needs on_error"),
]


@pytest.mark.parametrize(("arguments", "error", "text"), REFUSED)
def test_what_makes_no_sense_is_refused_by_name(arguments: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error) as raised:
        fastload.DataLoader(DATASET, **arguments)
    assert text in str(raised.value)


class _Stream(IterableDataset[int]):
    def __iter__(self) -> Any:
        return iter(range(4))


@pytest.mark.parametrize(
    ("dataset", "arguments", "text"),
    [
        (_Stream(), {"on_error": "replace"}, "on_error='replace' needs a data set with __getitem__"),
        (DATASET, {"on_error": "skip", "batch_size": None}, "batch_size=None makes none; use 'replace'"),
    ],
)
def test_what_cannot_be_replaced_or_left_out_is_refused(dataset: Any, arguments: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        iter(fastload.DataLoader(dataset, **arguments))


def test_explain_says_who_makes_the_samples(tmp_path: Path) -> None:
    folder = make_bad_folder(tmp_path, 4, [])
    folder.transform = training(32)
    explanation = fastload.DataLoader(folder, on_error="skip", num_workers=1).explain()
    assert explanation.is_native
    assert "errors     on_error='skip', batches may be short: native" in explanation
    folder.target_transform = str
    explanation = fastload.DataLoader(folder, on_error="replace", num_workers=1).explain()
    assert explanation.startswith("partly native")
    assert "errors     on_error='replace': bad samples are found one by one" in explanation


def test_a_copy_of_a_loader_has_its_arguments_and_counts_anew() -> None:
    loader = fastload.DataLoader(DATASET, on_error="replace", substitutes="all", max_errors=0.5, ledger=Path("a.jsonl"))
    copy = pickle.loads(pickle.dumps(loader))
    for name in ("on_error", "substitutes", "retries", "max_errors", "ledger"):
        assert getattr(copy, name) == getattr(loader, name)
    assert [len(batch[0]) for batch in copy] == [1] * 10
