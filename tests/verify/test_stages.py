"""Every change that can be proved is blamed on its stage; for any other the report says that the cause is not known."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import recipes
import torch
from bad_folders import ListOfFiles
from cached_epochs import let_go_of_stores
from image_folders import save_jpeg, synthetic_image
from numbered import Made
from parity_recipes import Preset
from PIL import Image, PngImagePlugin
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset
from torchvision import transforms
from torchvision.datasets import DatasetFolder, ImageFolder
from torchvision.transforms import v2
from torchvision.transforms._presets import ImageClassification
from wrong_records import make_wrong, make_wrong_coefficients

import fastload
from fastload._decode_cache import _build, _file_records
from fastload.cli import main

TAIL = [transforms.ToTensor(), transforms.Normalize(recipes.MEAN, recipes.STD)]
CHANGED = 6  # the sample whose file is changed

Change = Callable[[int, Callable[[Path], object]], Path]


def stages(old: Any, new: Any, **arguments: Any) -> dict[str, int]:
    report = fastload.verify(DataLoader(old, 4), fastload.DataLoader(new, 4), **arguments)
    assert report.is_equal == (not report.stages)
    assert sum(report.stages.values()) == sum(sum(batch.stages.values()) for batch in report.differences)
    return dict(report.stages)


def details(report: fastload.VerifyReport) -> set[str]:
    return {example.detail for example in report.examples}


def with_transforms(dataset: ImageFolder, *steps: Any) -> ImageFolder:
    return ImageFolder(dataset.root, transforms.Compose(list(steps)))


# Transforms that differ. Each entry: the old loader's, the new one's, the stage of all samples, a part of each detail.

RESIZE, CROP = transforms.Resize(40), transforms.CenterCrop(32)
USUAL = [RESIZE, CROP, *TAIL]  # the transforms of `evaluation`


def v2_pipeline(mean: Any) -> Any:
    tensor = [v2.ToImage(), v2.ToDtype(torch.float32, scale=True), v2.Normalize(mean, recipes.STD)]
    return v2.Compose([v2.Resize(40), v2.CenterCrop(32), *tensor])


def preset(size: int) -> Any:
    return Preset(transforms.Compose([ImageClassification(crop_size=32, resize_size=size)]))


def rotated(degrees: int) -> list[Any]:
    applied = transforms.RandomApply([transforms.Grayscale(3), transforms.RandomRotation(degrees)], p=1.0)
    return [RESIZE, applied, CROP, *TAIL]


def rarely_turned(degrees: tuple[int, int], mean: float) -> list[Any]:
    turned = transforms.RandomApply([transforms.RandomAffine(degrees)], p=0.4)  # not applied at the first trial
    return [RESIZE, turned, CROP, transforms.ToTensor(), transforms.Normalize(mean, 0.2)]


def always(*steps: Any) -> Any:
    return transforms.RandomApply([*steps], p=1.0)


class _Shift:
    """A transform of the user's: moves the image by some columns."""

    def __init__(self, columns: int) -> None:
        self._columns = columns

    def __call__(self, image: Image.Image) -> Image.Image:
        return Image.fromarray(np.roll(np.asarray(image), self._columns, axis=1))


class _Nameless(_Shift):
    """A transform whose repr raises."""

    def __repr__(self) -> str:
        raise RuntimeError("no name")


class _Brighten(_Shift):
    """A transform of the user's: adds to every value."""

    def __call__(self, image: Image.Image) -> Image.Image:
        return Image.fromarray(np.asarray(image) // 2 + np.uint8(self._columns))


BICUBIC = transforms.InterpolationMode.BICUBIC
OTHER_MEAN = [transforms.ToTensor(), transforms.Normalize((0.485, 0.456, 0.407), recipes.STD)]
ALIKE = "each loader agrees with its data set: the transforms make different images of one"
# Old and new first transform, before the crop.
FIRST_STEPS: dict[str, tuple[Any, Any, str, str]] = {
    "an interpolation": (
        *(RESIZE, transforms.Resize(40, BICUBIC), "resize"),
        "1 of 4, Resize: interpolation InterpolationMode.BILINEAR against InterpolationMode.BICUBIC",
    ),
    "a size": (RESIZE, transforms.Resize(41), "resize", "1 of 4, Resize: size 40 against 41"),
    "a scale": (
        *(transforms.RandomResizedCrop(40), transforms.RandomResizedCrop(40, scale=(0.5, 1)), "resize"),
        "1 of 4, RandomResizedCrop: scale (0.08, 1.0) against (0.5, 1)",
    ),
    "a brightness": (
        *(transforms.ColorJitter(brightness=0.1), transforms.ColorJitter(brightness=0.4), "colour"),
        "1 of 4, ColorJitter: brightness (0.9, 1.1) against (0.6, 1.4)",
    ),
}
# A transform that only the new loader has, before all others.
ADDED: dict[str, tuple[Any, str, str]] = {
    "a flip": (transforms.RandomHorizontalFlip(1.0), "resize", "RandomHorizontalFlip(p=1.0)"),
    "an inversion": (transforms.RandomInvert(1.0), "colour", "RandomInvert(p=1.0)"),
    "colours": (always(transforms.Grayscale(3), transforms.RandomInvert(1.0)), "colour", "RandomApply( p=1.0 "),
    "colour and geometry": (always(transforms.Grayscale(3), transforms.RandomVerticalFlip(1.0)), "values", "RandomAp"),
    "a container in another": (always(always(transforms.RandomVerticalFlip(1.0))), "resize", "RandomApply( p=1.0 "),
    "a function": (transforms.Lambda(lambda image: image.rotate(180)), "values", "Lambda()"),
    "an own transform": (_Shift(3), "values", "<test_stages._Shift object>"),
    "one that cannot be named": (_Nameless(3), "values", "_Nameless"),
}
CHANGES: dict[str, tuple[Any, Any, str, str]] = {
    **{name: ([old, CROP, *TAIL], [new, CROP, *TAIL], *found) for name, (old, new, *found) in FIRST_STEPS.items()},
    **{
        f"{name} more": (USUAL, [step, *USUAL], stage, f"transform 1 of 5, nothing against {text}")
        for name, (step, stage, text) in ADDED.items()
    },
    "a flip less": (
        *([transforms.RandomHorizontalFlip(1.0), *USUAL], USUAL, "resize"),
        "transform 1 of 5, RandomHorizontalFlip(p=1.0) against nothing",
    ),
    "a mean": (USUAL, [RESIZE, CROP, *OTHER_MEAN], "colour", "4 of 4, Normalize: mean (0.485, 0.456, 0.406) against"),
    "an output type": (
        *(USUAL, [*USUAL, transforms.ConvertImageDtype(torch.float16)], "rounding"),
        "transform 5 of 5, nothing against ConvertImageDtype()",
    ),
    "two, of which the first counts": (
        *(USUAL, [RESIZE, transforms.CenterCrop(31), *OTHER_MEAN], "resize"),
        "transform 2 of 4, CenterCrop: size (32, 32) against (31, 31)",
    ),
    "one inside of RandomApply": (rotated(10), rotated(30), "resize", "transform 2 of 5, RandomApply"),
    "a random one before one that always shows": (
        *(rarely_turned((20, 21), 0.4), rarely_turned((40, 41), 0.5), "resize"),
        "transform 2 of 5, RandomApply",
    ),
    "torchvision's v2": (v2_pipeline(recipes.MEAN), v2_pipeline([0.4] * 3), "colour", "transform 5 of 5, Normalize: "),
    "presets": (preset(40), preset(41), "resize", "transform 1 of 5, Resize: size [40] against [41]"),
    "own transforms by one level": ([_Brighten(3), *USUAL], [_Brighten(4), *USUAL], "values", ALIKE),
    "own transforms by many": ([_Brighten(3), *USUAL], [_Brighten(30), *USUAL], "values", ALIKE),
    "own transforms of torchvision's image type": (
        *(v2.Compose([_Brighten(level), v2.Resize((32, 32)), v2.ToImage()]) for level in (3, 30)),
        *("values", ALIKE),
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_transform_is_named_with_its_stage(folder: Path, name: str) -> None:
    *pipelines, stage, text = CHANGES[name]
    old, new = (
        ImageFolder(str(folder), transforms.Compose(steps) if isinstance(steps, list) else steps) for steps in pipelines
    )
    report = fastload.verify(DataLoader(old, 4), fastload.DataLoader(new, 4))
    num_different = 10 if name == "one inside of RandomApply" else 11  # one angle is too small to move a pixel
    assert dict(report.stages) == {stage: num_different}
    assert all(text in example.detail for example in report.examples), report


def test_equal_transforms_of_different_objects_are_equal(evaluation: ImageFolder) -> None:
    assert stages(*(with_transforms(evaluation, _Brighten(3), *USUAL) for _ in range(2))) == {}
    assert stages(*(ImageFolder(evaluation.root, v2_pipeline(recipes.MEAN)) for _ in range(2))) == {}


def test_a_rare_transform_is_found_by_its_probability(evaluation: ImageFolder) -> None:
    old, new = (Subset(with_transforms(evaluation, transforms.RandomInvert(p), *USUAL), [0, 1] * 40) for p in (0, 0.03))
    report = fastload.verify(DataLoader(old, 4), DataLoader(new, 4))
    assert list(report.stages) == ["colour"]
    assert 0 < report.stages["colour"] < 20
    assert "RandomInvert: p 0 against 0.03" in str(report)


# A file.


def test_a_file_of_other_bytes_and_equal_pixels_is_no_difference(evaluation: ImageFolder, changed_copy: Change) -> None:
    original = Image.open(evaluation.samples[CHANGED][0]).convert("RGB")
    note = PngImagePlugin.PngInfo()
    note.add_text("note", "other bytes")
    copy = changed_copy(CHANGED, lambda path: original.save(path, "PNG", pnginfo=note))
    assert stages(evaluation, ImageFolder(str(copy), evaluation.transform)) == {}


def test_a_swapped_file_and_a_changed_mean_are_told_apart(evaluation: ImageFolder, changed_copy: Change) -> None:
    copy = changed_copy(CHANGED, lambda path: save_jpeg(path, 99, 120, 100))
    new = ImageFolder(
        str(copy), transforms.Compose([*evaluation.transform.transforms[:-1], transforms.Normalize(0.4, 0.2)])
    )
    assert stages(evaluation, new) == {"read": 1, "colour": 10}


def _half_scale(path: str) -> Image.Image:
    image = Image.open(path)
    image.draft("RGB", (image.width // 2, image.height // 2))
    return image.convert("RGB").resize((image.width * 2, image.height * 2))


def test_another_decoder_of_the_same_file_is_decode(evaluation: ImageFolder) -> None:
    new = DatasetFolder(evaluation.root, _half_scale, (".jpeg",), transform=evaluation.transform)
    assert set(stages(evaluation, new)) == {"decode"}


def test_other_images_of_no_file_have_no_stage(evaluation: ImageFolder) -> None:
    images = [ImageFolder(evaluation.root, transform) for transform in (None, lambda image: image.rotate(180))]
    report = fastload.verify(*(DataLoader(_Wrapped(inner, evaluation.transform), 4) for inner in images))
    assert dict(report.stages) == {"values": 11}
    assert details(report) == {"the data sets give other images before any transform"}


def test_a_label_is_label(evaluation: ImageFolder) -> None:
    new = ImageFolder(evaluation.root, evaluation.transform)
    new.samples = [(path, 7 if index == CHANGED else label) for index, (path, label) in enumerate(new.samples)]
    report = fastload.verify(DataLoader(evaluation, 4), fastload.DataLoader(new, 4))
    assert dict(report.stages) == {"label": 1}
    assert report.worst is not None
    assert report.worst.detail == f"{evaluation.samples[CHANGED][1]} against 7"
    assert report.worst.differing_bytes == 1


# Draws.


def test_another_number_of_workers_changes_nothing_without_draws(evaluation: ImageFolder) -> None:
    assert fastload.verify(DataLoader(evaluation, 4, num_workers=1), DataLoader(evaluation, 4, num_workers=2)).is_equal


def test_another_seed_is_random_numbers(training: ImageFolder) -> None:
    old, new = (fastload.DataLoader(training, 4, rng="sample", seed=seed) for seed in (1, 2))
    report = fastload.verify(old, new)
    assert dict(report.stages) == {"random numbers": 11}
    assert "seed 1 against 2" in str(report)


class _Unsteady:
    """A transform whose random numbers do not depend on any seed."""

    def __call__(self, image: Image.Image) -> Image.Image:
        noise = np.random.default_rng().integers(0, 50, (image.height, image.width, 3), dtype=np.uint8)
        return Image.fromarray(np.asarray(image) // 2 + noise)


class _Counting:
    """A transform that makes another image at each call."""

    def __init__(self) -> None:
        self.calls = itertools.count()

    def __call__(self, image: Image.Image) -> Image.Image:
        return Image.fromarray(np.asarray(image) // 2 + np.uint8(next(self.calls) % 100))


@pytest.mark.parametrize(("kind", "num_differing"), [(_Unsteady, 11), (_Counting, 7)])
def test_a_data_set_that_gives_another_sample_each_time_is_named(
    evaluation: ImageFolder, kind: Any, num_differing: int
) -> None:
    """The first worker's copy counts the first batch as the caller does."""
    dataset = with_transforms(evaluation, kind(), *evaluation.transform.transforms)
    report = fastload.verify(DataLoader(dataset, 4), fastload.DataLoader(dataset, 4, num_workers=2))
    assert dict(report.stages) == {"values": num_differing}
    assert details(report) == {"the data set gives another sample each time, also from equal generators"}


# Order.


def test_another_order_is_order_where_the_indices_differ(evaluation: ImageFolder) -> None:
    order = list(range(11))
    order[2], order[9] = order[9], order[2]
    report = fastload.verify(DataLoader(evaluation, 4), fastload.DataLoader(evaluation, 4, sampler=order))
    assert dict(report.stages) == {"order": 2}
    assert [example.detail for example in report.examples] == ["index 2 against 9", "index 9 against 2"]


def test_another_order_of_equal_samples_is_order_too(evaluation: ImageFolder) -> None:
    twice = Subset(evaluation, [0, 0])
    report = fastload.verify(DataLoader(twice, 2), DataLoader(twice, 2, sampler=[1, 0]))
    assert dict(report.stages) == {"order": 2}
    assert report.differences[0].differing_bytes == 0


def test_shuffling_from_another_generator_is_order(evaluation: ImageFolder) -> None:
    old, new = (
        kind(evaluation, 4, shuffle=True, generator=torch.Generator().manual_seed(seed))
        for kind, seed in ((DataLoader, 1), (fastload.DataLoader, 2))
    )
    assert set(fastload.verify(old, new).stages) == {"order"}


def test_a_loader_that_ends_earlier_is_order(evaluation: ImageFolder) -> None:
    old, new = DataLoader(evaluation, 4), fastload.DataLoader(evaluation, 4, drop_last=True)
    report = fastload.verify(old, new)
    assert dict(report.stages) == {"order": 3}
    assert "the new loader ends after 2 batches, the old one gives 3" in str(report)
    assert "the old loader ends after 2 batches, the new one gives 3" in str(fastload.verify(new, old))
    assert (report.batches_compared, report.samples_compared) == (3, 11)


def test_another_batch_size_is_order_from_where_the_samples_part(evaluation: ImageFolder) -> None:
    report = fastload.verify(DataLoader(evaluation, 4), fastload.DataLoader(evaluation, 5), batches=1)
    assert dict(report.stages) == {"order": 1}
    assert "batches of 4 and 5 samples" in str(report)


# Data sets whose samples cannot be taken apart.


def _pairs(offset: float = 0.0, label_offset: int = 0) -> Made:
    """Makes tensors without files."""
    return Made(lambda index: (torch.full((3, 2, 2), index + offset * (index == 3)), index + label_offset), 5)


def test_a_data_set_without_transform_gets_values_and_the_reason(evaluation: ImageFolder) -> None:
    assert stages(_pairs(), _pairs()) == {}
    report = fastload.verify(DataLoader(_pairs(), 2), fastload.DataLoader(_pairs(0.5), 2))
    assert dict(report.stages) == {"values": 1}
    assert report.worst is not None
    assert "no attribute `transform`" in report.worst.detail
    assert report.worst.max_abs_difference == 0.5
    assert report.worst.where == "[0][0, 0, 0]"
    assert stages(_pairs(), _pairs(label_offset=1)) == {"label": 5}


class _Wrapped(Dataset[Any]):
    """A data set of the user's that applies its own transform to the samples of another one."""

    def __init__(self, inner: Any, transform: Any) -> None:
        self.inner = inner
        self.transform = transform

    def __len__(self) -> int:
        return len(self.inner)

    def __getitem__(self, index: int) -> Any:
        image, label = self.inner[index]
        return {"image": self.transform(image), "label": label}


def test_own_data_sets_with_a_transform_are_looked_into(evaluation: ImageFolder) -> None:
    plain = ImageFolder(evaluation.root)
    old = _Wrapped(plain, evaluation.transform)
    new = _Wrapped(
        plain, with_transforms(evaluation, transforms.Resize(44), transforms.CenterCrop(32), *TAIL).transform
    )
    assert stages(old, old) == {}
    assert stages(old, new) == {"resize": 11}


class _Stream(IterableDataset[Any]):
    """Tensors without an index."""

    def __init__(self, values: list[float]) -> None:
        self.values = values

    def __iter__(self) -> Any:
        return (torch.full((2,), value) for value in self.values)


def test_samples_without_an_index_are_recognised_in_another_place() -> None:
    assert stages(_Stream([1, 2, 3, 4, 5]), _Stream([1, 2, 3, 4, 5])) == {}
    assert stages(_Stream([1, 2, 3, 4, 5]), _Stream([1, 3, 2, 4, 6])) == {"order": 2, "values": 1}


def _as_tuple(batch: Any) -> Any:
    return tuple(torch.utils.data.default_collate(batch))


def _times_two(batch: Any) -> Any:
    images, labels = torch.utils.data.default_collate(batch)
    return [images * 2, labels]


def test_another_container_is_structure(evaluation: ImageFolder) -> None:
    report = fastload.verify(DataLoader(evaluation, 4), DataLoader(evaluation, 4, collate_fn=_as_tuple))
    assert dict(report.stages) == {"structure": 11}
    assert "list against tuple" in str(report)


def test_batches_whose_difference_no_sample_shows_still_differ(
    evaluation: ImageFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fastload._tools.verify._runner.split_batch", lambda batch, count: [{} for _ in range(count)])
    report = fastload.verify(DataLoader(evaluation, 4), DataLoader(evaluation, 4, collate_fn=_times_two))
    assert dict(report.stages) == {"structure": 3}
    assert report.exit_code == 1


# Faults of native code, which has no known ones: they are planted into the results of a native iterator.


class _FaultyIterator:
    def __init__(self, iterator: Any, fault: Callable[[torch.Tensor], None]) -> None:
        self._iterator = iterator
        self._fault = fault
        self.batch_report = iterator.batch_report

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> Any:
        images, labels = next(self._iterator)
        self._fault(images)
        return [images, labels]


class _Faulty(fastload.DataLoader[Any]):
    fault: Callable[[torch.Tensor], None]

    def __iter__(self) -> Any:
        return _FaultyIterator(super().__iter__(), type(self).fault)


def _next_float(images: torch.Tensor) -> None:
    images[1].copy_(torch.nextafter(images[1], torch.tensor(9.0)))


def _next_grey_level(images: torch.Tensor) -> None:
    images[1, 0, 4, 4] += 1 / 255 / recipes.STD[0]


def _other_contrast(images: torch.Tensor) -> None:
    images[1] *= 1.1


def _other_place(images: torch.Tensor) -> None:
    images[1].copy_(images[1].roll(1, dims=2))


@pytest.mark.parametrize("fault", [_next_float, _next_grey_level, _other_contrast, _other_place])
@pytest.mark.parametrize("is_random", [False, True])
def test_a_fault_of_native_code_is_blamed_on_it_and_on_no_stage(
    evaluation: ImageFolder, training: ImageFolder, fault: Any, is_random: bool
) -> None:
    dataset = training if is_random else evaluation
    kind = type("Faulty", (_Faulty,), {"fault": staticmethod(fault)})
    old = fastload.DataLoader(dataset, 4, rng="sample", seed=1)
    report = fastload.verify(old, kind(dataset, 4, rng="sample", seed=1))
    assert dict(report.stages) == {"values": 3}
    assert details(report) == {"the new loader's native code differs from its transforms"}


@pytest.mark.parametrize("fault", [_next_float, _other_contrast])
def test_nothing_is_blamed_where_the_report_cannot_be_replayed(
    training: ImageFolder, fault: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = type("Faulty", (_Faulty,), {"fault": staticmethod(fault)})
    monkeypatch.setattr("fastload._tools.verify._causes.replay_sample", lambda *arguments: None)
    old = fastload.DataLoader(training, 4, rng="sample", seed=1)
    report = fastload.verify(old, kind(training, 4, rng="sample", seed=1))
    assert dict(report.stages) == {"values": 3}
    assert details(report) == {"the images differ, and the cause is not known"}
    other_draws = fastload.verify(old, fastload.DataLoader(training, 4, rng="sample", seed=2))
    assert dict(other_draws.stages) == {"values": 11}
    assert details(other_draws) == {"the images differ, and the cause is not known; known to differ: seed 1 against 2"}


class _Picky:
    """Raises from its second image on."""

    calls = 0

    def __call__(self, image: Any) -> Any:
        self.calls += 1
        if self.calls > 1:
            raise RuntimeError("enough")
        return image


def test_transforms_that_raise_when_run_again_do_not_end_the_comparison(evaluation: ImageFolder) -> None:
    old = Subset(with_transforms(evaluation, _Picky(), *evaluation.transform.transforms), [0])
    new = Subset(with_transforms(evaluation, transforms.Resize(44), *evaluation.transform.transforms[1:]), [0])
    report = fastload.verify(DataLoader(old), DataLoader(new))
    assert dict(report.stages) == {"values": 1}
    assert details(report) == {"cannot be loaded again: RuntimeError: enough"}


def test_a_fault_of_the_native_decoder_is_decode(evaluation: ImageFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    kind = type("Faulty", (_Faulty,), {"fault": staticmethod(_other_contrast)})
    monkeypatch.setattr("fastload._pillow._decode_image.decode_image", lambda path, output: synthetic_image(1, 8, 8))
    report = fastload.verify(DataLoader(evaluation, 4), kind(evaluation, 4))
    assert dict(report.stages) == {"decode": 3}
    assert "the new loader's decoder gives other pixels than Pillow" in str(report)


# Cached images.


@pytest.mark.parametrize("is_native", [True, False])
@pytest.mark.parametrize("has_draws", [True, False])
def test_wrong_records_are_cache_where_anybody_knows_what_is_right(
    folder: Path, tmp_path: Path, has_draws: bool, is_native: bool
) -> None:
    images = ImageFolder(str(folder), recipes.training(32) if has_draws else recipes.evaluation(40, 24))
    dataset = images if is_native else ListOfFiles(images, images.transform)
    store = fastload.Cache(tmp_path / "store")
    assert main(["cache", "build", str(folder), "--path", str(store.path)]) == 0
    for path, _ in images.samples:
        make_wrong(store.path, Path(path))
    new = fastload.DataLoader(dataset, 4, num_workers=1, cache=store)
    report = fastload.verify(DataLoader(dataset, 4, num_workers=1), new)
    assert list(report.stages) == ["cache" if is_native or not has_draws else "values"]
    assert report.worst is not None
    if report.worst.stage == "cache":
        assert report.worst.detail == (
            f"the new loader's image is right without a cache (cache=None): {report.worst.new_path}"
        )
    assert new.stats().batches_delivered == 0


@pytest.mark.parametrize("is_native", [True, False])
def test_wrong_coefficients_are_cache(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_native: bool
) -> None:
    monkeypatch.setattr(_build, "CLOCK_AHEAD_NS", 3600 * 10**9)
    images = ImageFolder(str(folder), recipes.evaluation(40, 24))
    dataset = images if is_native else ListOfFiles(images, images.transform)
    store = fastload.Cache(tmp_path / "store", "1G", what="coefficients")
    store.fill(fastload.DataLoader(images, 4, cache=store), progress=False)
    let_go_of_stores()
    for path, _ in images.samples:
        make_wrong_coefficients(store.path, Path(path))
    monkeypatch.setattr(_file_records, "SPOT_CHECK_INTERVAL", 0)
    new = fastload.DataLoader(dataset, 4, num_workers=1, cache=store)
    report = fastload.verify(DataLoader(dataset, 4, num_workers=1), new)
    assert list(report.stages) == ["cache"]
