"""Replaying a native loader's reports gives what it delivered: for every kind of step, in every recipe."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from image_folders import make_mixed_folder
from parity_recipes import HAS_FAST_BLUR, NORMALIZE, RECIPES, one_view
from torch.utils.data import Subset
from torchvision import transforms as v1
from torchvision.datasets import ImageFolder
from torchvision.transforms import v2

import fastload
from fastload._iteration.native._report import STEP_FIELDS
from fastload._tools.verify._causes import value_at
from fastload._tools.verify._compare import difference, split_batch
from fastload._tools.verify._replay import apply_steps, replay_sample
from fastload._tools.verify._rng_states import Generators
from fastload._tools.verify._runner import LoaderRunner
from fastload._tools.verify._sample_parts import SampleParts, find_parts

KINDS = set(STEP_FIELDS) - (set() if HAS_FAST_BLUR else {"gaussian_blur"})
BLUR = [v1.GaussianBlur((5, 3))] if HAS_FAST_BLUR else []


def every_kind() -> Any:
    return v1.Compose(
        [
            v1.RandomResizedCrop(36, interpolation=v1.InterpolationMode.LANCZOS),
            v1.RandomHorizontalFlip(),
            v1.RandomVerticalFlip(),
            v1.RandomCrop(36, padding=3, padding_mode="reflect"),
            v1.Pad(2, fill=(9, 80, 200)),
            v1.ColorJitter(0.4, 0.4, 0.4, 0.1),
            v1.RandomGrayscale(0.3),
            v1.RandomPosterize(3, 0.3),
            v1.RandomSolarize(100, 0.3),
            v1.RandomInvert(0.3),
            v1.RandomAutocontrast(0.3),
            v1.RandomEqualize(0.3),
            v1.RandomAdjustSharpness(2, 0.3),
            v1.RandAugment(),
            *BLUR,
            v1.ToTensor(),
            NORMALIZE,
            v1.RandomErasing(0.5, value=(0.5, 1.5, -1.0)),
        ]
    )


def erased_grey_levels() -> Any:
    return v2.Compose(
        [v2.RandomResizedCrop(30), v2.TrivialAugmentWide(), v2.PILToTensor(), v2.RandomErasing(1.0, value=7)]
    )


def quarter_turns() -> Any:
    return v1.Compose([v1.RandomResizedCrop(30), v1.TrivialAugmentWide(num_magnitude_bins=4), v1.ToTensor()])


def views() -> Any:
    return fastload.MultiView([one_view(), one_view(), every_kind(), v1.Compose([v1.Resize((20, 30)), v1.ToTensor()])])


PIPELINES = {name: recipe.make for name, recipe in RECIPES.items() if recipe.is_native}
PIPELINES |= {
    "every kind": every_kind,
    "erased grey levels": erased_grey_levels,
    "quarter turns": quarter_turns,
    "views": views,
}


def delivered_and_replayed(dataset: Any, rng: Any) -> list[tuple[Any, Any, Any]]:
    """Returns each sample's report, the loader's result and the replayed one."""
    loader = fastload.DataLoader(dataset, 4, rng=rng)
    generators = Generators([loader])
    runner = LoaderRunner(loader, generators, seed=3)
    assert runner.is_native, loader.explain()
    runner.start()
    results = []
    for delivery in iter(runner.next, None):
        assert delivery.error is None
        samples = split_batch(delivery.batch, len(delivery.reports or ()))
        for report, sample in zip(delivery.reports or (), samples or (), strict=True):
            parts = find_parts(dataset, report.index, generators)
            assert isinstance(parts, SampleParts), parts
            replayed = replay_sample(parts.image, parts.steps, report.views, generators)
            results.append((report, value_at(sample, parts.where), replayed))
    runner.close()
    return results


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_mixed_folder(tmp_path_factory.mktemp("mixed"))


@pytest.mark.parametrize("name", PIPELINES)
@pytest.mark.parametrize("rng", ["torch", "sample"])
def test_a_report_done_again_gives_the_delivered_sample(mixed: Path, name: str, rng: str) -> None:
    files = ImageFolder(str(mixed))
    large = [index for index, (path, _) in enumerate(files.samples) if "tiny" not in path]
    dataset = Subset(ImageFolder(str(mixed), PIPELINES[name]()), large)
    results = delivered_and_replayed(dataset, rng)
    assert len(results) == len(large)
    for report, delivered, replayed in results:
        assert replayed is not None, report
        assert difference(delivered, replayed) is None, report


def test_every_kind_of_step_is_among_those_done_again(mixed: Path) -> None:
    kinds = set()
    for make in (every_kind, erased_grey_levels, quarter_turns):
        dataset = Subset(ImageFolder(str(mixed), make()), [0, 1, 2, 3] * 30)
        for report, delivered, replayed in delivered_and_replayed(dataset, "torch"):
            kinds |= {step.kind for view in report.views for step in view}
            assert all(len(step) == len(step._fields) for view in report.views for step in view), report
            assert difference(delivered, replayed) is None, report
    assert kinds == KINDS - {"rotate180"}  # no policy of torchvision's uses it
    image = ImageFolder(str(mixed))[0][0]
    assert apply_steps(image, [("rotate180",)]).tobytes() == image.rotate(180).tobytes()


def test_what_cannot_be_done_again_is_unknown(mixed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = ImageFolder(str(mixed), PIPELINES["resnet"]())
    image, steps, generators = ImageFolder(str(mixed))[0][0], dataset.transform.transforms, Generators([dataset])
    report = [("crop", 0, 0, 30, 30, 0, 0, 0, 0), ("resize", 56, 56, "bilinear")]
    assert replay_sample(image, steps, [report], generators) is not None
    assert replay_sample(image, steps, [[*report, ("swirl", 3)]], generators) is None
    with pytest.raises(ValueError, match="reported step of unknown kind 'swirl'"):
        apply_steps(image, [("swirl", 3)])
    assert replay_sample(image, steps, [[*report, ("resize", 56, 56, "sinc")]], generators) is None
    assert replay_sample(image, steps, [report, report], generators) is None
    assert replay_sample(image, steps[:2], [report], generators) is None  # the result is an image
    drawing = [*steps, lambda tensor: tensor + torch.rand(1)]
    assert replay_sample(image, drawing, [report], generators) is None
    monkeypatch.delitem(sys.modules, "torchvision.transforms.functional")
    assert apply_steps(image, [("hflip",), ("rotate90",)]).size == image.size[::-1]
    assert replay_sample(image, steps, [[*report, ("brightness", 0.5)]], generators) is None
    with pytest.raises(KeyError, match="torchvision"):
        apply_steps(image, [("brightness", 0.5)])
