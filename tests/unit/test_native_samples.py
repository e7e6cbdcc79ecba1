"""NativeSamples, the data set whose samples native code begins: an ordinary data set, of which each worker has one."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch
from flat_values import flat
from image_folders import make_mixed_folder
from torchvision import transforms
from torchvision.datasets import ImageFolder

from fastload import SampleError
from fastload._iteration.python._native_samples import NativeSamples
from fastload._planning._plan import LoaderPlan
from fastload._workers._user_code import UserCode
from fastload.sources._lowering import lower_dataset
from fastload.transforms._lowering import lower_transform


class Brighter:
    """A transform of the user's, with a state."""

    def __init__(self) -> None:
        self.num_calls = 0

    def __call__(self, image: torch.Tensor) -> torch.Tensor:
        self.num_calls += 1
        return image + torch.rand(()) * self.num_calls


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_mixed_folder(tmp_path_factory.mktemp("samples") / "images")


def folder_of(root: Path) -> ImageFolder:
    steps = [transforms.RandomResizedCrop(24), transforms.ToTensor(), Brighter()]
    return ImageFolder(str(root), transforms.Compose(steps), lambda label: label + 1)


def samples_of(dataset: Any) -> NativeSamples:
    source = lower_dataset(dataset)
    lowered = lower_transform(source.transforms[0])
    part = LoaderPlan((), "torch", source, lowered).native_part()
    return NativeSamples(part, lowered.python_part, source.transforms[0], source.target_transform, open_cache=None)


def test_it_has_the_users_samples_and_draws_as_they_do(folder: Path) -> None:
    theirs, ours = folder_of(folder), samples_of(folder_of(folder))
    assert len(ours) == len(theirs)
    for index in (0, 3, -1, len(theirs) - 1):
        torch.manual_seed(index)
        expected = flat(theirs[index]), torch.rand(()).item()
        torch.manual_seed(index)
        assert (flat(ours[index]), torch.rand(()).item()) == expected
    for index in (len(theirs), -len(theirs) - 1):
        with pytest.raises(IndexError):
            ours[index]
    with pytest.raises(TypeError):
        ours["first"]


def test_it_counts_its_samples_until_they_are_taken(folder: Path, tmp_path: Path) -> None:
    dataset = folder_of(folder)
    dataset.samples = [*dataset.samples, (str(tmp_path / "missing.jpg"), 0)]
    samples = samples_of(dataset)
    for index in range(len(dataset) - 1):
        samples[index]
    with pytest.raises(SampleError):
        samples[-1]
    counters = samples.take_counters()
    assert counters["samples_native"] + counters["samples_fallback"] == len(dataset) - 1
    assert (counters["samples_failed"], counters["samples_python_tail"]) == (1, len(dataset) - 1)
    assert samples.take_counters()["samples_native"] == 0


def test_each_worker_has_one_with_a_decoder_of_its_own(folder: Path) -> None:
    samples = samples_of(folder_of(folder))
    code = UserCode(None, list, None, samples)
    own = [code.of_worker().samples for _ in range(2)]
    for each in own:
        each[0]
        assert each.plan is samples.plan
        assert each.transform is samples.transform
    assert len({id(each._decoder) for each in own}) == 2
    assert samples.transform.transforms[-1].num_calls == 2


def test_its_plan_refers_to_none_of_the_users_objects(folder: Path) -> None:
    dataset = folder_of(folder)
    source = dataclasses.replace(samples_of(dataset).plan.source)
    assert (source.transforms, source.target_transform, source._checks) == ((), None, ())
