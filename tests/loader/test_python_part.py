"""Batches that end in the user's own Python, in threads: bytes and draws against torch's DataLoader."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import recipes
import torch
import torch.utils.data
from image_folders import make_mixed_folder, save_jpeg, synthetic_image
from lowered_transforms import lowered
from PIL import Image, ImageOps, UnidentifiedImageError
from python_part_loader import PythonPartLoader, torch_loader
from torch.utils.data import ConcatDataset, Sampler, Subset, default_collate
from torchvision import transforms, tv_tensors
from torchvision.datasets import ImageFolder
from torchvision.transforms import v2

import fastload
from fastload import LoaderClosedError, SampleError, _native
from fastload._pillow import _pillow

WORKERS = pytest.mark.parametrize("num_workers", [0, 1, 2])
THREADS = pytest.mark.parametrize("num_workers", [1, 2])


def noisy(image: torch.Tensor) -> torch.Tensor:
    return image + 0.1 * torch.randn(image.shape)


def brightened_at_random(image: Image.Image) -> Image.Image:
    return image.point(lambda value: value // 2) if torch.rand(()) < 0.5 else image


def crop_flip() -> list[Any]:
    return [transforms.RandomResizedCrop(36), transforms.RandomHorizontalFlip()]


# Name -> (pipeline, how many of its transforms are native).
PIPELINES: dict[str, tuple[list[Any], int]] = {
    "images": ([*crop_flip(), recipes.PythonBlur(3), transforms.ToTensor(), noisy], 2),
    "one's own function on images": ([*crop_flip(), brightened_at_random, transforms.ToTensor()], 2),
    "tensors": ([*crop_flip(), transforms.ToTensor(), noisy, transforms.RandomErasing(0.7)], 3),
    "uint8 tensors as PILToTensor leaves them": (
        [
            *crop_flip(),
            transforms.PILToTensor(),
            lambda image: image / image.float().mean() + torch.rand_like(image * 1.0),
        ],
        3,
    ),
    "no draws in the native part": ([transforms.Resize((30, 41)), transforms.ToTensor(), noisy], 2),
    "nothing but the decoding is native": (
        [brightened_at_random, *crop_flip(), recipes.PythonBlur(3), transforms.ToTensor(), noisy],
        0,
    ),
    "color and policies before the Python part": (
        [
            *crop_flip(),
            transforms.ColorJitter(0.4, 0.4, 0.4, 0.1),
            transforms.RandAugment(),
            transforms.ToTensor(),
            transforms.RandomErasing(0.5),
            noisy,
        ],
        6,
    ),
    "v2 with images of torchvision's own type": (
        [
            v2.RandomResizedCrop(36),
            v2.RandomHorizontalFlip(),
            v2.ToImage(),
            v2.ToDtype(torch.float32, scale=True),
            lambda image: image * (1 + isinstance(image, tv_tensors.Image)) * torch.rand(1),
        ],
        4,
    ),
    "draws in the native part alone": ([*crop_flip(), transforms.ToTensor(), lambda image: image * 2], 3),
}


def flat(value: Any) -> Any:
    """`value` with its tensors as types, shapes and bytes, so that == compares everything."""
    if isinstance(value, torch.Tensor):
        return value.dtype, tuple(value.shape), value.stride(), value.contiguous().view(-1).view(torch.uint8).tolist()
    if isinstance(value, dict):
        return {key: flat(item) for key, item in value.items()}
    return (type(value), [flat(item) for item in value]) if isinstance(value, (list, tuple)) else value


def outcomes(iterator: Iterator[Any], limit: int = 1000) -> list[Any]:
    """What each next() gives: a batch, or the type of an error that is not fastload's own."""
    found: list[Any] = []
    while len(found) < limit:
        try:
            found.append(flat(next(iterator)))
        except StopIteration:
            break
        except SampleError as error:
            found.append(type(error.cause))
        except Exception as error:  # noqa: BLE001 - what is raised is what is compared
            found.append(type(error))
    return found


def epochs(loader: Any, lengths: tuple[int, ...] = (1000,) * 3) -> tuple[Any, ...]:
    """What `loader` gives in epochs that end early, and the state of torch's generator between them."""
    torch.manual_seed(11)
    found = []
    for length in lengths:
        found.append((outcomes(iter(loader), length), torch.get_rng_state().tolist()))
    return tuple(found)


def assert_equals_torch(
    dataset: Any, num_native: int, lengths: tuple[int, ...] = (1000,) * 3, **arguments: Any
) -> tuple[Any, ...]:
    expected = epochs(torch_loader(dataset, **arguments), lengths)
    assert epochs(PythonPartLoader(dataset, num_native, **arguments), lengths) == expected
    return expected


def dataset_of(folder: Path, pipeline: list[Any], target_transform: Callable[[int], Any] | None = None) -> ImageFolder:
    return ImageFolder(str(folder), transforms.Compose(pipeline), target_transform)


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
@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("prefetch_factor", [1, 3])
def test_persistent_threads_go_on_with_their_random_numbers(
    mixed_folder: Path, num_workers: int, drop_last: bool, prefetch_factor: int
) -> None:
    pipeline, num_native = PIPELINES["images"]
    assert_equals_torch(
        dataset_of(mixed_folder, pipeline),
        num_native,
        batch_size=5,
        shuffle=True,
        num_workers=num_workers,
        drop_last=drop_last,
        prefetch_factor=prefetch_factor,
        persistent_workers=True,
    )


@THREADS
@pytest.mark.parametrize("persistent", [False, True])
def test_epochs_that_end_early_leave_the_random_numbers_where_torch_does(
    mixed_folder: Path, num_workers: int, persistent: bool
) -> None:
    """What the threads were asked for before a break is made, and its draws count in the next epoch."""
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
    """Equal to all others of its kind, as an array says it, and with a state of its own."""

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


@WORKERS
def test_target_transforms_draw_after_the_image(mixed_folder: Path, num_workers: int) -> None:
    pipeline, num_native = PIPELINES["tensors"]
    dataset = dataset_of(mixed_folder, pipeline, lambda label: label + torch.rand(2))
    assert_equals_torch(dataset, num_native, batch_size=4, num_workers=num_workers)


@WORKERS
def test_a_target_transform_may_make_anything(mixed_folder: Path, num_workers: int) -> None:
    dataset = dataset_of(
        mixed_folder, [transforms.CenterCrop(20), transforms.ToTensor()], lambda label: {"class": f"c{label}"}
    )
    assert_equals_torch(dataset, 2, batch_size=4, num_workers=num_workers)


class Nesting(torch.utils.data.Dataset[Any]):
    """Each sample begins an epoch of a loader that it has inside."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __len__(self) -> int:
        return 5

    def __getitem__(self, index: int) -> Any:
        return next(iter(self.inner))


@WORKERS
def test_inside_of_a_worker_it_draws_from_the_workers_generator(mixed_folder: Path, num_workers: int) -> None:
    pipeline, _ = PIPELINES["tensors"]

    def run(inner: Any, outer: Any) -> Any:
        torch.manual_seed(3)
        dataset = Nesting(inner(dataset_of(mixed_folder, pipeline), batch_size=3, shuffle=True))
        return [flat(batch) for batch in outer(dataset, batch_size=2, num_workers=num_workers)], torch.rand(1).item()

    theirs = run(torch_loader, torch_loader)
    assert run(lambda dataset, **others: PythonPartLoader(dataset, 3, **others), fastload.DataLoader) == theirs


@WORKERS
def test_a_collate_function_may_draw(mixed_folder: Path, num_workers: int) -> None:
    def mix(samples: list[Any]) -> dict[str, Any]:
        images, labels = default_collate(samples)
        weight = torch.distributions.Beta(0.8, 0.8).sample()
        order = torch.randperm(len(images))
        return {"images": weight * images + (1 - weight) * images[order], "labels": [labels, order], "weight": weight}

    pipeline, num_native = PIPELINES["tensors"]
    assert_equals_torch(
        dataset_of(mixed_folder, pipeline),
        num_native,
        batch_size=4,
        shuffle=True,
        num_workers=num_workers,
        collate_fn=mix,
    )


@WORKERS
def test_without_batches_each_sample_comes_alone(mixed_folder: Path, num_workers: int) -> None:
    pipeline, num_native = PIPELINES["images"]
    assert_equals_torch(dataset_of(mixed_folder, pipeline), num_native, batch_size=None, num_workers=num_workers)


@WORKERS
def test_images_of_every_size_reach_the_users_collate_function(mixed_folder: Path, num_workers: int) -> None:
    def collate(samples: list[Any]) -> Any:
        return [
            (image.size, image.tobytes(), sorted(map(str, image.info)), type(image), label) for image, label in samples
        ]

    dataset = dataset_of(mixed_folder, [])
    assert_equals_torch(dataset, 0, batch_size=4, num_workers=num_workers, collate_fn=collate)


@WORKERS
def test_pil_images_keep_what_their_files_say_besides_the_pixels(tmp_path: Path, num_workers: int) -> None:
    """A Python part of the user's own may turn images by their EXIF orientation; native code does not."""
    exif = Image.Exif()
    for orientation in (1, 3, 6, 8):
        exif[0x0112] = orientation
        path = tmp_path / "images" / "class" / f"{orientation}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        synthetic_image(orientation, 60, 50).save(path, exif=exif, quality=90)
    synthetic_image(9, 60, 50).save(path.with_suffix(".png"), exif=exif)
    pipeline = [
        transforms.Resize((33, 47)),
        ImageOps.exif_transpose,
        transforms.Resize((20, 20)),
        transforms.ToTensor(),
    ]
    found = assert_equals_torch(dataset_of(tmp_path / "images", pipeline), 1, (9,), num_workers=num_workers)
    ((batches, _),) = found
    assert len({str(batch[1][0]) for batch in batches}) == 5


def info_recipes(namespace: Any) -> dict[str, Any]:
    """Every native operation on images, each certain to happen, and each way in which one may do nothing."""
    jitters = {"brightness": 1.5, "contrast": 1.5, "saturation": 1.5, "hue": 0.2}
    modes = ("constant", "edge", "reflect", "symmetric")
    return {
        **{name: namespace.ColorJitter(**{name: (factor, factor)}) for name, factor in jitters.items()},
        **{
            f"{name} by nothing": namespace.ColorJitter(**{name: (0, 0) if name == "hue" else (1, 1)})
            for name in jitters
        },
        **{f"pad {mode}": namespace.Pad(2, padding_mode=mode) for mode in modes},
        **{f"pad {mode} by nothing": namespace.Pad(0, padding_mode=mode) for mode in modes},
        **{f"random crop, {mode}": namespace.RandomCrop(20, padding=3, padding_mode=mode) for mode in modes},
        "random crop": namespace.RandomCrop(20),
        "random crop, pad by nothing": namespace.RandomCrop(20, padding=0),
        "random crop, pad if needed": namespace.RandomCrop((50, 62), pad_if_needed=True),
        "random crop, pad not needed": namespace.RandomCrop((50, 60), pad_if_needed=True),
        "center crop": namespace.CenterCrop(20),
        "center crop of all": namespace.CenterCrop((50, 60)),
        "center crop, wider": namespace.CenterCrop((40, 61)),
        "center crop, larger": namespace.CenterCrop(70),
        "random resized crop": namespace.RandomResizedCrop(20),
        "resize": namespace.Resize(20),
        "resize to the same": namespace.Resize((50, 60)),
        "horizontal flip": namespace.RandomHorizontalFlip(1.0),
        "vertical flip": namespace.RandomVerticalFlip(1.0),
        "grayscale": namespace.Grayscale(3),
        "random grayscale": namespace.RandomGrayscale(0.5),
        "invert": namespace.RandomInvert(1.0),
        "posterize": namespace.RandomPosterize(3, 1.0),
        "solarize": namespace.RandomSolarize(100, 1.0),
        "sharpness": namespace.RandomAdjustSharpness(2, 1.0),
        "autocontrast": namespace.RandomAutocontrast(1.0),
        "equalize": namespace.RandomEqualize(1.0),
        "blur": transforms.Compose([namespace.CenterCrop(30), namespace.GaussianBlur(3)]),
        "applied at random": namespace.RandomApply([namespace.Pad(0), namespace.CenterCrop(20)], 0.5),
        "rand augment": transforms.Compose([namespace.CenterCrop(30), namespace.RandAugment(1)]),
        "trivial augment": transforms.Compose([namespace.CenterCrop(30), namespace.TrivialAugmentWide()]),
        "auto augment": transforms.Compose([namespace.CenterCrop(30), namespace.AutoAugment()]),
    }


@pytest.fixture(scope="module")
def folder_with_info(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Images of 60x50 with EXIF data and a resolution, which native code and Pillow decode in turn."""
    folder = tmp_path_factory.mktemp("info")
    (folder / "class").mkdir()
    exif = Image.Exif()
    exif[0x0112] = 6
    for number in range(40):
        suffix = ("jpg", "png")[number % 4 == 3]
        synthetic_image(number, 60, 50).save(folder / "class" / f"{number:02}.{suffix}", exif=exif, dpi=(72, 72))
    return folder


@pytest.mark.parametrize("version", ["v1", "v2"])
@pytest.mark.parametrize("recipe", info_recipes(transforms))
def test_pil_images_lose_what_their_files_say_where_torchvision_makes_them_anew(
    folder_with_info: Path, recipe: str, version: str
) -> None:
    transform = info_recipes({"v1": transforms, "v2": v2}[version])[recipe]
    dataset = dataset_of(folder_with_info, [transform])
    num_native = sum(stage.problem is None for stage in lowered(dataset.transform).stages)
    have_info = set()

    def collate(samples: list[Any]) -> Any:
        have_info.update("exif" in image.info for image, _ in samples)
        return [
            (image.size, image.tobytes(), sorted(map(str, image.info.items())), image.format) for image, _ in samples
        ]

    assert_equals_torch(dataset, num_native, (40,), collate_fn=collate)
    if recipe in ("random grayscale", "applied at random") or "augment" in recipe:
        assert have_info == {False, True}
    else:
        assert len(have_info) == 1


# ---- failures -------------------------------------------------------------------------------------------------------


class Refusal(Exception):
    """An exception whose constructor takes more than a text."""

    def __init__(self, what: str, why: int) -> None:
        super().__init__(what, why)


def refuse_class_1(error: BaseException) -> Callable[[int], int]:
    def target_transform(label: int) -> int:
        if label == 1:
            raise error
        return label

    return target_transform


def with_bad_files(tmp_path: Path) -> Path:
    """A folder whose middle class has a file that is no image, one cut off and one that is missing."""
    root = make_mixed_folder(tmp_path / "images")
    bad = root / "class1"
    (bad / "0000.jpg").write_bytes(b"no image")
    save_jpeg(bad / "0001.jpg", 3, 100, 90)
    (bad / "0001.jpg").write_bytes((bad / "0001.jpg").read_bytes()[:900])
    (bad / "0002.png").symlink_to("nowhere.png")
    return root


@WORKERS
@pytest.mark.parametrize("persistent", [False, True])
def test_bad_files_cost_their_batches_and_no_draw_elsewhere(tmp_path: Path, num_workers: int, persistent: bool) -> None:
    pipeline, num_native = PIPELINES["images"]
    dataset = dataset_of(with_bad_files(tmp_path), pipeline)
    arguments = {"batch_size": 2, "num_workers": num_workers, "persistent_workers": persistent and num_workers > 0}
    found = assert_equals_torch(dataset, num_native, **arguments)
    kinds = [item for item in found[0][0] if isinstance(item, type)]
    assert kinds == [UnidentifiedImageError, OSError, FileNotFoundError]


@WORKERS
@pytest.mark.parametrize("error", [ValueError("not this one"), KeyError("key"), ZeroDivisionError()])
def test_an_exception_of_the_python_part_costs_its_batch_alone(
    mixed_folder: Path, num_workers: int, error: Exception
) -> None:
    pipeline, num_native = PIPELINES["tensors"]
    dataset = dataset_of(mixed_folder, pipeline, refuse_class_1(error))
    ((batches, _), *_) = assert_equals_torch(dataset, num_native, batch_size=3, shuffle=True, num_workers=num_workers)
    assert type(error) in batches
    assert any(not isinstance(batch, type) for batch in batches)


@WORKERS
def test_a_sample_error_of_the_python_part_says_where_and_is_caught_as_what_was_raised(
    mixed_folder: Path, num_workers: int
) -> None:
    def fail(image: torch.Tensor) -> torch.Tensor:
        raise Refusal("too bright", 7)

    dataset = dataset_of(mixed_folder, [transforms.CenterCrop(20), transforms.ToTensor(), fail])
    loader = PythonPartLoader(dataset, 2, batch_size=3, num_workers=num_workers)
    with pytest.raises(Refusal) as caught:
        next(iter(loader))
    error = caught.value
    assert isinstance(error, SampleError)
    assert (error.index, error.path, error.stage) == (0, dataset.samples[0][0], "transform")
    assert isinstance(error.__cause__, Refusal)
    assert error.__cause__.args == ("too bright", 7)
    assert error.__cause__.__traceback__ is not None
    in_thread = "Caught Refusal in DataLoader worker thread 0. " if num_workers else ""
    assert str(error) == (
        f"sample 0 ({dataset.samples[0][0]!r}): transform: ('too bright', 7). {in_thread}"
        "Run the transform on this file alone to see why."
    )


@WORKERS
def test_a_stop_iteration_of_the_users_does_not_end_the_epoch(mixed_folder: Path, num_workers: int) -> None:
    def collate(samples: list[Any]) -> Any:
        raise StopIteration

    pipeline = [transforms.CenterCrop(20), transforms.ToTensor()]
    of_target = dataset_of(mixed_folder, pipeline, refuse_class_1(StopIteration()))
    batches = outcomes(iter(PythonPartLoader(of_target, 2, batch_size=4, num_workers=num_workers)))
    assert len(batches) == 4
    assert StopIteration in batches
    of_collate = PythonPartLoader(
        dataset_of(mixed_folder, pipeline), 2, batch_size=4, num_workers=num_workers, collate_fn=collate
    )
    assert outcomes(iter(of_collate)) == [RuntimeError] * 4


@THREADS
@pytest.mark.parametrize("error", [ValueError("odd"), KeyError("odd"), Refusal("odd", 1)])
def test_an_exception_of_collate_has_torchs_words_and_type(
    mixed_folder: Path, num_workers: int, error: Exception
) -> None:
    def collate(samples: list[Any]) -> Any:
        if 1 in [label for _, label in samples]:
            raise error
        return default_collate(samples)

    dataset = dataset_of(mixed_folder, [transforms.CenterCrop(20), transforms.ToTensor()])
    arguments = {"batch_size": 3, "num_workers": num_workers, "collate_fn": collate}
    assert_equals_torch(dataset, 2, **arguments)
    texts = []
    for loader in (torch_loader(dataset, **arguments), PythonPartLoader(dataset, 2, **arguments)):
        iterator = iter(loader)
        with pytest.raises(Exception) as caught:  # noqa: PT011 - types are compared above, words here
            outcomes_or_raise(iterator)
        texts.append(str(caught.value).splitlines()[0].replace("worker process", "worker thread"))
    assert texts[0] == texts[1]
    assert caught.value.__cause__ is error


def outcomes_or_raise(iterator: Iterator[Any]) -> None:
    for _ in iterator:
        pass


@WORKERS
@pytest.mark.parametrize("bad", [16, -17, "first", 2.0, None])
def test_an_index_that_the_dataset_does_not_have_costs_its_batch(
    mixed_folder: Path, num_workers: int, bad: Any
) -> None:
    pipeline, num_native = PIPELINES["tensors"]
    batches = [[0, 1], [2, bad, 3], [4, 5], [6, 7], []]
    dataset = dataset_of(mixed_folder, pipeline)
    assert_equals_torch(dataset, num_native, batch_sampler=batches, num_workers=num_workers)
    whole = ConcatDataset([dataset])
    assert_equals_torch(whole, num_native, (1000,), batch_sampler=batches, num_workers=num_workers)


class FailingSampler(Sampler[list[int]]):
    """Raises in the place of its third batch."""

    def __iter__(self) -> Iterator[list[int]]:
        yield [0, 1]
        yield [2]
        raise LookupError("no more")


@WORKERS
def test_an_exception_of_the_sampler_reaches_the_user(mixed_folder: Path, num_workers: int) -> None:
    pipeline, num_native = PIPELINES["tensors"]
    dataset = dataset_of(mixed_folder, pipeline)
    for make in (torch_loader, lambda *a, **k: PythonPartLoader(dataset, num_native, **k)):
        loader = make(dataset, batch_sampler=FailingSampler(), num_workers=num_workers)
        with pytest.raises(LookupError, match="no more"):
            outcomes_or_raise(iter(loader))


@WORKERS
def test_images_too_small_for_a_crop_raise_what_torchvision_raises(mixed_folder: Path, num_workers: int) -> None:
    dataset = dataset_of(
        mixed_folder, [transforms.RandomHorizontalFlip(), transforms.RandomCrop(120), transforms.ToTensor(), noisy]
    )
    ((batches, _), *_) = assert_equals_torch(dataset, 3, batch_size=1, num_workers=num_workers, shuffle=True)
    assert 0 < batches.count(ValueError) < 16


@WORKERS
def test_a_damaged_image_too_small_for_a_crop_is_an_error_that_names_it(tmp_path: Path, num_workers: int) -> None:
    (tmp_path / "a").mkdir()
    path = tmp_path / "a" / "0.jpg"
    Image.effect_noise((20, 20), 50).convert("RGB").save(path)
    path.write_bytes(path.read_bytes()[:-60])
    dataset = dataset_of(tmp_path, [transforms.RandomCrop(32), transforms.ToTensor(), noisy])
    with pytest.raises(OSError, match="truncated") as raised:
        next(iter(fastload.DataLoader(dataset, num_workers=num_workers)))
    assert isinstance(raised.value, fastload.SampleError)
    assert (raised.value.index, raised.value.path, raised.value.stage) == (0, str(path), "decode")


def test_a_file_that_vanishes_before_its_info_is_read_is_an_error_that_names_it(
    mixed_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def vanished(path: str) -> Any:
        raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)

    monkeypatch.setattr(_pillow, "image_info", vanished)
    dataset = dataset_of(mixed_folder, [transforms.RandomHorizontalFlip(), np.asarray])
    dataset.samples = [sample for sample in dataset.samples if sample[0].endswith(".JPEG")]
    with pytest.raises(FileNotFoundError) as raised:
        next(iter(fastload.DataLoader(dataset)))
    assert isinstance(raised.value, fastload.SampleError)
    assert (raised.value.index, raised.value.path, raised.value.stage) == (0, dataset.samples[0][0], "open")


# ---- rng="sample" ---------------------------------------------------------------------------------------------------


def by_label(loader: PythonPartLoader) -> dict[int, Any]:
    """Each sample of one epoch; labels are replaced by indices in `numbered`."""
    return {int(label): flat(image) for images, labels in loader for image, label in zip(images, labels, strict=True)}


def numbered(folder: Path, pipeline: list[Any]) -> ImageFolder:
    dataset = dataset_of(folder, pipeline)
    dataset.samples = [(path, index) for index, (path, _) in enumerate(dataset.samples)]
    return dataset


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
    """A pipeline gives the same crops whether something after them runs in Python or not."""
    import fastload

    native = [*crop_flip(), transforms.ToTensor()]
    expected = by_label(fastload.DataLoader(numbered(mixed_folder, native), rng="sample", seed=7))
    with_python_part = numbered(mixed_folder, [*native, lambda image: image])
    assert by_label(PythonPartLoader(with_python_part, 3, "sample", seed=7, num_workers=2)) == expected


# ---- what user code sees --------------------------------------------------------------------------------------------


def test_worker_info_is_the_threads_own(mixed_folder: Path) -> None:
    def tell(label: int) -> tuple[int, int, bool, int]:
        info = torch.utils.data.get_worker_info()
        assert info is not None
        return info.id, info.num_workers, info.dataset is dataset, info.seed - info.id

    dataset = dataset_of(mixed_folder, [transforms.CenterCrop(4), transforms.ToTensor()], tell)
    loader = PythonPartLoader(dataset, 2, batch_size=4, num_workers=3)
    rows = [torch.stack(told, 1) for _, told in loader]
    assert [row[:, 0].tolist() for row in rows] == [[0] * 4, [1] * 4, [2] * 4, [0] * 4]
    assert all(row[:, 1].eq(3).all() and row[:, 2].eq(1).all() for row in rows)
    assert len({int(seed) for row in rows for seed in row[:, 3]}) == 1
    assert torch.utils.data.get_worker_info() is None


def test_worker_info_is_none_where_the_caller_does_the_work(mixed_folder: Path) -> None:
    dataset = dataset_of(
        mixed_folder,
        [transforms.CenterCrop(4), transforms.ToTensor()],
        lambda _: torch.utils.data.get_worker_info() is None,
    )
    assert all(told.all() for _, told in PythonPartLoader(dataset, 2))


def test_processes_of_torchs_own_loader_have_their_worker_info_still(mixed_folder: Path) -> None:
    dataset = dataset_of(
        mixed_folder, [transforms.CenterCrop(4), transforms.ToTensor()], lambda _: torch.utils.data.get_worker_info().id
    )
    list(PythonPartLoader(dataset, 2, num_workers=2))
    told = [ids.tolist() for _, ids in torch_loader(dataset, batch_size=4, num_workers=2)]
    assert told == [[0] * 4, [1] * 4, [0] * 4, [1] * 4]


def test_batches_are_not_made_in_memory_shared_between_processes(mixed_folder: Path) -> None:
    pipeline, num_native = PIPELINES["tensors"]
    loader = PythonPartLoader(dataset_of(mixed_folder, pipeline), num_native, num_workers=2)
    assert not any(images.is_shared() or labels.is_shared() for images, labels in loader)


def test_torch_computes_with_one_thread_in_ours_and_as_before_in_others(mixed_folder: Path) -> None:
    def in_new_thread() -> int:
        found: list[int] = []
        thread = threading.Thread(target=lambda: found.append(torch.get_num_threads()))
        thread.start()
        thread.join()
        return found[0]

    before = torch.get_num_threads(), in_new_thread()
    dataset = dataset_of(
        mixed_folder, [transforms.CenterCrop(4), transforms.ToTensor()], lambda _: torch.get_num_threads()
    )
    iterator = iter(PythonPartLoader(dataset, 2, num_workers=2))
    assert (torch.get_num_threads(), in_new_thread()) == before
    assert {int(told) for _, told in iterator} == {1}
    assert (torch.get_num_threads(), in_new_thread()) == before


@pytest.mark.usefixtures("believed_accelerator")
@WORKERS
def test_batches_are_pinned_where_there_is_an_accelerator(
    mixed_folder: Path, num_workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With an accelerator that is made believe: pinning is torch's, in threads whose current device is the caller's."""
    devices: list[int] = []
    monkeypatch.setattr(torch.accelerator, "current_device_index", lambda: 3)
    monkeypatch.setattr(torch.accelerator, "set_device_index", devices.append)
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor, *device: tensor + 1000)
    dataset = dataset_of(mixed_folder, [transforms.CenterCrop(4), transforms.PILToTensor()], lambda label: [label, "x"])
    iterator = iter(PythonPartLoader(dataset, 2, batch_size=16, num_workers=num_workers, pin_memory=True))
    ((_, labels),) = iterator
    assert labels[0].tolist() == [1000] * 3 + [1001] * 3 + [1002] * 10
    assert list(labels[1]) == ["x"] * 16
    assert devices == [3] * num_workers


@pytest.mark.usefixtures("believed_accelerator")
@pytest.mark.parametrize("is_known", [True, False])
def test_threads_that_pin_leave_the_graph_alone_that_the_program_captures(
    mixed_folder: Path, is_known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a device that is made believe, whose runtime is known or not."""
    in_threads: list[tuple[int, int, int]] = []

    class Backend:
        def __init__(self, runtime_major: int, device: int) -> None:
            if not is_known:
                raise RuntimeError("no runtime")
            self.opened = runtime_major, device

        def stay_in_thread(self) -> None:
            in_threads.append((*self.opened, threading.get_ident()))

    monkeypatch.setattr(_native, "open_cuda_device", Backend)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.accelerator, "current_device_index", lambda: 1)
    monkeypatch.setattr(torch.accelerator, "set_device_index", lambda index: None)
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor, *device: tensor)
    dataset = dataset_of(mixed_folder, [transforms.CenterCrop(4), transforms.PILToTensor()])
    assert len(list(PythonPartLoader(dataset, 2, batch_size=4, num_workers=2, pin_memory=True))) == 4
    assert [opened for *opened, _ in in_threads] == [[13, 1]] * (2 * is_known)
    assert len({thread for *_, thread in in_threads} - {threading.get_ident()}) == 2 * is_known


def test_the_counters_tell_who_did_what(mixed_folder: Path) -> None:
    pipeline, num_native = PIPELINES["images"]
    dataset = dataset_of(mixed_folder, pipeline)
    for num_workers in (0, 2):
        loader = PythonPartLoader(dataset, num_native, batch_size=5, num_workers=num_workers)
        list(loader)
        stats = loader.stats()
        assert (stats.samples_native, stats.samples_fallback, stats.samples_failed) == (10, 6, 0)
        assert stats.samples_python_tail == stats.samples == 16
        assert stats.batches_delivered == 4
        assert sum(stats.fallback_reasons.values()) == 6
        assert stats.bytes_read == sum(Path(path).stat().st_size for path, _ in dataset.samples)
        stages = {"read", "header", "decode", "transform", "fallback", "tail", "collate"}
        assert stages == {name for name, seconds in stats.stage_seconds.items() if seconds > 0}
        assert (stats.batches_in_flight, stats.queue_depth) == (0, 0)


def test_samples_without_a_python_part_are_not_counted_as_such(mixed_folder: Path) -> None:
    loader = PythonPartLoader(dataset_of(mixed_folder, [transforms.CenterCrop(4), transforms.ToTensor()]), 2)
    list(loader)
    assert loader.stats().samples_python_tail == 0


def test_failed_samples_are_counted(tmp_path: Path) -> None:
    pipeline, num_native = PIPELINES["images"]
    loader = PythonPartLoader(dataset_of(with_bad_files(tmp_path), pipeline), num_native, batch_size=1, num_workers=1)
    outcomes(iter(loader))
    stats = loader.stats()
    assert (stats.samples_failed, stats.samples_native, stats.samples_fallback) == (3, 10, 6)


# ---- flow -----------------------------------------------------------------------------------------------------------


def test_at_most_prefetch_factor_batches_a_thread_are_ahead(mixed_folder: Path) -> None:
    asked: list[int] = []

    class Asking(Sampler[list[int]]):
        def __iter__(self) -> Iterator[list[int]]:
            for number in range(16):
                asked.append(number)
                yield [number]

    dataset = dataset_of(mixed_folder, [transforms.CenterCrop(4), transforms.ToTensor()])
    loader = PythonPartLoader(dataset, 2, batch_sampler=Asking(), num_workers=2, prefetch_factor=3)
    iterator = iter(loader)
    assert len(asked) == 6
    assert loader.stats().batches_in_flight == 6
    for taken in range(1, 17):
        next(iterator)
        assert len(asked) == min(16, 6 + taken)


def test_the_timeout_is_the_consumers_and_leaves_the_batch(mixed_folder: Path) -> None:
    gate = threading.Event()

    def wait(label: int) -> int:
        gate.wait(20)
        return label

    dataset = dataset_of(mixed_folder, [transforms.CenterCrop(4), transforms.ToTensor()], wait)
    iterator = iter(PythonPartLoader(dataset, 2, batch_size=8, num_workers=1, timeout=0.05, copy=False))
    with pytest.raises(RuntimeError, match=r"DataLoader timed out after 0\.05 seconds"):
        next(iterator)
    gate.set()
    iterator._timeout = 20
    assert [len(labels) for _, labels in iterator] == [8, 8]


def test_two_threads_may_share_an_iterator(mixed_folder: Path) -> None:
    dataset = numbered(mixed_folder, [transforms.CenterCrop(4), transforms.ToTensor()])
    iterator = iter(PythonPartLoader(dataset, 2, batch_size=1, num_workers=2))
    found: list[int] = []

    def take() -> None:
        found.extend(int(label) for _, labels in iterator for label in labels)

    threads = [threading.Thread(target=take) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == list(range(16))


def test_close_ends_the_iterators_of_the_loader_alone(mixed_folder: Path) -> None:
    pipeline, num_native = PIPELINES["tensors"]
    dataset = dataset_of(mixed_folder, pipeline)
    closed, other = (PythonPartLoader(dataset, num_native, batch_size=2, num_workers=2) for _ in range(2))
    iterators = iter(closed), iter(closed), iter(other)
    for iterator in iterators:
        next(iterator)
    closed.close()
    for iterator in iterators[:2]:
        assert not iterator.is_running
        with pytest.raises(LoaderClosedError):
            next(iterator)
    assert len(list(iterators[2])) == 7
    assert len(list(closed)) == 8


@pytest.mark.parametrize("module", [transforms, v2])
def test_a_blur_that_reaches_over_more_than_the_image_fails_as_in_torch(mixed_folder: Path, module: Any) -> None:
    pipeline = module.Compose([module.CenterCrop(8), module.GaussianBlur(23), transforms.ToTensor()])
    dataset = ImageFolder(str(mixed_folder), pipeline)
    errors = []
    for make in (torch.utils.data.DataLoader, fastload.DataLoader):
        with pytest.raises(RuntimeError, match="Padding size should be less than") as caught:
            next(iter(make(dataset, batch_size=2)))
        errors.append(str(caught.value))
    assert errors[0] in errors[1]  # ours says which file as well


@pytest.mark.parametrize("thread_safe", [True, False])
def test_thread_safe_false_runs_the_users_transforms_one_at_a_time(mixed_folder: Path, thread_safe: bool) -> None:
    now, most = [0], [0]
    lock = threading.Lock()

    def watching(image: torch.Tensor) -> torch.Tensor:
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        threading.Event().wait(0.003)
        with lock:
            now[0] -= 1
        return image + torch.rand(1)

    dataset = ImageFolder(str(mixed_folder), transforms.Compose([*crop_flip(), transforms.ToTensor(), watching]))
    arguments: dict[str, Any] = {"batch_size": 2, "num_workers": 2}
    torch.manual_seed(0)
    expected = recipes.bytes_of(torch_loader(dataset, **arguments))
    torch.manual_seed(0)
    loader = fastload.DataLoader(dataset, thread_safe=thread_safe, copy=False, **arguments)
    assert recipes.bytes_of(loader) == expected
    assert most[0] == (2 if thread_safe else 1)
