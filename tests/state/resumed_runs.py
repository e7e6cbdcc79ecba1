"""Runs of loaders that are stopped, saved and resumed, beside the same run without a stop."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import recipes
import torch
from torch.utils.data import BatchSampler, DistributedSampler, RandomSampler, Sampler, SubsetRandomSampler
from torchvision.datasets import ImageFolder

import fastload

NUM_IMAGES = 22
BATCH_SIZE = 3
NUM_EPOCHS = 3
WORKERS = (0, 1, 2, 3, 8)


class DrawsWhenAsked(Sampler[int]):
    """Permutes by NumPy when an iterator is requested, and draws from random for each index."""

    def __init__(self, length: int) -> None:
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[int]:
        order = np.random.permutation(self.length).tolist()
        return (index if random.random() < 0.8 else torch.randint(self.length, ()).item() for index in order)


class OwnBatches(Sampler[list[int]]):
    """Batches of two and four in turn, in an order that the program's torch draws."""

    def __init__(self, length: int) -> None:
        self.length = length

    def __len__(self) -> int:
        return 2 * -(-self.length // 6)

    def __iter__(self) -> Iterator[list[int]]:
        order = torch.randperm(self.length).tolist() + [0] * 6
        for begin in range(0, self.length, 6):
            yield order[begin : begin + 2]
            yield order[begin + 2 : begin + 6]


class HoldsGenerators(Sampler[int]):
    """Draws from its own generators: some when an iterator is requested, others for each index."""

    def __init__(self, length: int) -> None:
        self.length = length
        self.numpy, self.legacy = np.random.default_rng(1), np.random.RandomState(2)
        self.python, self.torch = random.Random(3), seeded(4)

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[int]:
        order = self.numpy.permutation(self.length).tolist()
        return (self._one_of(index) for index in order)

    def _one_of(self, index: int) -> int:
        others = (int(self.legacy.randint(self.length)), int(torch.randint(self.length, (), generator=self.torch)))
        return self.python.choice((index, int(self.numpy.integers(self.length)), *others))


class StatefulCounter(Sampler[int]):
    """Continues its count over its epochs; its next index depends on nothing else."""

    def __init__(self, length: int) -> None:
        self.length, self.given = length, 0

    def __len__(self) -> int:
        return self.length

    def state_dict(self) -> dict[str, int]:
        return {"given": self.given}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.given = state["given"]

    def __iter__(self) -> Iterator[int]:
        start = self.given % self.length
        for _ in range(start, self.length):
            index = (self.given * 7 + self.given // self.length) % self.length
            self.given += 1
            yield index


def seeded(seed: int = 5) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


# Arguments of a loader of NUM_IMAGES samples.
SAMPLERS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "sequential": lambda _: {"batch_size": BATCH_SIZE},
    "random": lambda _: {"batch_size": BATCH_SIZE, "shuffle": True},
    "random, dropping": lambda _: {"batch_size": BATCH_SIZE, "shuffle": True, "drop_last": True},
    "random with generator": lambda _: {"batch_size": BATCH_SIZE, "shuffle": True, "generator": seeded()},
    # The last batch is full, so the sampler draws once more only if another one is requested.
    "random with generator, full batches": lambda _: {"batch_size": 2, "shuffle": True, "generator": seeded()},
    "random with two generators": lambda dataset: {
        "batch_size": BATCH_SIZE,
        "sampler": RandomSampler(dataset, True, 40, seeded(6)),
        "generator": seeded(),
    },
    "distributed": lambda dataset: {"batch_size": BATCH_SIZE, "sampler": DistributedSampler(dataset, 2, 1, seed=4)},
    "list": lambda _: {"batch_size": BATCH_SIZE, "sampler": [5, 0, 3, 3, 10, 21, 8, 1, 2, 2]},
    "draws when asked": lambda dataset: {"batch_size": BATCH_SIZE, "sampler": DrawsWhenAsked(len(dataset))},
    "subset, random": lambda _: {"batch_size": BATCH_SIZE, "sampler": SubsetRandomSampler(range(2, 19))},
    "subset with generator": lambda _: {
        "batch_size": BATCH_SIZE,
        "sampler": SubsetRandomSampler(range(2, 19), seeded()),
    },
    "holds generators": lambda dataset: {"batch_size": BATCH_SIZE, "sampler": HoldsGenerators(len(dataset))},
    "own batches": lambda dataset: {"batch_sampler": OwnBatches(len(dataset))},
    "stateful": lambda dataset: {"batch_size": BATCH_SIZE, "sampler": StatefulCounter(len(dataset))},
    "batches of stateful": lambda dataset: {
        "batch_sampler": BatchSampler(StatefulCounter(len(dataset)), BATCH_SIZE, True)
    },
}
TRANSFORMS = {"evaluation": lambda: recipes.evaluation(40, 32), "training": lambda: recipes.training(32)}
STOPS = (0, 1, 3, "last but one", "last", "finished")


@dataclass(frozen=True)
class Case:
    """A loader, and the place where it is stopped."""

    transform: str = "training"
    num_workers: int = 2
    persistent_workers: bool = False
    sampler: str = "random"
    stop: int | str = 3
    rng: str = "torch"
    seed: int | None = None
    on_error: str = field(default="raise", kw_only=True)

    def make_loader(self, folder: Path, **changes: Any) -> fastload.DataLoader[Any]:
        loader = self.loader_of(ImageFolder(str(folder), TRANSFORMS[self.transform]()), **changes)
        assert loader.explain().is_native, loader.explain()
        return loader

    def loader_of(self, dataset: Any, **changes: Any) -> fastload.DataLoader[Any]:
        arguments = {
            "num_workers": self.num_workers,
            "persistent_workers": self.persistent_workers and self.num_workers > 0,
            "rng": self.rng,
            "seed": self.seed,
            "on_error": self.on_error,
            **SAMPLERS[self.sampler](dataset),
            **changes,
        }
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*worker threads, more than")
            return fastload.DataLoader(dataset, **arguments)

    def num_steps(self, loader: Any) -> int:
        """Returns the number of batches before the stop."""
        length = len(loader)
        steps = {"last but one": length - 1, "last": length, "finished": length}.get(self.stop, self.stop)
        return min(steps, length)


Batch = tuple[bytes, list[int]]


def batch_of(images: torch.Tensor, labels: torch.Tensor) -> Batch:
    return images.contiguous().numpy().tobytes(), labels.tolist()


def set_epoch(loader: Any, epoch: int) -> None:
    if isinstance(loader.sampler, DistributedSampler):
        loader.sampler.set_epoch(epoch)


def epochs_of(loader: Any, num_epochs: int = 3) -> list[list[tuple[Batch, Any]]]:
    """Returns (batch, report) of each batch of each epoch."""
    epochs = []
    for epoch in range(num_epochs):
        set_epoch(loader, epoch)
        iterator = iter(loader)
        epochs.append([(batch_of(*batch), iterator.batch_report()) for batch in iterator])
    return epochs


def assert_failed_batches_count(make: Callable[[], Any], error: type[Exception]) -> None:
    """Asserts that a loader with batches that raise `error` resumes correctly after any batch, failed or not."""

    def rest_of(iterator: Any) -> list[Any]:
        found: list[Any] = []
        while True:
            try:
                found.append(batch_of(*next(iterator)))
            except StopIteration:
                return found
            except error:
                found.append("failed")

    torch.manual_seed(3)
    whole = rest_of(iter(make()))
    assert whole.count("failed") >= 2
    torch.manual_seed(3)
    iterator = iter(make())
    for stop in range(len(whole)):
        loader = make()
        loader.load_state_dict(iterator.state_dict())
        assert rest_of(iter(loader)) == whole[stop:], stop
        try:
            next(iterator)
        except error:
            assert whole[stop] == "failed"


def seed_program(seed: int) -> None:
    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed)


def program_states() -> Any:
    return torch.get_rng_state(), random.getstate(), np.random.get_state()


def set_program_states(states: Any) -> None:
    torch.set_rng_state(states[0])
    random.setstate(states[1])
    np.random.set_state(states[2])


def program_bytes() -> tuple[bytes, Any, bytes, int]:
    """Returns the program's generators in a comparable form."""
    numpy: Any = np.random.get_state()
    return torch.get_rng_state().numpy().tobytes(), random.getstate(), numpy[1].tobytes(), numpy[2]


@dataclass
class Stopped:
    """The results of a run: the state, the program's generators, and the batches before and after the stop."""

    state: dict[str, Any]
    program: Any
    before: list[Batch]
    rest: list[list[Batch]]


def run_through(loader: Any, case: Case) -> Stopped:
    """Runs NUM_EPOCHS epochs after the one before the stop, without a stop; takes the state on the way."""
    seed_program(3)
    set_epoch(loader, 0)
    first = [batch_of(*batch) for batch in loader]  # a whole epoch, so that the stop is in the second
    set_epoch(loader, 1)
    iterator = iter(loader)
    before = [batch_of(*next(iterator)) for _ in range(case.num_steps(loader))]
    if case.stop == "finished":
        assert next(iterator, None) is None
    state, program = loader.state_dict(), program_states()
    rest = [[batch_of(*batch) for batch in iterator]]
    del iterator
    for epoch in range(2, NUM_EPOCHS + 1):
        set_epoch(loader, epoch)
        rest.append([batch_of(*batch) for batch in loader])
    return Stopped(state, program, first + before, rest)


def resume(loader: Any, stopped: Stopped, state: Any = None) -> list[list[Batch]]:
    """Returns the rest of an epoch and the epochs after it, of a loader that resumes where the other was stopped."""
    seed_program(999)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="num_workers=0: random transforms")
        loader.load_state_dict(stopped.state if state is None else state)
    set_program_states(stopped.program)
    rest: list[list[Batch]] = []
    if not stopped.rest[0]:  # the stop is after the epoch: the next iter() is for the next one
        rest.append([])
    else:
        rest.append([batch_of(*batch) for batch in loader])
    while len(rest) < len(stopped.rest):
        set_epoch(loader, len(rest) + 1)
        rest.append([batch_of(*batch) for batch in loader])
    return rest


def assert_exact(case: Case, folder: Path) -> None:
    """Asserts exactness; names the first batch that differs."""
    stopped = run_through(case.make_loader(folder), case)
    assert_rest_equal(stopped.rest, resume(case.make_loader(folder), stopped), case)


def assert_rest_equal(expected: list[list[Batch]], found: list[list[Batch]], case: Any) -> None:
    for number, (theirs, mine) in enumerate(zip(expected, found, strict=True)):
        assert len(theirs) == len(mine), f"{case}: epoch {number} has {len(mine)} batches, not {len(theirs)}"
        for position, (wanted, batch) in enumerate(zip(theirs, mine, strict=True)):
            assert wanted[1] == batch[1], f"{case}: labels of batch {position} of epoch {number}"
            assert wanted == batch, f"{case}: batch {position} of epoch {number}"
