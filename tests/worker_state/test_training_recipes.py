"""Augmentation as published training recipes write it: the batches are torch's, and a seeded run repeats."""

from __future__ import annotations

import functools
import io
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from numbered import Numbered
from parity_recipes import Views
from PIL import Image, ImageFilter, ImageOps
from program import Program, Setting, difference, run
from python_part_loader import torch_loader
from recipes import MEAN, STD
from torchvision import transforms

import fastload

pytestmark = pytest.mark.filterwarnings("ignore")

NUM_IMAGES = 18
SIZE = 16


@functools.cache
def encoded(index: int) -> bytes:
    """Writes a PNG of 24 x 20 pixels, another for each index."""
    values = np.random.RandomState(index).randint(0, 256, (20, 24, 3), np.uint8)
    file = io.BytesIO()
    Image.fromarray(values).save(file, "PNG")
    return file.getvalue()


class Images(Numbered):
    """Decodes image i and hands it to `transform`; the label is i."""

    def __init__(self, transform: Callable[[Image.Image], Any]) -> None:
        super().__init__(NUM_IMAGES)
        self.transform = transform

    def image(self, index: int) -> Image.Image:
        return Image.open(io.BytesIO(encoded(index))).convert("RGB")

    def sample(self, index: int) -> Any:
        return self.transform(self.image(index)), index


class Arrays(Images):
    """The same for transforms that take arrays by the name `image`."""

    def sample(self, index: int) -> Any:
        return self.transform(image=np.asarray(self.image(index)))["image"], index  # type: ignore[call-arg]


class RandomRadiusBlur:
    """Blurs with a radius that `random` draws."""

    def __init__(self, smallest: float = 0.1, largest: float = 2.0) -> None:
        self.smallest, self.largest = smallest, largest

    def __call__(self, image: Image.Image) -> Image.Image:
        return image.filter(ImageFilter.GaussianBlur(radius=random.uniform(self.smallest, self.largest)))


class WithChance:
    """Applies a function where `random` says so."""

    def __init__(self, chance: float, function: Callable[[Image.Image], Image.Image]) -> None:
        self.chance, self.function = chance, function

    def __call__(self, image: Image.Image) -> Image.Image:
        return self.function(image) if random.random() < self.chance else image


class ConvolutionBlur:
    """Draws sigma from NumPy and writes the kernel into two convolutions that it holds."""

    def __init__(self, kernel_size: int = 5) -> None:
        self.half = kernel_size // 2
        self.across = torch.nn.Conv2d(3, 3, (kernel_size, 1), bias=False, groups=3)
        self.down = torch.nn.Conv2d(3, 3, (1, kernel_size), bias=False, groups=3)
        self.blur = torch.nn.Sequential(torch.nn.ReflectionPad2d(self.half), self.across, self.down)

    def __call__(self, image: Image.Image) -> Image.Image:
        sigma = np.random.uniform(0.1, 2.0)
        line = np.exp(-(np.arange(-self.half, self.half + 1) ** 2) / (2 * sigma * sigma))
        kernel = torch.from_numpy(line / line.sum()).float().view(1, -1).repeat(3, 1)
        self.across.weight.data.copy_(kernel.view(3, 1, -1, 1))
        self.down.weight.data.copy_(kernel.view(3, 1, 1, -1))
        with torch.no_grad():
            return transforms.functional.to_pil_image(
                self.blur(transforms.functional.to_tensor(image)[None])[0].clamp(0, 1)
            )


def pipeline(*steps: Any, scale: tuple[float, float] = (0.2, 1.0)) -> transforms.Compose:
    """Makes a random crop, a mirror, the steps, and a tensor."""
    return transforms.Compose(
        [
            transforms.RandomResizedCrop(SIZE, scale=scale),
            transforms.RandomHorizontalFlip(),
            *steps,
            transforms.ToTensor(),
            transforms.Normalize(MEAN, STD),
        ]
    )


def jitter() -> list[Any]:
    return [
        transforms.RandomApply([transforms.ColorJitter(0.4, 0.4, 0.4, 0.1)], p=0.8),
        transforms.RandomGrayscale(p=0.2),
    ]


def simclr() -> Any:
    """Draws sigma from NumPy; the kernel is state in a convolution."""
    augmentation = pipeline(*jitter(), ConvolutionBlur())
    return Images(Views(augmentation, augmentation))


def dino() -> Any:
    """Decides with random on PIL blur and solarization of two global and four local views."""
    first = pipeline(*jitter(), WithChance(1.0, RandomRadiusBlur()), scale=(0.4, 1.0))
    second = pipeline(
        *jitter(), WithChance(0.1, RandomRadiusBlur()), WithChance(0.2, ImageOps.solarize), scale=(0.4, 1.0)
    )
    local = pipeline(*jitter(), WithChance(0.5, RandomRadiusBlur()), scale=(0.05, 0.4))
    return Images(Views(first, second, *[local] * 4))


def timm_training() -> Any:
    """Uses timm's create_transform with RandAugment and random erasing, which draw from random and NumPy."""
    data = pytest.importorskip("timm.data")
    return Images(
        data.create_transform(SIZE, is_training=True, auto_augment="rand-m7-inc1", re_prob=0.5, interpolation="random")
    )


def timm_augmix() -> Any:
    """Uses timm's AugMix, which draws from random and NumPy, and its mixup in collate_fn."""
    data = pytest.importorskip("timm.data")
    mixing = data.FastCollateMixup(mixup_alpha=0.8, cutmix_alpha=1.0, num_classes=NUM_IMAGES)
    dataset = Images(data.create_transform(SIZE, is_training=True, auto_augment="augmix-m5-w3", use_prefetcher=True))
    return Setting(dataset, {"collate_fn": mixing, "drop_last": True, "batch_size": 6, "shuffle": True})


def albumentations_compose() -> Any:
    """Uses Compose of Albumentations 2.x, which holds generators of its own."""
    albumentations = pytest.importorskip("albumentations", minversion="2.0")
    return Arrays(
        albumentations.Compose(
            [
                albumentations.RandomCrop(SIZE, SIZE),
                albumentations.HorizontalFlip(p=0.5),
                albumentations.ColorJitter(p=0.8),
                albumentations.GaussNoise(p=0.5),
                albumentations.OneOf([albumentations.GaussianBlur(), albumentations.MotionBlur()], p=0.5),
                albumentations.CoarseDropout(p=0.5),
            ],
            seed=137,
        )
    )


def albumentations_without_a_seed() -> Any:
    """Uses the same without a seed; worker_init_fn seeds it as the documentation says."""
    albumentations = pytest.importorskip("albumentations", minversion="2.0")
    augmentation = albumentations.Compose([albumentations.RandomCrop(SIZE, SIZE), albumentations.Affine(p=0.9)])

    def begin(_worker_id: int) -> None:
        info = torch.utils.data.get_worker_info()
        info.dataset.transform.set_random_seed(info.seed % 2**32)

    return Setting(Arrays(augmentation), {"worker_init_fn": begin})


def torchs_reproducibility_recipe() -> Any:
    """Seeds random and NumPy with torch.initial_seed() in worker_init_fn; the loader has a generator."""

    def seed_worker(_worker_id: int) -> None:
        seed = torch.initial_seed() % 2**32
        np.random.seed(seed)
        random.seed(seed)

    class Noisy(Images):
        def sample(self, index: int) -> Any:
            image, label = super().sample(index)
            return image + np.random.normal(0, 0.1) + random.gauss(0, 0.1) + torch.randn(1), label

    generator = torch.Generator()
    generator.manual_seed(0)
    dataset = Noisy(pipeline(*jitter()))
    return Setting(dataset, {"worker_init_fn": seed_worker, "generator": generator, "shuffle": True})


def mixup_and_cutmix() -> Any:
    """Draws the weight, the box and the partners from NumPy in collate_fn."""

    def collate(samples: list[Any]) -> Any:
        images, labels = torch.utils.data.default_collate(samples)
        order = torch.from_numpy(np.random.permutation(len(images)))
        weight = float(np.random.beta(1.0, 1.0))
        if np.random.rand() < 0.5:
            return weight * images + (1 - weight) * images[order], labels, labels[order], weight
        edge = int(SIZE * np.sqrt(1 - weight))
        top, left = np.random.randint(0, SIZE - edge + 1, 2)
        images[:, :, top : top + edge, left : left + edge] = images[order, :, top : top + edge, left : left + edge]
        return images, labels, labels[order], weight

    return Setting(Images(pipeline()), {"collate_fn": collate, "shuffle": True})


def lightning_data_module() -> Any:
    """Uses seed_everything(workers=True) and a DataModule's train_dataloader, with Lightning's init function."""
    lightning = pytest.importorskip("lightning")
    seeding = pytest.importorskip("lightning.fabric.utilities.seed")
    lightning.seed_everything(11, workers=True, verbose=False)

    class Module(lightning.LightningDataModule):
        def __init__(self) -> None:
            super().__init__()
            self.augmentation = pipeline(*jitter(), RandomRadiusBlur())

        def setup(self, stage: str) -> None:
            self.train = Images(lambda image: self.augmentation(image) + np.random.rand())

    module = Module()
    module.setup("fit")
    begin = functools.partial(seeding.pl_worker_init_function, rank=0)
    return Setting(module.train, {"worker_init_fn": begin, "shuffle": True})


def a_table_of_pandas() -> Any:
    """Rows of a frame, augmented by DataFrame.sample and scipy.stats, scaled by scikit-learn."""
    pandas = pytest.importorskip("pandas")
    stats = pytest.importorskip("scipy.stats")
    preprocessing = pytest.importorskip("sklearn.preprocessing")
    values = np.random.RandomState(0).randn(NUM_IMAGES, 3)
    frame = pandas.DataFrame(values, columns=list("abc"))
    scaler = preprocessing.StandardScaler().fit(values)

    class Rows(Numbered):
        def __init__(self) -> None:
            super().__init__(NUM_IMAGES)
            self.frame, self.scaler, self.noise = frame, scaler, stats.truncnorm(-2, 2)

        def sample(self, index: int) -> Any:
            partner = self.frame.sample(1).to_numpy()[0]
            row = self.scaler.transform(self.frame.iloc[[index]].to_numpy())[0]
            return row + 0.1 * partner + self.noise.rvs(3), stats.norm.rvs()

    return Setting(Rows(), {"shuffle": True})


RECIPES = {
    recipe.__name__: recipe
    for recipe in [
        simclr,
        dino,
        timm_training,
        timm_augmix,
        albumentations_compose,
        albumentations_without_a_seed,
        torchs_reproducibility_recipe,
        mixup_and_cutmix,
        lightning_data_module,
        a_table_of_pandas,
    ]
}
# Recipes that keep nothing between samples, so that threads may share their objects.
OF_THREADS = ("dino", "timm_training", "timm_augmix", "torchs_reproducibility_recipe", "mixup_and_cutmix")
# These import no package that takes seconds.
QUICK = ("simclr", "dino", "torchs_reproducibility_recipe", "mixup_and_cutmix")
ARGUMENTS: list[dict[str, Any]] = [
    {"num_workers": 2, "persistent_workers": True},
    {"num_workers": 4},
    {"num_workers": 0},
    {"num_workers": 4, "persistent_workers": True, "prefetch_factor": 1},
    {"num_workers": 1},
]


@functools.cache
def program(name: str) -> Program:
    """Returns a recipe, after importing its packages: some draw when they are imported."""
    RECIPES[name]()
    return RECIPES[name]


def what_differs(name: str, **arguments: Any) -> str | None:
    """Returns the differences between torch's loader and runs of fastload's; skips a missing package."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        for variable in ("PL_GLOBAL_SEED", "PL_SEED_WORKERS"):
            monkeypatch.setenv(variable, "0")  # and puts back what the recipe sets
        theirs = run(torch_loader, program(name), **arguments)
        for workers in ("processes", "processes", *["threads"] * (name in OF_THREADS)):
            found = difference(theirs, run(fastload.DataLoader, program(name), workers=workers, **arguments))
            if found is not None:
                return f"{name}, {workers}: {found}"
    return None


def assert_case(seed: int) -> None:
    """Runs all recipes with all arguments in turn; torch's own loader repeats them."""
    name = list(RECIPES)[seed % len(RECIPES)]
    arguments = ARGUMENTS[seed // len(RECIPES) % len(ARGUMENTS)]
    if name == "albumentations_without_a_seed" and not arguments["num_workers"]:
        return  # nothing seeds it
    again = difference(*(run(torch_loader, program(name), **arguments) for _ in range(2)))
    assert again is None, f"torch's own loader does not repeat it: {again}"
    assert what_differs(name, **arguments) is None


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in RECIPES]
)
def test_a_recipe_gives_the_batches_of_torchs_workers_and_repeats(name: str) -> None:
    """With one of the lists of arguments; the others are left to the campaign."""
    assert what_differs(name, **ARGUMENTS[list(RECIPES).index(name) % len(ARGUMENTS)]) is None
