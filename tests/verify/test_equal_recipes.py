"""torch's loader against fastload's with torch's random numbers: equal, and every change is blamed on its stage."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import recipes
import torch
from both_loaders import Threads
from image_folders import make_mixed_folder, save_jpeg
from parity_recipes import NORMALIZE, RECIPES, Views, one_view
from PIL import Image
from torch.utils.data import ConcatDataset, DataLoader, Subset
from torchvision import transforms as v1
from torchvision.datasets import DatasetFolder, ImageFolder

import fastload

CHANGED = 6  # the sample whose file is changed
BILINEAR, BICUBIC = v1.InterpolationMode.BILINEAR, v1.InterpolationMode.BICUBIC
OTHER_MEAN = (0.48, 0.45, 0.41)

Change = Callable[[int, Callable[[Path], object]], Path]


def compared(old: Any, new: Any = None, kind: Any = fastload.DataLoader, **arguments: Any) -> fastload.VerifyReport:
    """Compares torch's loader over `old` with fastload's over `new`, by default over the same data set."""
    return fastload.verify(DataLoader(old, **arguments), kind(new or old, **arguments))


def assert_equal(report: fastload.VerifyReport) -> None:
    assert report.is_equal, report
    assert report.samples_compared > 0
    assert not any("random generators" in note for note in report.notes), report


def arguments_for(num_workers: int, **more: Any) -> dict[str, Any]:
    """Returns the loader's arguments: without workers, or with persistent workers."""
    return {"batch_size": 3, "num_workers": num_workers, "persistent_workers": num_workers > 0, **more}


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Makes files of every kind, and two that cannot be loaded."""
    root = make_mixed_folder(tmp_path_factory.mktemp("mixed"))
    (root / "odd" / "broken.jpg").write_bytes((root / "class0" / "0000.JPEG").read_bytes()[:300])
    (root / "odd" / "text.png").write_text("no image")
    return root


# No differences.


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_is_equal(folder: Path, name: str, num_workers: int) -> None:
    dataset = ImageFolder(str(folder), RECIPES[name].make())
    arguments = arguments_for(num_workers, shuffle=True)
    report = compared(dataset, kind=Threads, **arguments)
    assert_equal(report)
    workers = {0: "no workers", 2: "2 threads"}[num_workers]
    way = "native" if RECIPES[name].is_native else "partly native"
    size = f"ImageFolder of 11 samples, batch_size=3, {workers}"
    assert report.new == f"<fastload.DataLoader: {size}>, RandomSampler, {way}"


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_fails_alike_and_goes_on_alike(mixed: Path, name: str, num_workers: int) -> None:
    report = compared(ImageFolder(str(mixed), RECIPES[name].make()), **arguments_for(num_workers))
    assert_equal(report)
    assert report.batches_failed_alike >= 1


@pytest.mark.parametrize("num_workers", [0, 2])
def test_views_are_equal(folder: Path, num_workers: int) -> None:
    crop = v1.Compose([v1.RandomResizedCrop(24), v1.ToTensor()])
    report = compared(
        ImageFolder(str(folder), fastload.MultiView([one_view(), crop, crop])), **arguments_for(num_workers)
    )
    assert_equal(report)
    assert report.new.endswith(", native")
    assert report.bytes_compared == 11 * (3 * 4 * (48 * 48 + 2 * 24 * 24) + 8)


def _collated_with_noise(samples: list[Any]) -> Any:
    images, labels = torch.utils.data.default_collate(samples)
    return {"image": images + torch.randn(images.shape) / 10, "label": labels}


@pytest.mark.parametrize("num_workers", [0, 2])
def test_python_in_the_batch_is_equal(training: ImageFolder, num_workers: int) -> None:
    labelled = ImageFolder(training.root, training.transform, target_transform=lambda label: torch.rand(2) + label)
    assert_equal(compared(labelled, **arguments_for(num_workers)))
    report = compared(training, **arguments_for(num_workers, collate_fn=_collated_with_noise))
    assert_equal(report)
    assert report.new.endswith(", partly native")


@pytest.mark.parametrize("num_workers", [0, 2])
def test_other_data_sets_are_equal(training: ImageFolder, num_workers: int) -> None:
    files = DatasetFolder(training.root, fastload.pil_loader, (".jpeg",), transform=training.transform)
    parts = ConcatDataset([Subset(training, [7, 2, 2]), files, fastload.ImageFolder(training.root, training.transform)])
    report = compared(parts, **arguments_for(num_workers, shuffle=True))
    assert_equal(report)
    assert report.new.endswith(", native")
    assert report.samples_compared == 25


# Every change on its stage.


def training_recipe(interpolation: Any = BILINEAR, mean: Any = recipes.MEAN) -> list[Any]:
    crop = v1.RandomResizedCrop(48, interpolation=interpolation)
    return [crop, v1.RandomHorizontalFlip(), v1.ToTensor(), v1.Normalize(mean, recipes.STD)]


def timm_recipe(interpolation: Any = BILINEAR, mean: Any = recipes.MEAN) -> list[Any]:
    crop, flip, *tensor = training_recipe(interpolation, mean)
    return [crop, flip, v1.ColorJitter(0.4, 0.4, 0.4, 0.1), v1.RandAugment(), *tensor, v1.RandomErasing(0.25)]


def blurred_recipe(interpolation: Any = BILINEAR, mean: Any = recipes.MEAN) -> list[Any]:
    crop, flip, *tensor = training_recipe(interpolation, mean)
    return [crop, flip, recipes.PythonBlur(5), *tensor]


def one_of(make: Callable[..., list[Any]]) -> Callable[..., Any]:
    return lambda **changes: v1.Compose(make(**changes))


def second_view(kind: Callable[[list[Any]], Any], make: Callable[..., list[Any]]) -> Callable[..., Any]:
    return lambda **changes: kind([one_of(make)(), one_of(make)(**changes)])


PIPELINES = {
    "training": one_of(training_recipe),
    "timm": one_of(timm_recipe),
    "with a Python part": one_of(blurred_recipe),
    "MultiView": second_view(fastload.MultiView, timm_recipe),
    "views of the user's own": second_view(lambda views: Views(*views), blurred_recipe),
}


@pytest.fixture(params=PIPELINES)
def pipeline(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Makes a pipeline that draws, with changes to `interpolation` and `mean`."""
    return PIPELINES[request.param]


@pytest.mark.parametrize(
    ("changes", "stage", "text"),
    [
        ({"interpolation": BICUBIC}, "resize", "RandomResizedCrop: interpolation InterpolationMode.BILINEAR against"),
        ({"mean": OTHER_MEAN}, "colour", "Normalize: mean (0.485, 0.456, 0.406) against (0.48, 0.45, 0.41)"),
    ],
)
def test_a_changed_setting_is_named(
    folder: Path, pipeline: Callable[..., Any], changes: Any, stage: str, text: str
) -> None:
    old, new = (ImageFolder(str(folder), pipeline(**settings)) for settings in ({}, changes))
    report = compared(old, new, **arguments_for(2))
    assert dict(report.stages) == {stage: 11}
    assert all(text in example.detail for example in report.examples), report
    if type(new.transform) is not v1.Compose:
        assert all(example.detail.startswith("view 2, transform ") for example in report.examples), report


def assert_drawn_otherwise(report: fastload.VerifyReport, count: int, known: str) -> None:
    """Checks that other draws are blamed if a native loader reports them, and else only known differences are named."""
    is_native = report.new.endswith(", native")
    assert dict(report.stages) == {"random numbers" if is_native else "values": count}
    for example in report.examples:
        if is_native:
            assert example.detail.startswith(f"{known}; drawn by torch against ")
            assert example.detail.endswith("; its pixels follow from these draws")
        else:
            assert example.detail == f"the images differ, and the cause is not known; known to differ: {known}"


def test_another_seed_is_proved_by_a_native_loaders_report(folder: Path, pipeline: Callable[..., Any]) -> None:
    dataset = ImageFolder(str(folder), pipeline())
    old, new = (
        kind(dataset, 4, num_workers=2, generator=torch.Generator().manual_seed(seed))
        for seed, kind in ((1, DataLoader), (2, fastload.DataLoader))
    )
    assert_drawn_otherwise(fastload.verify(old, new), 11, "the loaders' generators begin in other states")


def test_another_number_of_workers_is_proved_by_a_native_loaders_report(
    folder: Path, pipeline: Callable[..., Any]
) -> None:
    dataset = ImageFolder(str(folder), pipeline())
    report = fastload.verify(DataLoader(dataset, 4, num_workers=1), fastload.DataLoader(dataset, 4, num_workers=2))
    # Worker 0 draws batch 0 in both, from the same seed.
    assert [batch.batch for batch in report.differences] == [1, 2]
    assert_drawn_otherwise(report, 7, "num_workers 1 against 2: each worker has random numbers of its own")


def test_counted_random_numbers_are_proved_by_a_native_loaders_report(
    folder: Path, pipeline: Callable[..., Any]
) -> None:
    dataset = ImageFolder(str(folder), pipeline())
    new = fastload.DataLoader(dataset, 4, rng="sample", seed=1)
    assert_drawn_otherwise(fastload.verify(DataLoader(dataset, 4), new), 11, "rng='torch' against rng='sample'")


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_changed_file_is_named_and_changes_no_other_sample(
    folder: Path, pipeline: Callable[..., Any], changed_copy: Change, tmp_path: Path, num_workers: int
) -> None:
    old = ImageFolder(str(folder), pipeline())
    original = Image.open(old.samples[CHANGED][0]).convert("RGB")
    new = ImageFolder(str(changed_copy(CHANGED, lambda path: save_jpeg(path, 99, *original.size))), old.transform)
    assert dict(compared(old, new, **arguments_for(num_workers)).stages) == {"read": 1}
    original.save(new.samples[CHANGED][0], "JPEG", quality=60)
    report = compared(old, new, **arguments_for(num_workers))
    assert dict(report.stages) == {"read": 1}
    assert report.worst is not None
    paths = [dataset.samples[CHANGED][0] for dataset in (old, new)]
    assert report.worst.detail == f"other bytes in the file, other pixels from it: {paths[0]} against {paths[1]}"
    assert (report.worst.batch, report.worst.position) == (2, 0)
    assert (report.worst.old_index, report.worst.new_index) == (CHANGED, CHANGED)
    assert [report.worst.old_path, report.worst.new_path] == paths


def test_samples_behind_one_that_draws_otherwise_say_so(folder: Path, changed_copy: Change) -> None:
    old = ImageFolder(str(folder), v1.Compose(training_recipe()))
    copy = changed_copy(CHANGED, lambda path: save_jpeg(path, 99, 60, 400))  # its crop takes more tries
    report = compared(old, ImageFolder(str(copy), old.transform), batch_size=4)
    assert dict(report.stages) == {"read": 1, "random numbers": 4}
    behind = [example for example in report.examples if example.stage == "random numbers"]
    assert all(
        "an earlier sample differs, and torch's random numbers continue from where" in one.detail for one in behind
    )


def test_behind_a_file_that_only_one_loader_can_read_native_code_is_not_blamed(
    folder: Path, changed_copy: Change
) -> None:
    # Other erased boxes leave the same picture, and a Python part reports no draws.
    erasing = v1.Compose([v1.Resize((40, 40)), v1.ToTensor(), v1.RandomErasing(1.0, scale=(0.02, 0.03)), NORMALIZE])
    old = ImageFolder(str(folder), erasing)
    new = ImageFolder(str(changed_copy(CHANGED, lambda path: path.write_text("no image"))), erasing)
    report = compared(old, new, batch_size=4)
    assert dict(report.stages) == {"decode": 1, "values": 3}
    assert "the cause is not known; known to differ: an earlier sample differs" in report.examples[-1].detail
