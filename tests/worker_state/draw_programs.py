"""Programs that draw from random, from NumPy's global generator and from torch's default one, and keep nothing."""

from __future__ import annotations

import functools
import io
import random
from collections.abc import Callable
from random import gauss as gauss_by_name
from random import shuffle as shuffle_by_name
from typing import Any

import numpy as np
import pytest
import torch
from numbered import Numbered
from numpy.random import normal as normal_by_name
from parity_recipes import Views
from PIL import Image, ImageFilter, ImageOps
from program import Program, Setting, Transformed
from recipes import MEAN, STD
from torch.nn import functional
from torchvision import transforms

_LETTERS = "abcdefgh"


def shuffled(shuffle: Callable[[Any], Any], values: Any) -> Any:
    shuffle(values)
    return values


def in_a_forked_stream() -> Any:
    """Seeds, draws and puts the states back, in all three."""
    kept = random.getstate(), np.random.get_state(), torch.get_rng_state()
    random.seed(1)
    np.random.seed(1)
    torch.manual_seed(1)
    found = random.random(), np.random.rand(), float(torch.rand(1))
    random.setstate(kept[0])
    np.random.set_state(kept[1])
    torch.set_rng_state(kept[2])
    return *found, random.random(), np.random.rand(), float(torch.rand(1))


# Name -> function from an index to a sample.
_DRAWS: dict[str, Callable[[int], Any]] = {
    "functions of random": lambda index: (
        random.random(),
        gauss_by_name(0, 1),
        random.choices(_LETTERS, k=2),
        random.sample(range(50), 3),
        random.randrange(index + 1),
        shuffled(shuffle_by_name, [*range(6)]),
        random.getrandbits(40),
        random.randbytes(3),
        random.betavariate(1, 2),
        random.gammavariate(2, 1),
        random.normalvariate(0, 1),
        random.vonmisesvariate(0, 1),
    ),
    "random.seed": lambda index: (random.seed(index), random.random(), random.gauss(0, 1))[1:],
    "random.getstate": lambda _: (random.random(), sum(random.getstate()[1][:-1]) % 1_000_003),
    "functions of NumPy": lambda _: (
        np.random.rand(2),
        normal_by_name(1, 2),
        np.random.standard_normal(2),
        np.random.choice(9, 3, replace=False),
        np.random.choice([5, 6], p=[0.3, 0.7]),
        np.random.permutation(6),
        shuffled(np.random.shuffle, np.arange(7)),
        np.random.beta(1, 2),
        np.random.binomial(9, 0.4),
        np.random.dirichlet([1, 2]),
        np.random.poisson(3),
        np.random.multivariate_normal([0, 0], np.eye(2)),
        np.random.bytes(3),
    ),
    "np.random.seed": lambda index: (np.random.seed(index), np.random.randn())[1],
    "np.random.get_state": lambda index: (
        np.random.randn(index % 3),
        np.random.get_state()[2:],
        int(np.random.get_state()[1].sum()),
    )[1:],
    "functions of torch": lambda _: (
        torch.rand(2),
        torch.randn(1),
        torch.randint(9, (2,)),
        torch.randperm(5),
        torch.multinomial(torch.ones(4), 2),
        torch.bernoulli(torch.full((2,), 0.5)),
        torch.zeros(2).uniform_(),
        torch.zeros(2).normal_(),
        torch.zeros(1).exponential_(),
        torch.zeros(1).random_(9),
        functional.dropout(torch.ones(6), 0.5),
        torch.distributions.Beta(torch.tensor(0.4), torch.tensor(0.4)).sample(),
        torch.nn.Linear(2, 1).weight.detach(),
    ),
    "torch.manual_seed": lambda index: (torch.manual_seed(index).initial_seed(), torch.rand(1)),
    "torch.initial_seed": lambda _: (torch.initial_seed(), torch.rand(1)),
    "default_generator.manual_seed": lambda index: (
        torch.default_generator.manual_seed(index) is not None,
        torch.rand(1),
    ),
    "default_generator.get_state": lambda _: (
        state := torch.default_generator.get_state(),
        torch.rand(1),
        torch.default_generator.set_state(state) is not None,
        torch.rand(1),
    )[1:],
    "default_generator.initial_seed": lambda _: torch.default_generator.initial_seed(),
    "default_generator.clone_state": lambda _: (
        torch.rand(1, generator=torch.default_generator.clone_state()),
        torch.rand(1),
    ),
    "default_generator as an argument": lambda _: torch.rand(2, generator=torch.default_generator),
    "torch.random.fork_rng": lambda _: (forked_rand(), torch.rand(1)),
    "all three in one sample": lambda index: (
        random.random(),
        np.random.rand(index % 3).sum(),
        torch.rand(1),
        random.gauss(0, 1),
    ),
    "all three put back": lambda _: in_a_forked_stream(),
    "now and then": lambda index: (random.random(), np.random.rand()) if index in (6, 7, 9, 20) else (0.0, 0.0),
}


def forked_rand() -> torch.Tensor:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        return torch.rand(1)


# ---- default_collate in the user's own code --------------------------------------------------------------------------

_MIXED: list[Any] = [torch.tensor([1.5], dtype=torch.float16), torch.tensor([1.0001])]


def a_collate_function_with_default_collate() -> Any:
    return Setting(
        Transformed(lambda index: _MIXED[index % 2]),
        {"collate_fn": lambda samples: {"batch": torch.utils.data.default_collate(samples)}},
    )


def default_collate_in_a_sample() -> Any:
    return Transformed(lambda _: torch.utils.data.default_collate(_MIXED))


DRAWS: dict[str, Program] = {
    **{name: lambda draw=draw: Setting(Transformed(draw), {"shuffle": True}) for name, draw in _DRAWS.items()},
    **{each.__name__: each for each in (a_collate_function_with_default_collate, default_collate_in_a_sample)},
}


# ---- published training recipes --------------------------------------------------------------------------------------

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

    def sample(self, index: int) -> Any:
        return self.transform(Image.open(io.BytesIO(encoded(index))).convert("RGB")), index


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


RECIPES: dict[str, Program] = {
    recipe.__name__: recipe
    for recipe in (dino, timm_training, timm_augmix, torchs_reproducibility_recipe, mixup_and_cutmix)
}
