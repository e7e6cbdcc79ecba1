"""Runs like python_runs's, of streams: data sets without an index, some of which report their position."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from python_runs import drawn
from resumed_runs import NUM_EPOCHS, batch_of, program_states, seed_program, set_program_states
from torch.utils.data import IterableDataset, get_worker_info
from torch.utils.data.datapipes.iter import IterableWrapper

import fastload

# Samples of each worker's part, so that workers end at different times; without workers there is one part.
LENGTHS = (13, 4, 8)


def part_of_worker() -> range:
    info: Any = get_worker_info()
    if info is None:
        return range(sum(LENGTHS))
    return range(100 * info.id, 100 * info.id + (sum(LENGTHS) if info.num_workers == 1 else LENGTHS[info.id]))


def sample_of(index: int, *numbers: float) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.cat([drawn(), torch.tensor([index, *numbers], dtype=torch.float64)]), torch.tensor(index)


class Plain(IterableDataset[Any]):
    """Draws for each sample, and once at its beginning."""

    def __iter__(self) -> Iterator[Any]:
        offset = random.random()
        for index in part_of_worker():
            yield sample_of(index, offset)


class Shuffled(IterableDataset[Any]):
    """Uses an order that iter() draws."""

    def __iter__(self) -> Iterator[Any]:
        indices = list(part_of_worker())
        random.shuffle(indices)
        return map(sample_of, indices)


class ShuffleBuffer(Plain):
    def __iter__(self) -> Iterator[Any]:
        buffer: list[int] = []
        for index in part_of_worker():
            buffer.append(index)
            if len(buffer) > 4:
                yield sample_of(buffer.pop(random.randrange(len(buffer))))
        random.shuffle(buffer)
        yield from map(sample_of, buffer)


class Holds(IterableDataset[Any]):
    """Draws from its own generators, one of which its first sample makes."""

    def __init__(self) -> None:
        self.numpy, self.inner = np.random.default_rng(1), {"torch": torch.Generator().manual_seed(4)}
        self.later: Any = None

    def __iter__(self) -> Iterator[Any]:
        for index in part_of_worker():
            self.later = self.later or random.Random(3)
            torchs = torch.rand((), generator=self.inner["torch"]).item()
            yield sample_of(index, self.numpy.random(), torchs, self.later.gauss(0, 1))


class _Items:
    """Two of them fail after they have drawn; the others come nevertheless."""

    def __init__(self) -> None:
        self.indices = iter(part_of_worker())

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> Any:
        index = next(self.indices)
        sample = sample_of(index)
        if index % 100 in (2, 7):
            raise KeyError(index)
        return sample


class Raises(IterableDataset[Any]):
    def __iter__(self) -> Any:
        return _Items()


class StatefulDataset(IterableDataset[Any]):
    """Its iterators are generators; it counts its epochs."""

    def __init__(self) -> None:
        self.number, self.resumed, self.epoch = 0, None, 0

    def __iter__(self) -> Iterator[Any]:
        self.number, self.resumed = self.resumed or 0, None
        part = part_of_worker()
        while self.number < len(part):
            self.number += 1
            yield sample_of(part[self.number - 1], self.epoch)
        self.number, self.epoch = 0, self.epoch + 1

    def state_dict(self) -> dict[str, Any]:
        return {"number": self.number, "epoch": self.epoch}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.resumed, self.epoch = state["number"], state["epoch"]


class StatefulItems:
    """Uses an order that is drawn when it is made. Its state is a list with which it goes on."""

    def __init__(self) -> None:
        self.left = list(part_of_worker())
        random.shuffle(self.left)

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> Any:
        if not self.left:
            raise StopIteration
        return sample_of(self.left.pop())

    def state_dict(self) -> dict[str, Any]:
        return {"left": self.left}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.left = state["left"]


class StatefulIterator(IterableDataset[Any]):
    def __iter__(self) -> Any:
        return StatefulItems()


class StatefulBoth(StatefulIterator):
    """Holds a generator that iter() draws from."""

    def __init__(self) -> None:
        self.num_iters, self.python = 0, random.Random(9)

    def __iter__(self) -> Any:
        self.num_iters += 1
        items = super().__iter__()
        self.python.shuffle(items.left)
        return items

    def state_dict(self) -> dict[str, Any]:
        return {"num_iters": self.num_iters}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.num_iters = state["num_iters"] - 1  # iter() comes next


class OwnIterator(IterableDataset[Any]):
    """Is its own iterator, and fails now and then."""

    def __iter__(self) -> Any:
        self.part, self.number = part_of_worker(), 0
        return self

    def __next__(self) -> Any:
        if self.number >= len(self.part):
            raise StopIteration
        self.number += 1
        if self.number in (3, 8):
            raise KeyError(self.number)
        return sample_of(self.part[self.number - 1])

    def state_dict(self) -> dict[str, Any]:
        return {"number": self.number}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.number = state["number"]


STREAMS: dict[str, Callable[[], Any]] = {
    "plain": Plain,
    "shuffled": Shuffled,
    "shuffle buffer": ShuffleBuffer,
    "holds": Holds,
    "raises": Raises,
    "stateful data set": StatefulDataset,
    "stateful iterator": StatefulIterator,
    "both stateful": StatefulBoth,
    "own iterator": OwnIterator,
    "data pipe": lambda: IterableWrapper(range(sum(LENGTHS))).shuffle(buffer_size=9).sharding_filter().map(sample_of),
}
STATEFUL = ("stateful data set", "stateful iterator", "both stateful", "own iterator")
BATCHES: dict[str, dict[str, Any]] = {
    "of 2": {"batch_size": 2},
    "of 3, dropping": {"batch_size": 3, "drop_last": True},
    "none": {"batch_size": None},
}
STOPS = (0, 1, 3, "last but one", "last", "finished")


def collate_with_draws(samples: list[Any]) -> Any:
    images, labels = torch.utils.data.default_collate(samples)
    return images + torch.rand(()) + random.random(), labels


@dataclass(frozen=True)
class StreamCase:
    """A loader of a stream, and the place where it is stopped."""

    stream: str = "plain"
    num_workers: int = 2
    persistent_workers: bool = False
    stop: int | str = 3
    rng: str = "torch"
    batches: str = "of 2"
    every: int = 1

    def make_loader(self, _: Path | None = None, **changes: Any) -> fastload.DataLoader[Any]:
        arguments = {
            "num_workers": self.num_workers,
            "persistent_workers": self.persistent_workers and self.num_workers > 0,
            "rng": self.rng,
            "snapshot_every_n_steps": self.every,
            "collate_fn": None if self.batches == "none" else collate_with_draws,
            **BATCHES[self.batches],
            **changes,
        }
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*worker threads, more than")
            return fastload.DataLoader(STREAMS[self.stream](), **arguments)


def next_of(iterator: Any) -> Any:
    """Returns the next batch, "failed", or None at the end."""
    try:
        return batch_of(*next(iterator))
    except StopIteration:
        return None
    except KeyError:
        return "failed"


def rest_of(iterator: Any) -> list[Any]:
    return list(iter(lambda: next_of(iterator), None))


@dataclass
class StoppedStream:
    """A Stopped whose batches may have failed."""

    state: dict[str, Any]
    program: Any
    rest: list[list[Any]]


def run_stream(loader: Any, case: StreamCase) -> StoppedStream:
    """Runs NUM_EPOCHS epochs after a whole one, without a stop; takes the state on the way."""
    seed_program(3)
    length = len(rest_of(iter(loader)))
    num_steps: Any = {"last but one": length - 1, "last": length, "finished": length}.get(case.stop, case.stop)  # type: ignore[call-overload]
    iterator = iter(loader)
    for _ in range(num_steps):
        assert next_of(iterator) is not None
    if case.stop == "finished":
        assert next_of(iterator) is None
    state, program = loader.state_dict(), program_states()
    rest = [rest_of(iterator)]
    del iterator
    return StoppedStream(state, program, rest + [rest_of(iter(loader)) for _ in range(NUM_EPOCHS - 1)])


def resume_stream(loader: Any, stopped: StoppedStream, state: Any = None) -> list[list[Any]]:
    """Returns the same rest, of a loader that resumes where the other was stopped."""
    state = stopped.state if state is None else state
    seed_program(999)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="num_workers=0: random transforms")
        warnings.filterwarnings("ignore", message=".*batches are asked for again")
        warnings.filterwarnings("ignore", message="the state is of an epoch that was over")
        loader.load_state_dict(state)
        set_program_states(stopped.program)
        is_in_epoch = state["fastload"]["moment"] == "in an epoch"
        rest = [rest_of(iter(loader)) if is_in_epoch else []]
        rest += [rest_of(iter(loader)) for _ in range(NUM_EPOCHS - 1)]
    return rest


def assert_stream_exact(case: StreamCase) -> None:
    """Asserts exactness; names the first batch that differs."""
    stopped = run_stream(case.make_loader(), case)
    found = resume_stream(case.make_loader(), stopped)
    for number, (theirs, mine) in enumerate(zip(stopped.rest, found, strict=True)):
        assert [each[1:] for each in theirs] == [each[1:] for each in mine], f"{case}: labels of epoch {number}"
        assert theirs == mine, f"{case}: epoch {number}"
