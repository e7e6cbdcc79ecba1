"""Imported by children of campaigns: loaders made at random, of every kind, whose epochs are the same for one seed."""

from __future__ import annotations

import hashlib
import operator
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import recipes
import torch
from child_loader import repeated_images, with_noise
from numbered import Made
from PIL import Image
from torch.utils.data import IterableDataset
from torchvision import transforms

import fastload

NUM_IMAGES = 16


class Stream(IterableDataset[Any]):
    def __init__(self, length: int) -> None:
        self.length = length

    def __iter__(self) -> Iterator[torch.Tensor]:
        return (number + torch.rand(4) for number in range(self.length))


def opened(path: str) -> Image.Image:
    """Opens an image: a loader of the user's own."""
    return Image.open(path).convert("RGB")


@dataclass
class LoaderCase:
    """A loader and how often it is iterated over.

    Attributes:
        repeats: How often each of the images comes; a data set without images is as long.
    """

    seed: int
    kind: str
    repeats: int
    num_epochs: int
    arguments: dict[str, Any]
    dataset: Any = None
    loader: Any = None

    def begin(self, number: int) -> Any:
        """Returns an iterator over epoch `number`; 0 makes a new loader, and gives the same batches each time."""
        if number == 0:
            torch.manual_seed(self.seed)
            self.loader = fastload.DataLoader(self.dataset, **self.arguments)
        return iter(self.loader)

    def drop(self) -> None:
        self.loader = None

    def make_dataset(self) -> Any:
        # In the caller's thread a data set is asked again after an exception, and draws anew.
        draws = self.arguments["num_workers"] > 0
        if self.kind == "Python":
            make = torch.rand if draws else torch.zeros
            return Made(lambda index: index + make(4), NUM_IMAGES * self.repeats)
        if self.kind == "stream":
            return Stream(NUM_IMAGES * self.repeats)
        if self.kind == "native":
            return repeated_images(recipes.training(48), self.repeats)
        if self.kind == "opened":
            return repeated_images(recipes.evaluation(64, 48), self.repeats, loader=opened)
        crop, behind = (
            (transforms.RandomResizedCrop(32), with_noise) if draws else (transforms.Resize((32, 32)), torch.neg)
        )
        steps = [crop, transforms.ToTensor(), behind]
        return repeated_images(transforms.Compose(steps), self.repeats)


KINDS = ("native", "native", "partly native", "partly native", "opened", "Python", "stream")


def make_case(seed: int) -> LoaderCase:
    choose = random.Random(seed)
    kind = choose.choice(KINDS)
    # An iterable in the caller's thread cannot be asked again.
    num_workers = choose.choice([1, 2] if kind == "stream" else [0, 0, 1, 1, 2, 2, 3])
    has_images = kind not in ("Python", "stream")
    case = LoaderCase(seed, kind, choose.choice([1, 3, 8] if has_images else [1, 8, 30]), choose.choice([1, 1, 2]), {})
    arguments: dict[str, Any] = {"num_workers": num_workers}
    if num_workers:
        arguments["prefetch_factor"] = choose.choice([1, 2, 2, 5])
        arguments["persistent_workers"] = choose.random() < 0.4
    sampling = "in order" if kind == "stream" else choose.choice(["shuffle", "in order", "lists"])
    if sampling == "lists":
        numbers = choose.choices(range(NUM_IMAGES * case.repeats), k=NUM_IMAGES * case.repeats)
        size = choose.choice([1, 4])
        arguments["batch_sampler"] = [numbers[first : first + size] for first in range(0, len(numbers), size)]
    else:
        arguments["batch_size"] = choose.choice([1, 2, 5, 8, 64])
        arguments["drop_last"] = choose.random() < 0.2
        arguments["shuffle"] = sampling == "shuffle"
    if kind == "native" and choose.random() < 0.3:
        arguments.update(rng="sample", seed=choose.randrange(100))
    if not has_images and choose.random() < 0.2:
        arguments["device_transform"] = operator.neg
    case.arguments = arguments
    case.dataset = case.make_dataset()
    return case


def digest(batch: Any) -> bytes:
    """Returns a digest of the values of a batch."""
    tensors = batch if isinstance(batch, (list, tuple)) else [batch]
    return hashlib.sha256(b"".join(tensor.contiguous().numpy().tobytes() for tensor in tensors)).digest()
