"""PIL images that native code passes to Python: sizes, pixels, and other data of their files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from image_folders import synthetic_image
from lowered_transforms import lowered
from PIL import Image, ImageOps
from python_part_cases import WORKERS, assert_equals_torch, dataset_of
from torchvision import transforms
from torchvision.transforms import v2


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
    """A user's Python part may turn images by their EXIF orientation; native code does not."""
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
    """Returns every native operation on images, each certain to happen, and each way in which one may do nothing."""
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
    """Makes images of 60x50 with EXIF data and a resolution; native code and Pillow decode them in turn."""
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
