"""Comparisons of loaders whose samples are begun by native code and finished by Python."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import recipes
import torch
from both_loaders import Threads
from torch.utils.data import DataLoader
from torchvision import transforms as v1
from torchvision.datasets import ImageFolder

import fastload
from fastload._tools.verify._rng_states import Generators
from fastload._tools.verify._runner import LoaderRunner


def pipeline(evaluation: ImageFolder, *steps: Any) -> ImageFolder:
    """Returns a pipeline of a crop that draws, followed by `steps`."""
    return ImageFolder(evaluation.root, v1.Compose([v1.RandomResizedCrop(32), *steps]))


def tensors(*steps: Any) -> list[Any]:
    return [v1.ToTensor(), v1.Normalize(recipes.MEAN, recipes.STD), *steps]


def compared(old: Any, new: Any, **arguments: Any) -> fastload.VerifyReport:
    """Compares torch's loader with fastload's, which has a Python part."""
    new_loader = fastload.DataLoader(new, 4, **arguments)
    assert new_loader.explain().startswith("partly native")
    return fastload.verify(DataLoader(old, 4, **arguments), new_loader)


@pytest.mark.parametrize("has_python_part", [False, True])
def test_indices_are_not_known_where_batches_come_as_they_are_done(
    evaluation: ImageFolder, has_python_part: bool
) -> None:
    dataset = pipeline(evaluation, recipes.PythonBlur(3), *tensors()) if has_python_part else evaluation
    runner = LoaderRunner(
        (loader := fastload.DataLoader(dataset, 2, num_workers=2, in_order=False)), Generators([loader]), seed=0
    )
    runner.start()
    deliveries = list(iter(runner.next, None))
    runner.close()
    assert [delivery.indices is None for delivery in deliveries] == [has_python_part] * len(loader)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_another_sigma_is_colour(evaluation: ImageFolder, num_workers: int) -> None:
    old, new = (pipeline(evaluation, recipes.PythonBlur(5, sigma), *tensors()) for sigma in ((0.1, 2.0), (0.1, 3.0)))
    report = compared(old, new, num_workers=num_workers)
    assert dict(report.stages) == {"colour": 11}
    assert "transform 2 of 4, PythonBlur: sigma (0.1, 2.0) against (0.1, 3.0)" in str(report)


def noise(amount: float) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda image: image + amount * torch.randn_like(image)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_function_that_adds_noise_is_named_where_it_shows(evaluation: ImageFolder, num_workers: int) -> None:
    without, little, more = (
        pipeline(evaluation, *tensors(*steps)) for steps in ((), (v1.Lambda(noise(0.1)),), (v1.Lambda(noise(0.2)),))
    )
    assert compared(little, little, num_workers=num_workers).is_equal
    report = compared(little, more, num_workers=num_workers)  # the functions look alike
    assert dict(report.stages) == {"values": 11}
    assert {example.detail for example in report.examples} == {"the images differ, and the cause is not known"}
    report = compared(without, little, num_workers=num_workers)
    assert dict(report.stages) == {"values": 11}
    assert "transform 4 of 4, nothing against" in str(report)


def numpy_noise(image: torch.Tensor) -> torch.Tensor:
    return image + np.random.rand() / 10


def python_noise(image: torch.Tensor) -> torch.Tensor:
    return image + random.random() / 10


@pytest.mark.parametrize("function", [numpy_noise, python_noise])
def test_what_threads_draw_from_random_and_numpy_is_what_torchs_workers_draw(
    evaluation: ImageFolder, function: Any
) -> None:
    dataset = pipeline(evaluation, *tensors(function))
    for num_workers in (0, 1, 2):
        assert compared(dataset, dataset, num_workers=num_workers).is_equal


def _brighter(batch: Any) -> Any:
    images, labels = torch.utils.data.default_collate(batch)
    return [images + 0.1, labels]


def test_what_collate_fn_does_is_not_blamed_on_native_code(evaluation: ImageFolder) -> None:
    report = fastload.verify(DataLoader(evaluation, 4), fastload.DataLoader(evaluation, 4, collate_fn=_brighter))
    assert dict(report.stages) == {"values": 11}
    dataset = pipeline(evaluation, recipes.PythonBlur(5), *tensors())
    report = fastload.verify(DataLoader(dataset, 4), fastload.DataLoader(dataset, 4, collate_fn=_brighter))
    assert dict(report.stages) == {"values": 11}
    known = "collate_fn default_collate against _brighter"
    assert {example.detail for example in report.examples} == {
        f"the images differ, and the cause is not known; known to differ: {known}"
    }


class _Faulty(fastload.DataLoader[Any]):
    """A loader that adds a tenth to the second sample of every batch."""

    def __iter__(self) -> Any:
        for images, labels in super().__iter__():
            images[1] += 0.1
            yield [images, labels]


def test_behind_a_python_part_that_draws_nothing_the_loader_is_named_and_no_cause(evaluation: ImageFolder) -> None:
    drawing = pipeline(evaluation, recipes.PythonBlur(5), *tensors())
    steady = ImageFolder(evaluation.root, v1.Compose([v1.Resize(40), v1.CenterCrop(32), *tensors(torch.clone)]))
    for dataset, what in (
        (drawing, "the images differ"),
        (steady, "the new loader's image is not what its data set gives"),
    ):
        report = fastload.verify(DataLoader(dataset, 4), _Faulty(dataset, 4))
        assert dict(report.stages) == {"values": 3}
        assert {example.detail for example in report.examples} == {f"{what}, and the cause is not known"}


class Counting:
    """Adds the number of its calls."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, image: torch.Tensor) -> torch.Tensor:
        self.count += 1
        return image + self.count


def test_what_threads_share_is_named_and_no_native_code_blamed(evaluation: ImageFolder) -> None:
    dataset = pipeline(evaluation, *tensors(Counting()))
    new = Threads(dataset, 4, num_workers=2)
    report = fastload.verify(DataLoader(dataset, 4, num_workers=2), new)
    assert not report.is_equal
    assert set(report.stages) == {"values"}
    clause = "worker threads share what the data set, its transforms and collate_fn hold"
    assert all(clause in example.detail for example in report.examples)
