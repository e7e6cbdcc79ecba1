"""Batches that end in the user's own Python, in threads: bytes and draws against torch's DataLoader."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.utils.data
from flat_values import flat
from numbered import Made
from python_part_cases import (
    PIPELINES,
    THREADS,
    WORKERS,
    assert_equals_torch,
    by_label,
    crop_flip,
    dataset_of,
    numbered,
)
from python_part_loader import PythonPartLoader, torch_loader
from torch.utils.data import ConcatDataset, Subset, default_collate
from torchvision import transforms

import fastload


@WORKERS
@pytest.mark.parametrize("name", PIPELINES)
def test_three_epochs_equal_torch(mixed_folder: Path, name: str, num_workers: int) -> None:
    pipeline, num_native = PIPELINES[name]
    dataset = dataset_of(mixed_folder, pipeline)
    found = assert_equals_torch(dataset, num_native, batch_size=3, shuffle=True, num_workers=num_workers)
    images = [batch[1][0] for batches, _ in found for batch in batches]
    assert len(images) == 18
    assert "draws" in name or len({str(image) for image in images}) == 18


@THREADS
@pytest.mark.parametrize("persistent", [False, True])
def test_epochs_that_end_early_leave_the_random_numbers_where_torch_does(
    mixed_folder: Path, num_workers: int, persistent: bool
) -> None:
    """The batches requested before a break are made, and their draws count in the next epoch."""
    pipeline, num_native = PIPELINES["tensors"]
    assert_equals_torch(
        dataset_of(mixed_folder, pipeline),
        num_native,
        (1, 3, 1000, 0, 2, 1000),
        batch_size=2,
        shuffle=True,
        num_workers=num_workers,
        persistent_workers=persistent,
    )


@WORKERS
def test_subsets_and_concatenations_equal_torch(mixed_folder: Path, num_workers: int) -> None:
    pipeline, num_native = PIPELINES["images"]
    folder = dataset_of(mixed_folder, pipeline)
    dataset = ConcatDataset([Subset(folder, [4, 2, -1]), folder])
    assert_equals_torch(dataset, num_native, batch_size=4, num_workers=num_workers)


class Counting:
    """Equal to all others of its kind, with an array as the answer, and with its own state."""

    def __init__(self) -> None:
        self.num_calls = 0

    def __eq__(self, other: object) -> Any:
        return np.ones(3, bool)

    def __call__(self, image: torch.Tensor) -> torch.Tensor:
        self.num_calls += 1
        return image * self.num_calls


@pytest.mark.parametrize("is_shared", [False, True])
def test_parts_of_a_concatenation_use_each_their_own_transforms(mixed_folder: Path, is_shared: bool) -> None:
    def run(kind: Any) -> Any:
        countings = [Counting()] * 2 if is_shared else [Counting(), Counting()]
        steps = transforms.CenterCrop(20), transforms.ToTensor()
        dataset = ConcatDataset([dataset_of(mixed_folder, [*steps, counting]) for counting in countings])
        loader = kind(dataset, batch_size=4)
        if kind is fastload.DataLoader:
            assert loader.explain().startswith("partly native" if is_shared else "not native"), loader.explain()
        return [flat(batch) for batch in loader], [counting.num_calls for counting in countings]

    assert run(fastload.DataLoader) == run(torch_loader)


def mix(samples: list[Any]) -> dict[str, Any]:
    images, labels = default_collate(samples)
    weight = torch.distributions.Beta(0.8, 0.8).sample()
    order = torch.randperm(len(images))
    return {"images": weight * images + (1 - weight) * images[order], "labels": [labels, order], "weight": weight}


# Name -> (pipeline, target_transform, arguments).
SETTINGS: dict[str, tuple[str, Any, dict[str, Any]]] = {
    "a target_transform that draws": ("tensors", lambda label: label + torch.rand(2), {"batch_size": 4}),
    "a target_transform that makes a dict": ("tensors", lambda label: {"class": f"c{label}"}, {"batch_size": 4}),
    "a collate_fn that draws": ("tensors", None, {"batch_size": 4, "shuffle": True, "collate_fn": mix}),
    "samples alone": ("images", None, {"batch_size": None}),
}


@WORKERS
@pytest.mark.parametrize("name", SETTINGS)
def test_other_code_of_the_users_equals_torch(mixed_folder: Path, name: str, num_workers: int) -> None:
    pipeline, target_transform, arguments = SETTINGS[name]
    steps, num_native = PIPELINES[pipeline]
    dataset = dataset_of(mixed_folder, steps, target_transform)
    assert_equals_torch(dataset, num_native, num_workers=num_workers, **arguments)


@WORKERS
def test_inside_of_a_worker_it_draws_from_the_workers_generator(mixed_folder: Path, num_workers: int) -> None:
    pipeline, _ = PIPELINES["tensors"]

    def run(inner: Any, outer: Any) -> Any:
        torch.manual_seed(3)
        loader = inner(dataset_of(mixed_folder, pipeline), batch_size=3, shuffle=True)
        dataset = Made(lambda _: next(iter(loader)), 5)
        return [flat(batch) for batch in outer(dataset, batch_size=2, num_workers=num_workers)], torch.rand(1).item()

    theirs = run(torch_loader, torch_loader)
    assert run(lambda dataset, **others: PythonPartLoader(dataset, 3, **others), fastload.DataLoader) == theirs


# ---- rng="sample" ---------------------------------------------------------------------------------------------------


def test_with_draws_by_sample_the_bytes_depend_on_seed_epoch_and_sample_alone(mixed_folder: Path) -> None:
    pipeline, num_native = PIPELINES["images"]
    dataset = numbered(mixed_folder, pipeline)
    state = torch.get_rng_state()
    reference = [
        by_label(loader) for loader in [PythonPartLoader(dataset, num_native, "sample", seed=4)] for _ in range(2)
    ]
    assert reference[0] != reference[1]
    for arguments in ({"num_workers": 1}, {"num_workers": 2, "batch_size": 5}, {"sampler": range(15, -1, -1)}):
        loader = PythonPartLoader(dataset, num_native, "sample", seed=4, **arguments)
        assert [by_label(loader), by_label(loader)] == reference
        loader.set_epoch(1)
        assert by_label(loader) == reference[1]
    assert by_label(PythonPartLoader(dataset, num_native, "sample", seed=5)) != reference[0]
    torch.set_rng_state(state)


def test_with_draws_by_sample_no_two_samples_share_their_draws(mixed_folder: Path) -> None:
    pipeline = [transforms.CenterCrop(4), transforms.ToTensor(), lambda image: torch.rand(8)]
    found = by_label(PythonPartLoader(numbered(mixed_folder, pipeline), 2, "sample", seed=0))
    assert len({str(value) for value in found.values()}) == len(found) == 16


def test_with_draws_by_sample_collate_draws_by_batch(mixed_folder: Path) -> None:
    def collate(samples: list[Any]) -> Any:
        return torch.rand(3), [label for _, label in samples]

    dataset = numbered(mixed_folder, [transforms.CenterCrop(4), transforms.ToTensor()])
    found = []
    for num_workers in (0, 2):
        loader = PythonPartLoader(
            dataset, 2, "sample", seed=1, batch_size=4, num_workers=num_workers, collate_fn=collate
        )
        found.append([flat(batch) for batch in loader])
    assert found[0] == found[1]
    assert len({str(batch[1][0]) for batch in found[0]}) == 4


def test_the_head_draws_what_the_native_path_draws(mixed_folder: Path) -> None:
    """A pipeline gives the same crops whether a step after them runs in Python or not."""
    native = [*crop_flip(), transforms.ToTensor()]
    expected = by_label(fastload.DataLoader(numbered(mixed_folder, native), rng="sample", seed=7))
    with_python_part = numbered(mixed_folder, [*native, torch.clone])
    assert by_label(PythonPartLoader(with_python_part, 3, "sample", seed=7, num_workers=2)) == expected
