"""Typical user datasets: everything is as with torch's loader, and JPEG files are decoded natively."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from comparison import described, native_opener
from image_folders import save_jpeg, synthetic_image
from jpeg_kinds import EXIF
from parity_recipes import Preset, Views, training_preset
from PIL import Image, ImageFilter, ImageOps
from recipes import MEAN, STD, pillow_image, training
from torchvision import datasets, transforms, tv_tensors
from torchvision.transforms import functional, v2

import fastload
from fastload._images import _tally

NUM_IMAGES = 10


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Makes jpeg/CLASS: clean files; mask: a PNG for each; rotated: with an orientation; odd: one damaged, PNG, GIF."""
    root = tmp_path_factory.mktemp("patterns")
    for name in ("jpeg/0", "jpeg/1", "mask", "rotated", "odd"):
        (root / name).mkdir(parents=True)
    for number in range(NUM_IMAGES):
        width, height = 70 + 9 * number, 90 - 4 * number
        save_jpeg(root / f"jpeg/{number % 2}/{number}.jpg", number, width, height, subsampling="4:2:0")
        image = synthetic_image(number, width, height)
        image.convert("L").point(lambda value: value // 64).save(root / f"mask/{number}.png")
        image.save(root / f"rotated/{number}.jpg", exif=EXIF[:26] + bytes([number % 9]) + EXIF[27:])
        if number % 3 == 0:
            image.convert("P").save(root / f"odd/{number}.gif")
        elif number % 3 == 1:
            image.save(root / f"odd/{number}.png")
        else:
            image.save(root / f"odd/{number}.jpg")
    cut = (root / "odd/2.jpg").read_bytes()
    (root / "odd/2.jpg").write_bytes(cut[: len(cut) // 2])
    return root


class Paths(torch.utils.data.Dataset[Any]):
    """A list of paths, with a function applied to each."""

    def __init__(self, paths: list[Path], make: Callable[[Path], Any]) -> None:
        self.paths = paths
        self.make = make

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Any:
        return self.make(self.paths[index]), index


def jpegs(folder: Path) -> list[Path]:
    return sorted((folder / "jpeg").rglob("*.jpg"))


def dino() -> Any:
    """Makes two global and four local views, with Pillow's own blur and solarization in between."""
    color = transforms.RandomApply([transforms.ColorJitter(0.4, 0.4, 0.2, 0.1)], p=0.8)
    end = [transforms.ToTensor(), transforms.Normalize(MEAN, STD)]
    blur = transforms.Lambda(lambda image: image.filter(ImageFilter.GaussianBlur(0.7)))
    solarize = transforms.Lambda(ImageOps.solarize)
    flip = transforms.RandomHorizontalFlip()
    large = transforms.RandomResizedCrop(48, scale=(0.4, 1.0), interpolation=transforms.InterpolationMode.BICUBIC)
    small = transforms.RandomResizedCrop(24, scale=(0.05, 0.4), interpolation=transforms.InterpolationMode.BICUBIC)
    local = transforms.Compose([small, flip, color, blur, *end])
    return Views(
        transforms.Compose([large, flip, color, blur, *end]),
        transforms.Compose([large, flip, color, solarize, *end]),
        *[local] * 4,
    )


def evaluation_preset() -> Any:
    to_float = [transforms.PILToTensor(), transforms.ConvertImageDtype(torch.float)]
    crop = [transforms.Resize(40), transforms.CenterCrop(32)]
    return Preset(transforms.Compose([*crop, *to_float, transforms.Normalize(MEAN, STD)]))


class OwnFolder(datasets.ImageFolder):
    """Returns the path as well."""

    def __getitem__(self, index: int) -> Any:
        path, label = self.samples[index]
        return self.transform(self.loader(path)), label, path


def load_by_functions(path: Path) -> Any:
    image = pillow_image(path)
    top, left, height, width = transforms.RandomResizedCrop.get_params(image, (0.3, 1.0), (0.75, 1.33))
    image = functional.resized_crop(image, top, left, height, width, [32, 32])
    if torch.rand(1) < 0.5:
        image = functional.hflip(image)
    return functional.normalize(functional.to_tensor(image), MEAN, STD)


class Segmentation(torch.utils.data.Dataset[Any]):
    """An image and its mask with the same changes."""

    def __init__(self, folder: Path) -> None:
        self.paths = jpegs(folder)
        self.masks = folder / "mask"
        self.transform = v2.Compose(
            [v2.RandomResizedCrop(32, antialias=True), v2.RandomHorizontalFlip(), v2.ToDtype(torch.float, scale=True)]
        )

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Any:
        path = self.paths[index]
        image = tv_tensors.Image(Image.open(path).convert("RGB"))
        mask = tv_tensors.Mask(np.array(Image.open(self.masks / f"{path.stem}.png")))
        return self.transform(image, mask)


class CachingOpened(torch.utils.data.Dataset[Any]):
    """Opens each file once, and changes the image that it keeps."""

    def __init__(self, folder: Path) -> None:
        self.paths = jpegs(folder)
        self.images: dict[int, Any] = {}

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Any:
        image = self.images.get(index)
        if image is None:
            image = self.images[index] = Image.open(self.paths[index])
        pixel = image.getpixel((0, 0))
        image.putpixel((0, 0), (pixel[0] // 2, 1, 2))
        return functional.pil_to_tensor(image.crop((0, 0, 50, 50)))


def load_forgivingly(path: Path) -> Any:
    """Skips a file when it turns out to be damaged."""
    image = Image.open(path)
    try:
        image.load()
        image = image.convert("RGB")
    except OSError as error:
        return torch.full((3, 20, 20), len(str(error)), dtype=torch.uint8)
    return functional.pil_to_tensor(image.resize((20, 20)))


def load_rotated(path: Path) -> Any:
    image = ImageOps.exif_transpose(Image.open(path))
    return functional.pil_to_tensor(image.convert("RGB").resize((30, 20)))


def as_lists(samples: list[Any]) -> Any:
    """Returns images as they are: a user's collate_fn."""
    return [{"image": image, "index": index} for image, index in samples]


def stacked(samples: list[Any]) -> Any:
    return torch.stack([functional.pil_to_tensor(image.resize((16, 16))) for image, _ in samples])


class Pattern(NamedTuple):
    """A dataset, its loader's arguments, and the treatment of the JPEG files in an epoch.

    Attributes:
        make: makes the dataset.
        num_opened: number that the user's code opens with Pillow.
        num_pillow: number of these that Pillow decodes.
    """

    make: Callable[[Path], Any]
    num_opened: int = NUM_IMAGES
    num_pillow: int = 0
    arguments: dict[str, Any] = {}  # noqa: RUF012 - nobody changes it


def of_paths(make: Callable[[], Callable[[Any], Any]]) -> Callable[[Path], Any]:
    """Opens with Pillow and applies what `make` makes."""
    return lambda folder: Paths(jpegs(folder), (lambda do: lambda path: do(pillow_image(path)))(make()))


def odd(folder: Path) -> list[Path]:
    return sorted((folder / "odd").iterdir())


PATTERNS: dict[str, Pattern] = {
    "list of paths": Pattern(of_paths(lambda: training(32))),
    "two crops": Pattern(of_paths(lambda: Views(*[training(32)] * 2))),
    "DINO": Pattern(of_paths(dino)),
    "training preset": Pattern(of_paths(training_preset)),
    "evaluation preset": Pattern(of_paths(evaluation_preset)),
    "derived from ImageFolder": Pattern(lambda folder: OwnFolder(str(folder / "jpeg"), training(32))),
    "own loader": Pattern(
        lambda folder: datasets.DatasetFolder(str(folder / "jpeg"), pillow_image, ("jpg",), training(32))
    ),
    "functions": Pattern(lambda folder: Paths(jpegs(folder), load_by_functions)),
    "image and mask": Pattern(Segmentation),
    "caching opened images": Pattern(CachingOpened),
    "damaged, PNG and GIF": Pattern(lambda folder: Paths(odd(folder), load_forgivingly), 3, 1),
    "rotated": Pattern(lambda folder: Paths(sorted((folder / "rotated").iterdir()), load_rotated)),
    "bytes": Pattern(lambda folder: Paths(jpegs(folder), lambda path: _of_bytes(path.read_bytes()))),
    "images": Pattern(lambda folder: Paths(jpegs(folder), pillow_image), arguments={"collate_fn": as_lists}),
    "opened images": Pattern(lambda folder: Paths(jpegs(folder), Image.open), arguments={"collate_fn": stacked}),
    "pinned": Pattern(of_paths(lambda: training(32)), arguments={"pin_memory": True}),
    "persistent": Pattern(of_paths(lambda: training(32)), arguments={"persistent_workers": True}),
}


def _of_bytes(data: bytes) -> Any:
    return functional.pil_to_tensor(Image.open(io.BytesIO(data)).convert("RGB").resize((20, 20), Image.Resampling.BOX))


def _epochs(kind: Any, dataset: Any, arguments: dict[str, Any]) -> tuple[list[Any], Any]:
    torch.manual_seed(5)
    is_iterable = isinstance(dataset, torch.utils.data.IterableDataset)
    loader = kind(dataset, **{"batch_size": 3, "num_workers": 2, "shuffle": not is_iterable, **arguments})
    return [described(list(loader)) for _ in range(2)], loader


def assert_equal_to_torch(make: Callable[[], Any], num_opened: int, num_pillow: int = 0, **arguments: Any) -> None:
    """Compares two epochs, each with a new dataset, because workers may change it."""
    theirs, _ = _epochs(torch.utils.data.DataLoader, make(), arguments)
    mine, loader = _epochs(fastload.DataLoader, make(), arguments)
    assert mine == theirs
    stats = loader.stats()
    assert stats.images_opened == 2 * num_opened
    assert stats.images_native == 2 * (num_opened - num_pillow)
    assert sum(stats.image_fallback_reasons.values()) == 2 * num_pillow
    assert "decoded natively as your code asks for them" in loader.explain()


@pytest.mark.parametrize("name", PATTERNS)
def test_pattern(name: str, folder: Path) -> None:
    pattern = PATTERNS[name]
    assert_equal_to_torch(lambda: pattern.make(folder), pattern.num_opened, pattern.num_pillow, **pattern.arguments)


@pytest.mark.parametrize("is_training", [False, True])
def test_timm(is_training: bool, folder: Path) -> None:
    data = pytest.importorskip("timm.data")
    options: dict[str, Any] = {"auto_augment": "rand-m9-mstd0.5", "re_prob": 0.25} if is_training else {}
    assert_equal_to_torch(
        lambda: data.ImageDataset(
            str(folder / "jpeg"), transform=data.create_transform(32, is_training=is_training, **options)
        ),
        NUM_IMAGES,
    )


def test_albumentations(folder: Path) -> None:
    albumentations = pytest.importorskip("albumentations")

    def make() -> Any:
        transform = albumentations.Compose(
            [albumentations.RandomCrop(32, 32), albumentations.HorizontalFlip(p=0.5)], seed=3
        )
        return Paths(jpegs(folder), lambda path: transform(image=np.array(pillow_image(path)))["image"])

    assert_equal_to_torch(make, NUM_IMAGES)


def test_webdataset(folder: Path, tmp_path: Path) -> None:
    webdataset = pytest.importorskip("webdataset")
    for shard in range(2):
        with tarfile.open(tmp_path / f"{shard}.tar", "w") as archive:
            for path in jpegs(folder)[shard::2]:
                archive.add(path, f"{path.stem}.jpg")
    urls = [str(tmp_path / f"{shard}.tar") for shard in range(2)]
    assert_equal_to_torch(
        lambda: (
            webdataset.WebDataset(urls, shardshuffle=False)
            .decode("pil")
            .to_tuple("jpg", "__key__")
            .map_tuple(training(32), lambda key: key)
        ),
        NUM_IMAGES,
    )


class RowTransform:
    """Transforms several rows of a table."""

    def __init__(self) -> None:
        self.transform = training(32)

    def __call__(self, rows: dict[str, list[Any]]) -> dict[str, list[Any]]:
        return {**rows, "image": [self.transform(image.convert("RGB")) for image in rows["image"]]}


def test_hugging_face(folder: Path) -> None:
    hugging_face, pyarrow = pytest.importorskip("datasets"), pytest.importorskip("pyarrow")

    def make() -> Any:
        columns = {"image": [str(path) for path in jpegs(folder)], "label": list(range(NUM_IMAGES))}
        # With a fingerprint: the package cannot make one with every version of pyarrow.
        table = hugging_face.Dataset(pyarrow.table(columns), fingerprint="images")
        table = table.cast_column("image", hugging_face.Image())
        return table.with_transform(RowTransform())

    assert_equal_to_torch(make, NUM_IMAGES)


def load_and_count(path: Path) -> Any:
    """Returns the image and how many images native code has decoded for it."""
    tally = _tally.process_state.tally or _tally.ImageTally()
    before = tally.images_native
    return training(32)(pillow_image(path)), tally.images_native - before


def test_explain_says_who_decodes_in_the_calling_thread(folder: Path) -> None:
    loader = fastload.DataLoader(Paths(jpegs(folder), load_and_count), batch_size=2)
    assert "decoded by Pillow in the calling thread; natively with num_workers=1 or more" in loader.explain()
    assert sum(int(counts.sum()) for (_, counts), _ in loader) == 0
    with native_opener():
        assert "decoded natively as your code asks for them" in loader.explain()
        assert sum(int(counts.sum()) for (_, counts), _ in loader) == NUM_IMAGES


def test_torchs_workers_with_the_opener(folder: Path) -> None:
    """Processes that are forked while it is registered inherit it."""

    def run() -> tuple[list[Any], int]:
        torch.manual_seed(5)
        loader = torch.utils.data.DataLoader(Paths(jpegs(folder), load_and_count), batch_size=2, num_workers=2)
        batches = [batch for batch, _ in loader]
        return described([images for images, _ in batches]), sum(int(counts.sum()) for _, counts in batches)

    expected, num_native = run()
    assert num_native == 0
    with native_opener():
        assert run() == (expected, NUM_IMAGES)
