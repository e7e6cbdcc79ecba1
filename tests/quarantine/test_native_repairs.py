"""Native batches with bad samples equal torch's over a data set that does by hand what on_error does."""

from __future__ import annotations

import functools
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from bad_folders import SPOILS, loader_by_hand, make_bad_folder
from torchvision import transforms
from torchvision.datasets import ImageFolder

import fastload

NUM_IMAGES = 100
BATCH_SIZE = 8
# A flip has drawn when a crop does not fit; the RandomApply around the crop draws, too.
TRANSFORMS: dict[str, Callable[[], Any]] = {
    "crop": lambda: [transforms.RandomHorizontalFlip(), transforms.RandomCrop(64)],
    "crop by chance": lambda: [
        transforms.RandomApply([transforms.RandomCrop(64)], p=0.5),
        transforms.RandomHorizontalFlip(),
        transforms.RandomResizedCrop(24),
    ],
    "no draws": lambda: [transforms.CenterCrop(64)],
}
KINDS = (*(kind for kind in SPOILS if kind != "empty"), "all")


def _bad(kind: str, share: float) -> list[tuple[int, str]]:
    kinds = list(SPOILS) if kind == "all" else [kind]
    count = round(share * NUM_IMAGES)
    return [(37 * number % NUM_IMAGES, kinds[number % len(kinds)]) for number in range(count)]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("folders")


@functools.cache
def _folder(root: Path, kind: str, share: float) -> ImageFolder:
    return make_bad_folder(root / f"{kind} {share}", NUM_IMAGES, _bad(kind, share))


def _dataset(root: Path, kind: str, share: float, transform: str) -> ImageFolder:
    folder = _folder(root, kind, share)
    folder.transform = transforms.Compose([*TRANSFORMS[transform](), transforms.ToTensor()])
    return folder


Batch = tuple[bytes, list[int]]


def _bytes(images: torch.Tensor, labels: torch.Tensor) -> Batch:
    return images.numpy().tobytes(), labels.tolist()


@functools.cache
def _by_hand(
    root: Path, kind: str, share: float, transform: str, num_workers: int, on_error: str, seed: int
) -> list[Batch]:
    """Returns the batches of two epochs of torch's loader."""
    dataset = _dataset(root, kind, share, transform)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*worker processes in total")
        loader = loader_by_hand(dataset, on_error, BATCH_SIZE, shuffle=True, num_workers=num_workers)
    torch.manual_seed(seed)
    return [_bytes(*batch) for _ in range(2) for batch in loader]


def _counted_by_hand(dataset: ImageFolder, order: list[int], on_error: str, epoch: int, bad: set[int]) -> list[Batch]:
    """Returns the batches for rng="sample", where a sample does not depend on the others in its batch."""
    good = [index for index in range(NUM_IMAGES) if index not in bad]
    loader = fastload.DataLoader(dataset, 1, sampler=good, rng="sample", seed=3)
    loader.set_epoch(epoch)
    alone = dict(zip(good, loader, strict=True))
    batches = []
    for begin in range(0, NUM_IMAGES, BATCH_SIZE):
        chosen = []
        for index in order[begin : begin + BATCH_SIZE]:
            attempts = (fastload.substitute(index, attempt, NUM_IMAGES) for attempt in range(1, 17))
            tried = [index, *(attempts if on_error == "replace" else ())]
            chosen += [choice for choice in tried if choice not in bad][:1]
        images, labels = (torch.cat([alone[choice][part] for choice in chosen]) for part in range(2))
        batches.append(_bytes(images, labels))
    return batches


def _loader(dataset: Any, num_workers: int, on_error: str, **arguments: Any) -> fastload.DataLoader[Any]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*worker threads, more than")
        loader = fastload.DataLoader(
            dataset,
            BATCH_SIZE,
            num_workers=num_workers,
            on_error=on_error,  # type: ignore[arg-type]
            max_errors=1,
            **{"shuffle": True, **arguments},
        )
    assert loader.explain().is_native, loader.explain()
    return loader


def _check_ledger(path: Path, reports: list[list[list[Any]]], bad: list[int], on_error: str) -> None:
    """Checks that every bad sample is noted once an epoch, at the positions in the reports."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for epoch, of_epoch in enumerate(reports):
        noted = [line for line in lines if line["epoch"] == epoch]
        places = [(line["step"], line["position"], line["index"], line["substitute"]) for line in noted]
        assert len(set(places)) == len(places)
        assert {index for _, _, index, _ in places} <= set(bad)
        if on_error == "skip":
            assert sorted(index for _, _, index, _ in places) == sorted(bad)
            continue
        replaced = {
            (step, position): (report.replaced, report.index)
            for step, batch in enumerate(of_epoch)
            for position, report in enumerate(batch)
            if report.replaced is not None
        }
        assert sorted(index for index, _ in replaced.values()) == sorted(bad)
        for step, position, _, substitute in places:
            assert replaced[step, position][1] == substitute
        first = {(step, position): index for step, position, index, _ in reversed(places)}
        assert first == {place: index for place, (index, _) in replaced.items()}


@pytest.mark.parametrize("on_error", ["replace", "skip"])
@pytest.mark.parametrize("num_workers", [0, 1, 4])
@pytest.mark.parametrize("share", [0.01, 0.1])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_with_torchs_draws_batches_are_those_of_the_program_by_hand(
    transform: str, kind: str, share: float, num_workers: int, on_error: str, root: Path, tmp_path: Path
) -> None:
    expected = _by_hand(root, kind, share, transform, num_workers, on_error, 8)
    dataset = _dataset(root, kind, share, transform)
    loader = _loader(dataset, num_workers, on_error, ledger=tmp_path / "bad.jsonl")
    torch.manual_seed(8)
    found, reports = [], []
    for _ in range(2):
        iterator = iter(loader)
        reports.append([])
        for batch in iterator:
            found.append(_bytes(*batch))
            reports[-1].append(iterator.batch_report())
    assert [labels for _, labels in found] == [labels for _, labels in expected]
    assert found == expected
    assert len(found) == 2 * len(loader)
    bad = [index for index, its_kind in _bad(kind, share) if transform == "crop" or its_kind != "too small"]
    if transform != "crop by chance" and bad:
        _check_ledger(tmp_path / "bad.jsonl", reports, bad, on_error)
        stats = loader.stats()
        assert (stats.samples_replaced, stats.samples_skipped) == (
            (2 * len(bad), 0) if on_error == "replace" else (0, 2 * len(bad))
        )


@pytest.mark.parametrize("on_error", ["replace", "skip"])
@pytest.mark.parametrize("num_workers", [0, 1, 4])
@pytest.mark.parametrize("share", [0.01, 0.1])
@pytest.mark.parametrize("kind", KINDS)
def test_with_counted_draws_a_substitute_is_what_it_is_elsewhere(
    kind: str, share: float, num_workers: int, on_error: str, root: Path, tmp_path: Path
) -> None:
    dataset = _dataset(root, kind, share, "crop")
    loader = _loader(dataset, num_workers, on_error, rng="sample", seed=3, ledger=tmp_path / "bad.jsonl")
    bad = [index for index, _ in _bad(kind, share)]
    reports: list[list[list[Any]]] = []
    for epoch in range(2):
        iterator = iter(loader)
        order = [index for batch in loader._index_sampler for index in batch]
        found, of_epoch = [], []
        for batch in iterator:
            found.append(_bytes(*batch))
            of_epoch.append(iterator.batch_report())
        reports.append(of_epoch)
        assert found == _counted_by_hand(dataset, order, on_error, epoch, set(bad))
    _check_ledger(tmp_path / "bad.jsonl", reports, bad, on_error)


@pytest.mark.parametrize("on_error", ["replace", "skip"])
@pytest.mark.parametrize("num_workers", [0, 1, 4])
@pytest.mark.parametrize("rng", ["torch", "sample"])
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_an_epoch_is_resumed_behind_any_batch_without_memory_of_failures(
    transform: str, rng: str, num_workers: int, on_error: str, root: Path
) -> None:
    dataset = _dataset(root, "all", 0.1, transform)
    arguments = {"rng": rng, "seed": 3 if rng == "sample" else None}
    loader = _loader(dataset, num_workers, on_error, **arguments)
    torch.manual_seed(5)
    for _ in loader:
        pass  # the failures become known in this epoch
    iterator = iter(loader)
    moments = []
    whole = []
    for batch in iterator:
        whole.append(_bytes(*batch))
        moments.append((loader.state_dict(), torch.get_rng_state()))
    for step in range(0, len(whole) - 1, 3):
        again = _loader(dataset, num_workers, on_error, **arguments)
        state, program = moments[step]
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="num_workers=0: random transforms")
            again.load_state_dict(json.loads(json.dumps(state)))
        begun = iter(again)
        torch.set_rng_state(program)
        assert [_bytes(*batch) for batch in begun] == whole[step + 1 :], step


def _times_one(image: torch.Tensor) -> torch.Tensor:
    """Changes nothing, but only Python can call it, so that samples are made one by one."""
    return image * 1


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("on_error", ["replace", "skip"])
def test_samples_that_are_drawn_several_times_keep_their_draws(root: Path, on_error: str, num_workers: int) -> None:
    def batches(*last: Any) -> list[Batch]:
        dataset = _dataset(root, "all", 0.1, "crop by chance")
        dataset.transform = transforms.Compose([*dataset.transform.transforms, *last])
        sampler = torch.utils.data.WeightedRandomSampler(
            [1.0] * NUM_IMAGES, 2 * NUM_IMAGES, generator=torch.Generator().manual_seed(5)
        )
        loader = fastload.DataLoader(
            dataset,
            BATCH_SIZE,
            sampler=sampler,
            num_workers=num_workers,
            rng="sample",
            seed=3,
            on_error=on_error,  # type: ignore[arg-type]
            max_errors=1,
        )
        assert loader.explain().is_native == (not last)
        return [_bytes(*batch) for batch in loader]

    found = batches()
    assert found == batches(_times_one)
    assert len({images for images, _ in found}) == len(found)
