"""Data sets that users bring, none of them native; torch's workers can load each, too."""

from __future__ import annotations

import collections
import random
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.utils.data
from flat_values import flat
from numbered import NUM_SAMPLES, Numbered
from torch.utils.data import ConcatDataset, IterableDataset, StackDataset, Subset, TensorDataset


class Drawing(Numbered):
    """Each sample draws, in several ways, as many numbers as its index says."""

    def sample(self, index: int) -> Any:
        noise = torch.randn(2) + torch.rand(1)
        for _ in range(index % 3):
            noise = noise + torch.empty(2).uniform_(-1, 1)
        return noise, torch.randint(1000, (1,)), torch.randperm(5), index


class DrawingInCollate(Numbered):
    """Draws nothing itself; see `collate_with_noise`."""


class DrawingByDefault(Numbered):
    """Passes torch's default generator on, as random_split() does by itself."""

    def sample(self, index: int) -> Any:
        part, _ = torch.utils.data.random_split(range(6), [3, 3])  # type: ignore[arg-type, var-annotated]
        return torch.tensor(part.indices), torch.rand(1, generator=torch.default_generator)


class Seeding(Numbered):
    """Seeds torch to transform an image and its mask equally."""

    def sample(self, index: int) -> Any:
        torch.manual_seed(index)
        image = torch.rand(3)
        torch.manual_seed(index)
        return image, torch.rand(3), torch.initial_seed()


class Forking(Numbered):
    """Draws outside the stream and then continues it."""

    def sample(self, index: int) -> Any:
        state = torch.get_rng_state()
        beside = torch.rand(2)
        torch.set_rng_state(state)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(3)
            fixed = torch.rand(2)
        return beside, fixed, torch.rand(2)


class Knowing(Numbered):
    """Tells which worker it is in."""

    def sample(self, index: int) -> Any:
        info = torch.utils.data.get_worker_info()
        if info is None:
            return index, -1, -1, -1
        return index, info.id, info.num_workers, info.seed


class WithSampleLists(Numbered):
    """Takes the indices of a batch at once, and shows that it got them so."""

    def __getitems__(self, indices: list[int]) -> list[Any]:
        return [(*self[index], len(indices), float(torch.rand(1))) for index in indices]


class Point(NamedTuple):
    position: torch.Tensor
    name: str


class Nested(Numbered):
    def sample(self, index: int) -> Any:
        return {
            "tensor": torch.arange(3) + index,
            "array": np.full((2, 2), index, np.float32),
            "number": float(index),
            "int": index,
            "bool": index % 2 == 0,
            "text": f"sample {index}",
            "bytes": b"\x00\xff",
            "point": Point(torch.tensor([index]), "here"),
            "ordered": collections.OrderedDict(first=index, second=(index, [index])),
            "numpy scalar": np.int16(index),
            "list": [index, {"deep": torch.tensor(index)}],
        }


def collate_with_noise(samples: list[Any]) -> Any:
    return torch.stack([image for image, _ in samples]) + torch.rand(1), len(samples)


def as_they_are(samples: Any) -> Any:
    return samples


# Name -> (a function that makes the data set, other arguments of the loader).
MAP_DATASETS: dict[str, tuple[Callable[[], Any], dict[str, Any]]] = {
    "a class": (Numbered, {}),
    "a list": (lambda: list(range(NUM_SAMPLES)), {}),
    "a dict with an index": (lambda: {index: float(index) for index in range(NUM_SAMPLES)}, {}),
    "a TensorDataset": (lambda: TensorDataset(torch.arange(NUM_SAMPLES), torch.rand(NUM_SAMPLES, 2) * 0 + 1), {}),
    "a StackDataset": (lambda: StackDataset(a=Numbered(), b=Numbered()), {}),
    "a ConcatDataset": (lambda: ConcatDataset([Numbered(8), Drawing(9)]), {"collate_fn": as_they_are}),
    "a Subset": (lambda: Subset(Drawing(), [3, 1, 4, 1, 5, 9, 2, 6]), {}),
    "a Subset of a Subset": (lambda: Subset(Subset(Numbered(), [*range(3, 20)]), [*range(0, 15, 2)]), {}),
    "a Subset of one with sample lists": (lambda: Subset(WithSampleLists(), [3, 1, 4, 1, 5]), {}),
    "random_split": (
        lambda: torch.utils.data.random_split(Drawing(), [0.5, 0.5], torch.Generator().manual_seed(1))[0],
        {},
    ),
    "one that draws": (Drawing, {}),
    "one that draws from torch's default generator": (DrawingByDefault, {}),
    "one whose collate_fn draws": (DrawingInCollate, {"collate_fn": collate_with_noise}),
    "one that seeds": (Seeding, {}),
    "one that forks the generator": (Forking, {}),
    "one that knows its worker": (Knowing, {}),
    "one with sample lists": (WithSampleLists, {}),
    "nested samples": (Nested, {}),
    "samples as they are": (Nested, {"collate_fn": as_they_are}),
    "without batches": (Drawing, {"batch_size": None}),
    "without batches, nested": (Nested, {"batch_size": None}),
}


class Stream(IterableDataset[Any]):
    """Items 0, 1, ...: each worker takes every n-th of them, the later ones fewer."""

    def __init__(self, length: int = NUM_SAMPLES) -> None:
        self.length = length

    def numbers(self) -> range:
        info = torch.utils.data.get_worker_info()
        return range(self.length) if info is None else range(4 * info.id, self.length, info.num_workers)

    def __iter__(self) -> Iterator[Any]:
        for number in self.numbers():
            yield number, torch.rand(1)


class Repeated(IterableDataset[Any]):
    """Ignores which worker it is in: every worker yields everything."""

    def __iter__(self) -> Iterator[int]:
        return iter(range(7))


class Empty(IterableDataset[Any]):
    def __iter__(self) -> Iterator[int]:
        return iter(())


class EmptyButForOne(IterableDataset[Any]):
    def __iter__(self) -> Iterator[int]:
        info = torch.utils.data.get_worker_info()
        return iter(range(9) if info is None or info.id == info.num_workers - 1 else ())


class OwnIterator(IterableDataset[Any]):
    """``__iter__`` makes an object with ``__next__``, as file readers do."""

    class Reader:
        def __init__(self) -> None:
            self.left = 11

        def __iter__(self) -> Any:
            return self

        def __next__(self) -> int:
            if self.left == 0:
                raise StopIteration
            self.left -= 1
            return self.left

    def __iter__(self) -> Iterator[int]:
        return self.Reader()


class WithLength(Stream):
    def __len__(self) -> int:
        return self.length


ITERABLE_DATASETS: dict[str, Callable[[], Any]] = {
    "split among workers": Stream,
    "repeated by each worker": Repeated,
    "empty": Empty,
    "empty in all workers but one": EmptyButForOne,
    "with an iterator object": OwnIterator,
    "with a length": WithLength,
    "chained": lambda: Repeated() + OwnIterator(),
}


def seeded_epochs(loader: Any, num_epochs: int = 3) -> list[Any]:
    """Returns all bytes of some epochs, and the process's generator states afterwards."""
    torch.manual_seed(5)
    random.seed(5)
    np.random.seed(5)
    found: list[Any] = [[flat(batch) for batch in loader] for _ in range(num_epochs)]
    return [*found, torch.rand(1).item(), random.random(), np.random.rand()]
