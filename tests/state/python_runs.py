"""Runs like resumed_runs's, of loaders whose batches workers make in Python."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import recipes
import torch
from resumed_runs import NUM_IMAGES, Case
from torch.utils.data import Dataset, default_collate, get_worker_info
from torchvision.datasets import ImageFolder

import fastload


def drawn() -> torch.Tensor:
    """Draws from each of the worker's three generators, with the second half of a pair of normal numbers at times."""
    numbers = [torch.rand(()).item(), random.random(), np.random.rand(), np.random.standard_normal()]
    return torch.tensor([*numbers, random.gauss(0.0, 1.0), torch.randn(()).item()], dtype=torch.float64)


class Draws(Dataset[Any]):
    """Draws from the worker's generators."""

    def __len__(self) -> int:
        return NUM_IMAGES

    def __getitem__(self, index: int) -> Any:
        return torch.cat([torch.tensor([float(index)], dtype=torch.float64), drawn(), self.own()]), index

    def own(self) -> torch.Tensor:
        return torch.empty(0, dtype=torch.float64)


class Holds(Draws):
    """Draws also from its own generators, made in __init__; some are deeper inside."""

    def __init__(self) -> None:
        self.numpy, self.legacy = np.random.default_rng(1), np.random.RandomState(2)
        self.inner = {"random": random.Random(3), "more": [torch.Generator().manual_seed(4)]}

    def own(self) -> torch.Tensor:
        torchs: Any = self.inner["more"][0]  # type: ignore[index]
        python: Any = self.inner["random"]
        numbers = [self.numpy.random(), self.legacy.standard_normal(), python.gauss(0, 1), python.random()]
        return torch.tensor([*numbers, torch.rand((), generator=torchs).item()], dtype=torch.float64)


class MadeByFirstSample(Draws):
    """Holds generators that the first sample of a worker makes."""

    def __init__(self) -> None:
        self.numpy: Any = None

    def own(self) -> torch.Tensor:
        if self.numpy is None:
            info: Any = get_worker_info()
            self.numpy = np.random.default_rng(0 if info is None else info.id)
            self.python = random.Random(7)
        return torch.tensor([self.numpy.random(), self.python.random()], dtype=torch.float64)


class MadeByInitFn(Draws):
    """Holds a generator that worker_init_fn makes."""

    python: Any = random

    def own(self) -> torch.Tensor:
        return torch.tensor([self.python.random()], dtype=torch.float64)


def make_generator(worker: int) -> None:
    info: Any = get_worker_info()
    info.dataset.python = random.Random(worker)
    np.random.seed(worker)  # a loaded state overrides it


class AddDraws:
    """A user's transform."""

    def __init__(self) -> None:
        self.generator = torch.Generator().manual_seed(8)

    def __call__(self, image: torch.Tensor) -> torch.Tensor:
        return image + drawn().sum() + torch.rand((), generator=self.generator)


def collate_with_draws(samples: list[Any]) -> Any:
    images, labels = default_collate(samples)
    return images + torch.rand(()) + random.random(), labels


def _tail(folder: Path) -> Any:
    return ImageFolder(str(folder), recipes.transforms.Compose([recipes.training(24), AddDraws()]))


# Data sets with the other arguments of their loaders.
DATASETS: dict[str, tuple[Any, dict[str, Any]]] = {
    "draws": (lambda _: Draws(), {}),
    "collate_fn": (lambda _: Draws(), {"collate_fn": collate_with_draws}),
    "holds": (lambda _: Holds(), {}),
    "first sample": (lambda _: MadeByFirstSample(), {}),
    "worker_init_fn": (lambda _: MadeByInitFn(), {"worker_init_fn": make_generator}),
    "tail": (_tail, {}),
}
# These use only the worker's generators, or the program's if there are no workers.
WITHOUT_OWN = ("draws", "collate_fn")
MADE_LATER = ("first sample", "worker_init_fn")


@dataclass(frozen=True)
class PythonCase(Case):
    """A loader that is not native, and the place where it is stopped."""

    dataset: str = "draws"
    workers: str = field(default="processes", kw_only=True)

    def make_loader(self, folder: Path, **changes: Any) -> fastload.DataLoader[Any]:
        make_dataset, arguments = DATASETS[self.dataset]
        return self.loader_of(make_dataset(folder), **{"workers": self.workers, **arguments, **changes})
