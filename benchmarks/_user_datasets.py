"""Image data sets as users write them, for `benchmarks.user_datasets`: one for each way from files to tensors."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import io
import os
import pickle
import random
import tarfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageFilter, ImageOps
from torch.utils.data import Dataset, Subset

from benchmarks._python_datasets import jpeg_files
from benchmarks._torchvision import load_torchvision

load_torchvision()  # first: torchvision may need it to be imported at all
from torchvision import datasets, models, transforms, tv_tensors  # noqa: E402
from torchvision.transforms import functional, v2  # noqa: E402

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
_NUM_SHARDS = 4
_CIFAR_SIZE = 32
_CIFAR_COUNT = 256
_CLIP_FRAMES = 16
_WORD_ROWS, _WORD_COUNT = 31, 256
_IMREAD_COLOR_RGB = 256  # OpenCV's


@dataclass(frozen=True)
class Files:
    """The files that the data sets are made of.

    Attributes:
        root: a folder of images per class.
        made: a folder for the files of `Pattern.write`.
        num_samples: samples in an epoch.
    """

    root: Path
    made: Path
    num_samples: int

    def paths(self, count: int | None = None) -> list[Path]:
        """Returns `count` files (default: one per sample), spread over the folder, repeated if it has fewer."""
        return spread(jpeg_files(self.root), self.num_samples if count is None else count)


@dataclass(frozen=True)
class Pattern:
    """A way to write a data set.

    Attributes:
        what: description for the table.
        make: makes the data set from some files.
        write: writes its other files, such as masks.
        num_samples: samples in an epoch, if the command line names no number.
        images_per_sample: images read per sample.
        batch_size: the loaders' batch size.
        package: package that it imports beside torch, torchvision, NumPy and Pillow.
        make_for_torch: makes the data set for torch's loader, if fastload needs a changed line in it.
        uncounted: the table's text for the native share if `stats()` counts no image.
        num_loaders: loaders over the data set, each with its own workers.
    """

    what: str
    make: Callable[[Files], Any] = field(repr=False)
    write: Callable[[Files], None] | None = field(default=None, repr=False)
    num_samples: int = 256
    images_per_sample: int = 1
    batch_size: int = 32
    package: str | None = None
    make_for_torch: Callable[[Files], Any] | None = field(default=None, repr=False)
    uncounted: str = "no JPEG"
    num_loaders: int = 1

    @property
    def is_installed(self) -> bool:
        return self.package is None or importlib.util.find_spec(self.package) is not None


def spread(paths: Sequence[Path], count: int) -> list[Path]:
    step = max(1.0, len(paths) / count)
    return [paths[int(number * step) % len(paths)] for number in range(count)]


def _write_masks(files: Files) -> None:
    for path in set(files.paths()):
        with Image.open(path) as image:
            blocks = np.random.default_rng(len(path.name)).integers(0, 21, (8, 8), np.uint8)
            mask = Image.fromarray(blocks).resize(image.size, Image.Resampling.NEAREST)
        mask.save(_mask_of(files.made, path))


def _write_shards(files: Files) -> None:
    paths = files.paths()
    for shard in range(_NUM_SHARDS):
        with tarfile.open(files.made / f"{shard:06d}.tar", "w") as tar:
            for number in range(shard, len(paths), _NUM_SHARDS):
                _add_to_tar(tar, f"{number:06d}.jpg", paths[number].read_bytes())
                _add_to_tar(tar, f"{number:06d}.cls", str(number % 10).encode())


def _write_array(files: Files) -> None:
    small = [Image.open(path).convert("RGB").resize((_CIFAR_SIZE, _CIFAR_SIZE)) for path in files.paths(_CIFAR_COUNT)]
    np.save(files.made / "cifar.npy", np.stack([np.asarray(image) for image in small]))


def _write_words(files: Files) -> None:
    """Writes files of the size of a word in a line of text."""
    draws = random.Random(1)
    words = []
    for path in files.paths(_WORD_COUNT):
        with Image.open(path) as image:
            left, top = (draws.randrange(max(1, size - 120)) for size in image.size)
            word = image.convert("RGB").crop((left, top, left + draws.randrange(40, 120), top + _WORD_ROWS))
        file = io.BytesIO()
        word.save(file, "JPEG", quality=90)
        words.append(file.getvalue())
    (files.made / "words.pickle").write_bytes(pickle.dumps(words))


def _in_planes(images: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Returns the same [number, height, width, 3] with channels in planes, as torchvision's CIFAR10 reads its files."""
    planes = np.empty((len(images), 3, *images.shape[1:3]), np.uint8)
    planes[...] = images.transpose(0, 3, 1, 2)
    same: NDArray[np.uint8] = planes.transpose(0, 2, 3, 1)
    return same


def _mask_of(made: Path, path: Path) -> Path:
    return made / f"{path.parent.name}-{path.stem}.png"


def _add_to_tar(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(data)
    tar.addfile(entry, io.BytesIO(data))


def to_normalised() -> list[Any]:
    return [transforms.ToTensor(), transforms.Normalize(MEAN, STD)]


def train_transform(size: int = 224) -> Any:
    return transforms.Compose([transforms.RandomResizedCrop(size), transforms.RandomHorizontalFlip(), *to_normalised()])


def eval_transform() -> Any:
    return transforms.Compose([transforms.Resize(256), transforms.CenterCrop(224), *to_normalised()])


class ListOfFiles(Dataset[Any]):
    """Paths and a transform, as in most tutorials."""

    def __init__(self, paths: Sequence[Path], transform: Callable[[Any], Any]) -> None:
        self.paths = paths
        self.transform = transform

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Any:
        image = Image.open(self.paths[index]).convert("RGB")
        return self.transform(image), index


class FunctionalCalls(ListOfFiles):
    """torchvision's functions, called in __getitem__."""

    def __init__(self, paths: Sequence[Path], size: int = 224) -> None:
        super().__init__(paths, transforms.Compose([]))
        self.size = [size, size]

    def __getitem__(self, index: int) -> Any:
        image = Image.open(self.paths[index]).convert("RGB")
        top, left, height, width = transforms.RandomResizedCrop.get_params(image, (0.08, 1.0), (3 / 4, 4 / 3))
        image = functional.resized_crop(image, top, left, height, width, self.size)
        if random.random() < 0.5:
            image = functional.hflip(image)
        return functional.normalize(functional.to_tensor(image), MEAN, STD), index


class PillowBlur:
    """MoCo's and DINO's blur, by Pillow."""

    def __init__(self, probability: float = 1.0, radius_min: float = 0.1, radius_max: float = 2.0) -> None:
        self.probability = probability
        self.radius_min = radius_min
        self.radius_max = radius_max

    def __call__(self, image: Any) -> Any:
        if random.random() >= self.probability:
            return image
        return image.filter(ImageFilter.GaussianBlur(radius=random.uniform(self.radius_min, self.radius_max)))


class Solarization:
    """DINO's solarization, by Pillow."""

    def __init__(self, probability: float) -> None:
        self.probability = probability

    def __call__(self, image: Any) -> Any:
        return ImageOps.solarize(image) if random.random() < self.probability else image


class TwoCrops:
    """MoCo's: two views of an image."""

    def __init__(self, size: int = 224) -> None:
        jitter = transforms.ColorJitter(0.4, 0.4, 0.4, 0.1)
        self.base = transforms.Compose(
            [
                transforms.RandomResizedCrop(size, scale=(0.2, 1.0)),
                transforms.RandomApply([jitter], p=0.8),
                transforms.RandomGrayscale(p=0.2),
                transforms.RandomApply([PillowBlur()], p=0.5),
                transforms.RandomHorizontalFlip(),
                *to_normalised(),
            ]
        )

    def __call__(self, image: Any) -> Any:
        return [self.base(image), self.base(image)]


class MultiCrop:
    """DINO's: two global views of 224 pixels and eight local ones of 96."""

    NUM_LOCAL = 8

    def __init__(self) -> None:
        flip_and_jitter = [
            transforms.RandomHorizontalFlip(p=0.5),
            transforms.RandomApply([transforms.ColorJitter(0.4, 0.4, 0.2, 0.1)], p=0.8),
            transforms.RandomGrayscale(p=0.2),
        ]

        def view(size: int, scale: tuple[float, float], *last: Any) -> Any:
            crop = transforms.RandomResizedCrop(size, scale=scale, interpolation=functional.InterpolationMode.BICUBIC)
            return transforms.Compose([crop, *flip_and_jitter, *last, *to_normalised()])

        self.first_global = view(224, (0.4, 1.0), PillowBlur(1.0))
        self.second_global = view(224, (0.4, 1.0), PillowBlur(0.1), Solarization(0.2))
        self.local = view(96, (0.05, 0.4), PillowBlur(0.5))

    def __call__(self, image: Any) -> Any:
        views = [self.first_global(image), self.second_global(image)]
        return views + [self.local(image) for _ in range(self.NUM_LOCAL)]


class ClassificationPresetTrain:
    """torchvision's references/classification/presets.py: an object with a pipeline in it."""

    def __init__(self) -> None:
        self.transforms = transforms.Compose(
            [
                transforms.RandomResizedCrop(176, interpolation=functional.InterpolationMode.BILINEAR, antialias=True),
                transforms.RandomHorizontalFlip(0.5),
                transforms.TrivialAugmentWide(interpolation=functional.InterpolationMode.BILINEAR),
                transforms.PILToTensor(),
                transforms.ConvertImageDtype(torch.float),
                transforms.Normalize(MEAN, STD),
                transforms.RandomErasing(p=0.1),
            ]
        )

    def __call__(self, image: Any) -> Any:
        return self.transforms(image)


class ClassificationPresetEval:
    def __init__(self) -> None:
        self.transforms = transforms.Compose(
            [
                transforms.Resize(232, interpolation=functional.InterpolationMode.BILINEAR, antialias=True),
                transforms.CenterCrop(224),
                transforms.PILToTensor(),
                transforms.ConvertImageDtype(torch.float),
                transforms.Normalize(MEAN, STD),
            ]
        )

    def __call__(self, image: Any) -> Any:
        return self.transforms(image)


class Segmentation(Dataset[Any]):
    """A photograph and a PNG file of classes, cropped alike."""

    def __init__(self, files: Files) -> None:
        self.paths = files.paths()
        self.made = files.made
        self.transforms = v2.Compose(
            [
                v2.RandomResizedCrop(224, antialias=True),
                v2.RandomHorizontalFlip(),
                v2.ToDtype({tv_tensors.Image: torch.float32, "others": None}, scale=True),
                v2.Normalize(MEAN, STD),
            ]
        )

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Any:
        path = self.paths[index]
        image = tv_tensors.Image(Image.open(path).convert("RGB"))
        mask = tv_tensors.Mask(Image.open(_mask_of(self.made, path)))
        return self.transforms(image, mask)


class Clips(Dataset[Any]):
    """Frames of a video, a JPEG file each."""

    def __init__(self, files: Files) -> None:
        self.paths = files.paths(files.num_samples * _CLIP_FRAMES)
        self.transform = transforms.Compose(
            [transforms.Resize((128, 171)), transforms.CenterCrop(112), *to_normalised()]
        )

    def __len__(self) -> int:
        return len(self.paths) // _CLIP_FRAMES

    def __getitem__(self, index: int) -> Any:
        frames = self.paths[index * _CLIP_FRAMES : (index + 1) * _CLIP_FRAMES]
        return torch.stack([self.transform(Image.open(path).convert("RGB")) for path in frames], dim=1), index


class Words(Dataset[Any]):
    """Text recognition: each word is a small JPEG file in a database, scaled to 100 x 32 pixels."""

    def __init__(self, files: Files) -> None:
        self.words: list[bytes] = pickle.loads((files.made / "words.pickle").read_bytes())
        self.num_samples = files.num_samples

    def __len__(self) -> int:
        return self.num_samples

    def __getitem__(self, index: int) -> Any:
        image = Image.open(io.BytesIO(self.words[index % len(self.words)])).convert("RGB")
        return functional.to_tensor(image.resize((100, 32), Image.Resampling.BICUBIC)).sub_(0.5).div_(0.5), index


def _cifar_training() -> Any:
    return transforms.Compose(
        [transforms.RandomCrop(32, padding=4), transforms.RandomHorizontalFlip(), *to_normalised()]
    )


class Cifar(datasets.CIFAR10):  # type: ignore[misc]
    """torchvision's own samples, from an array that is not downloaded."""

    def __init__(self, files: Files) -> None:
        small = np.load(files.made / "cifar.npy")
        self.data = _in_planes(np.resize(small, (files.num_samples, *small.shape[1:])))
        self.targets = [number % 10 for number in range(files.num_samples)]
        self.transform, self.target_transform = _cifar_training(), None


class Mnist(datasets.MNIST):  # type: ignore[misc]
    """The same for torchvision's gray images."""

    def __init__(self, files: Files) -> None:
        small = np.load(files.made / "cifar.npy")[:, 2:30, 2:30, 1]
        self.data = torch.from_numpy(np.resize(small, (files.num_samples, 28, 28)))
        self.targets = torch.arange(files.num_samples) % 10
        self.transform = transforms.Compose([transforms.ToTensor(), transforms.Normalize((0.1307,), (0.3081,))])
        self.target_transform = None


class Arrays(Dataset[Any]):
    """Pixels in memory, as in torchvision's CIFAR10."""

    def __init__(self, files: Files) -> None:
        self.data = _in_planes(np.load(files.made / "cifar.npy"))
        self.num_samples = files.num_samples
        self.transform = _cifar_training()

    def __len__(self) -> int:
        return self.num_samples

    def __getitem__(self, index: int) -> Any:
        return self.transform(Image.fromarray(self.data[index % len(self.data)])), index


def _read_with_pillow(path: str) -> Any:
    return np.array(Image.open(path).convert("RGB"))


def _read_with_imread(module: str) -> Callable[[str], Any]:
    return functools.partial(importlib.import_module(module).imread, flags=_IMREAD_COLOR_RGB)


class Albumentations(Dataset[Any]):
    """Arrays of pixels; seeded, because nothing else makes two runs alike."""

    def __init__(self, files: Files, read: Callable[[str], Any] = _read_with_pillow) -> None:
        os.environ["NO_ALBUMENTATIONS_UPDATE"] = "1"
        albumentations = importlib.import_module("albumentations")
        to_tensor = importlib.import_module("albumentations.pytorch").ToTensorV2()
        steps = [albumentations.RandomResizedCrop(size=(224, 224)), albumentations.HorizontalFlip(p=0.5)]
        self.paths = files.paths()
        self.read = read
        self.transform = albumentations.Compose([*steps, albumentations.Normalize(MEAN, STD), to_tensor], seed=1)

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Any:
        return self.transform(image=self.read(str(self.paths[index])))["image"], index


class OfColumn:
    """The function that set_transform() of Hugging Face's datasets calls with some rows."""

    def __init__(self) -> None:
        self.transform = train_transform()

    def __call__(self, rows: Any) -> Any:
        return {"pixel_values": [self.transform(image.convert("RGB")) for image in rows["image"]]}


def _image_folder(files: Files, transform: Any) -> Any:
    folder = datasets.ImageFolder(str(files.root), transform)
    step = max(1.0, len(folder) / files.num_samples)
    return Subset(folder, [int(number * step) % len(folder) for number in range(files.num_samples)])


def _timm(**options: Any) -> Callable[[Files], Any]:
    def make(files: Files) -> Any:
        create_transform = importlib.import_module("timm.data").create_transform
        return ListOfFiles(files.paths(), create_transform(input_size=224, is_training=True, **options))

    return make


def _webdataset(files: Files) -> Any:
    webdataset = importlib.import_module("webdataset")
    shards = sorted(str(path) for path in files.made.glob("*.tar"))
    samples = webdataset.WebDataset(shards, shardshuffle=False).decode("pil").to_tuple("jpg", "cls")
    return samples.map_tuple(train_transform(), int)


def _hugging_face(files: Files) -> Any:
    os.environ["HF_HUB_OFFLINE"] = "1"
    hugging_face = importlib.import_module("datasets")
    rows = hugging_face.Dataset.from_dict({"image": [str(path) for path in files.paths()]})
    rows = rows.cast_column("image", hugging_face.Image())
    rows.set_transform(OfColumn())
    return rows


# DeiT has mstd0.5, too: then timm 1.0 asks Pillow now and then to keep 0 bits of a color, which Pillow 13 refuses.
_DEIT = {"auto_augment": "rand-m9-inc1", "interpolation": "bicubic", "re_prob": 0.25}

PATTERNS = {
    "list-train": Pattern("own list of files, training", lambda files: ListOfFiles(files.paths(), train_transform())),
    "list-eval": Pattern("own list of files, evaluation", lambda files: ListOfFiles(files.paths(), eval_transform())),
    "functional": Pattern("torchvision's functions in `__getitem__`", lambda files: FunctionalCalls(files.paths())),
    "two-crops": Pattern(
        "MoCo's two crops, Pillow's blur", lambda files: ListOfFiles(files.paths(), TwoCrops()), num_samples=128
    ),
    "dino": Pattern(
        "DINO's 2 + 8 crops, Pillow's blur",
        lambda files: ListOfFiles(files.paths(), MultiCrop()),
        num_samples=64,
        batch_size=16,
    ),
    "preset-train": Pattern(
        "`ImageFolder`, torchvision's `ClassificationPresetTrain`",
        lambda files: _image_folder(files, ClassificationPresetTrain()),
    ),
    "preset-eval": Pattern(
        "`ImageFolder`, torchvision's `ClassificationPresetEval`",
        lambda files: _image_folder(files, ClassificationPresetEval()),
    ),
    "weights": Pattern(
        "`ResNet50_Weights.IMAGENET1K_V2.transforms()`",
        lambda files: ListOfFiles(files.paths(), models.ResNet50_Weights.IMAGENET1K_V2.transforms()),
    ),
    "timm": Pattern("timm's `create_transform`, training", _timm(), package="timm"),
    "timm-deit": Pattern("the same with DeiT's RandAugment", _timm(**_DEIT), num_samples=128, package="timm"),
    "albumentations": Pattern("albumentations of `numpy.array(image)`", Albumentations, package="albumentations"),
    "imread": Pattern(
        "albumentations of `fastload.imread(path)`, torch's of `cv2.imread(path)`",
        lambda files: Albumentations(files, _read_with_imread("fastload")),
        package="albumentations",
        make_for_torch=lambda files: Albumentations(files, _read_with_imread("cv2")),
        uncounted="not counted",
    ),
    "webdataset": Pattern('webdataset, `decode("pil")`', _webdataset, _write_shards, package="webdataset"),
    "hugging-face": Pattern("Hugging Face's datasets, an `Image` column", _hugging_face, package="datasets"),
    "mask": Pattern("image and PNG mask as `tv_tensors`, v2", Segmentation, _write_masks),
    "clip": Pattern("clips of 16 JPEG frames", Clips, num_samples=16, images_per_sample=_CLIP_FRAMES, batch_size=4),
    "words": Pattern(
        "words of 31 rows, two loaders at once",
        Words,
        _write_words,
        num_samples=4096,
        batch_size=96,
        num_loaders=2,
    ),
    "arrays": Pattern("CIFAR's array, `Image.fromarray`", Arrays, _write_array, num_samples=4096, batch_size=128),
    "cifar": Pattern("torchvision's `CIFAR10`, training", Cifar, _write_array, num_samples=16384, batch_size=128),
    "mnist": Pattern("torchvision's `MNIST`", Mnist, _write_array, num_samples=16384, batch_size=128),
}
