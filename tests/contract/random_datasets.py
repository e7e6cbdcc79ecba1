"""Loaders of data sets that run in Python, made at random: the same for the same seed, on torch's class and fastload's.

``PYTHONPATH=.:tests python -W ignore tests/contract/random_datasets.py SECONDS [FIRST_SEED]`` goes on for that long and
tells each that differs; the tests take some seeds.
"""

from __future__ import annotations

import gc
import itertools
import random
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import torch
import torch.utils.data
from oracle import LOADERS
from torch.utils.data import ConcatDataset, Dataset, IterableDataset, StackDataset, Subset, get_worker_info
from user_datasets import flat


class BrokenSampleError(Exception):
    pass


_ERRORS: list[Callable[[int], Exception]] = [
    lambda index: BrokenSampleError(f"sample {index}"),
    lambda index: KeyError(f"sample {index}\nof a file"),
    lambda index: FileNotFoundError(2, "No such file", f"{index}.png"),
    lambda index: UnicodeDecodeError("utf-8", b"x", index % 7, 8, "bad"),
    lambda _: AssertionError(),
]


@dataclass
class Habits:
    """What the samples of a data set do: each a share of them.

    Attributes:
        draws: random numbers of torch.
        asks: which worker it is.
        seeds: torch.
        fails: before they draw.
        fails_late: after they have drawn.
    """

    draws: float = 0.0
    asks: float = 0.0
    seeds: float = 0.0
    fails: float = 0.0
    fails_late: float = 0.0

    def sample(self, seed: int, index: int) -> Any:
        """Sample `index`, whose habits are always the same; those of others are others."""
        choose = random.Random(seed * 1_000_003 + index)
        if choose.random() < self.fails:
            raise choose.choice(_ERRORS)(index)
        found: list[Any] = [index, torch.zeros(2), 0, -1]
        if choose.random() < self.seeds:
            torch.manual_seed(index)
        if choose.random() < self.draws:
            found[1] = choose.choice([torch.rand, torch.randn])(2) + torch.empty(2).uniform_()
            found[2] = int(torch.randint(1000, (1,)))
        if choose.random() < self.asks and (info := get_worker_info()) is not None:
            found[3] = info.id * 1_000_000 + info.seed % 1_000_000
        if choose.random() < self.fails_late:
            raise choose.choice(_ERRORS)(index)
        return {"all": found, "name": f"sample {index}"} if seed % 2 else tuple(found)


class Samples(Dataset[Any]):
    def __init__(self, length: int, habits: Habits, seed: int) -> None:
        self.length, self.habits, self.seed = length, habits, seed

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: Any) -> Any:
        return self.habits.sample(self.seed, range(self.length)[index])


class SampleLists(Samples):
    def __getitems__(self, indices: list[Any]) -> list[Any]:
        return [self[index] for index in reversed(indices)]


class Items(IterableDataset[Any]):
    """Every worker has its own part, or all of it."""

    def __init__(self, length: int, habits: Habits, seed: int) -> None:
        self.length, self.habits, self.seed = length, habits, seed

    def __iter__(self) -> Iterator[Any]:
        info = get_worker_info()
        if info is None or self.seed % 3 == 0:
            numbers = range(self.length)
        else:
            numbers = range(info.id, self.length if info.id else self.length // 2, info.num_workers)
        return (self.habits.sample(self.seed, number) for number in numbers)


class ItemsWithLength(Items):
    def __len__(self) -> int:
        return self.length


def collate_with_noise(samples: list[Any]) -> Any:
    return torch.rand(1), torch.utils.data.default_collate(samples)


def collate_that_fails_now_and_then(samples: list[Any]) -> Any:
    first = samples[0]["all"][0] if isinstance(samples[0], dict) else samples[0][0]
    if first % 5 == 2:
        raise BrokenSampleError(f"batch of sample {first}")
    return samples


def seed_worker(worker_id: int) -> None:
    torch.manual_seed(100 + worker_id)


class GivenBatches:
    """A batch sampler, or a sampler, of what it is given; one that is an exception is raised."""

    def __init__(self, batches: list[Any]) -> None:
        self.batches = batches

    def __iter__(self) -> Iterator[Any]:
        for batch in self.batches:
            if isinstance(batch, Exception):
                raise type(batch)(*batch.args)  # a new one: its traceback has torch's iterator, which is to go
            yield batch

    def __len__(self) -> int:
        return len(self.batches)


@dataclass
class Case:
    """A loader and how it is iterated over."""

    seed: int
    kind: str = ""
    length: int = 0
    habits: Habits = field(default_factory=Habits)
    arguments: dict[str, Any] = field(default_factory=dict)
    own_generator: str | None = None
    sampling: str = ""
    given: list[Any] = field(default_factory=list)
    steps: list[int | None] = field(default_factory=list)
    is_interleaved: bool = False
    is_drawing: bool = False

    @property
    def is_iterable(self) -> bool:
        return self.kind.startswith("items")


MAP_KINDS = ["plain", "plain", "lists", "subset", "subset of subset", "subset of lists", "concat", "dict", "stack"]


def make_case(seed: int) -> Case:
    choose = random.Random(seed)
    case = Case(seed, choose.choice([*MAP_KINDS, "items", "items", "items with length"]))
    case.length = choose.choice([0, 1, 5, 12, 30])
    case.habits = Habits(*(choose.choice([0.0, 0.0, 0.3, 1.0]) for _ in range(2)), choose.choice([0.0, 0.0, 0.2]))
    if choose.random() < 0.5:
        case.habits.fails, case.habits.fails_late = choose.choice([0.0, 0.1, 0.3]), choose.choice([0.0, 0.1])
    workers = choose.choice([0, 0, 1, 2, 2, 3])
    case.arguments = {"num_workers": workers, "batch_size": choose.choice([1, 2, 3, 4, 7, None])}
    if workers:
        case.arguments["prefetch_factor"] = choose.choice([1, 2, 3, 5])
        case.arguments["persistent_workers"] = choose.random() < 0.4
        case.arguments["worker_init_fn"] = choose.choice([None, None, None, seed_worker])
    if case.arguments["batch_size"] is not None:
        case.arguments["drop_last"] = choose.random() < 0.3
        case.arguments["collate_fn"] = choose.choice([None, None, collate_with_noise, collate_that_fails_now_and_then])
    case.own_generator = choose.choice([None, None, "own", "default"])
    case.sampling = choose.choice(["shuffle", "sequential", "replacement", "given", "given"])
    if case.is_iterable:
        case.sampling = "sequential"
    if case.sampling == "given":
        _give_keys(case, choose)
    case.steps = [choose.choice([None, None, choose.randrange(6)]) for _ in range(choose.choice([1, 2, 3]))]
    case.is_interleaved = choose.random() < 0.15
    case.is_drawing = choose.random() < 0.3
    return case


def _give_keys(case: Case, choose: random.Random) -> None:
    reach = max(1, case.length)

    def key() -> Any:
        if choose.random() < 0.02:
            return choose.choice(["two", None, (1, 2), 1.5])
        return choose.randrange(-reach - (choose.random() < 0.05), reach + (choose.random() < 0.05))

    def batch() -> Any:
        if case.arguments["batch_size"] is None:
            return key()
        return [key() for _ in range(choose.choice([0, 1, 2, 4, 6]) if choose.random() < 0.3 else 3)]

    case.given = [batch() for _ in range(choose.randrange(12))]
    # Not before iter() is over: torch then leaves its workers to the collector, which waits 5 s for each.
    ahead = case.arguments["num_workers"] * case.arguments.get("prefetch_factor", 1)
    if choose.random() < 0.3 and ahead < len(case.given):
        case.given[choose.randrange(ahead, len(case.given))] = KeyError("sampler")


def dataset_of(case: Case) -> Any:
    choose = random.Random(case.seed + 1)
    new = {"lists": SampleLists, "subset of lists": SampleLists, "items": Items, "items with length": ItemsWithLength}
    dataset: Any = new.get(case.kind, Samples)(case.length, case.habits, case.seed)
    if case.kind == "concat":
        return ConcatDataset([dataset, Samples(5, case.habits, case.seed)])
    if case.kind == "dict":
        return {index: {"all": [index, index / 2]} for index in range(-case.length, case.length)}
    if case.kind == "stack":
        return StackDataset(dataset, Samples(case.length, Habits(draws=0.2), case.seed + 2))
    if case.kind.startswith("subset"):
        dataset = Subset(dataset, [choose.randrange(max(1, case.length)) for _ in range(case.length)])
    if case.kind == "subset of subset":
        dataset = Subset(dataset, [*range(0, case.length, 2), *range(case.length)])
    return dataset


def arguments_of(case: Case, dataset: Any, generator: torch.Generator | None) -> dict[str, Any]:
    arguments = {**case.arguments, "generator": generator}
    if case.sampling == "given" and case.arguments["batch_size"] is None:
        arguments["sampler"] = GivenBatches(case.given)
    elif case.sampling == "given":
        del arguments["batch_size"], arguments["drop_last"]
        arguments["batch_sampler"] = GivenBatches(case.given)
    elif case.sampling == "shuffle" and case.length:
        arguments["shuffle"] = True
    elif case.sampling == "replacement" and case.length:
        arguments["sampler"] = torch.utils.data.RandomSampler(dataset, True, 17, generator=generator)
    return arguments


def outcome(action: Callable[[], Any]) -> Any:
    try:
        return flat(action())
    except StopIteration:
        return "end"
    except Exception as error:  # noqa: BLE001 - what is raised is what is compared
        lines = [*str(error).splitlines(), ""]
        return type(error).__name__, lines[0].replace("worker process", "worker thread"), lines[-2:]


def run_case(kind: Any, case: Case) -> list[Any]:
    """All that can be seen from outside, step by step."""
    dataset = dataset_of(case)
    torch.manual_seed(case.seed)
    generator = {"own": torch.Generator().manual_seed(case.seed), "default": torch.default_generator}.get(
        str(case.own_generator)
    )
    loader = kind(dataset, **arguments_of(case, dataset, generator))
    seen: list[Any] = [outcome(lambda: len(loader))]

    def note(what: Any) -> Any:
        states = [torch.get_rng_state(), *([] if generator is None else [generator.get_state()])]
        seen.append((what, [state.numpy().tobytes() for state in states]))
        return what

    def iterate(iterators: list[Iterator[Any]], limit: int | None) -> None:
        for _ in itertools.count() if limit is None else range(limit):
            found = [note(outcome(lambda iterator=iterator: next(iterator))) for iterator in iterators]
            if case.is_drawing:
                torch.randn(3)
            if found == ["end"] * len(found):
                return

    for steps in case.steps:
        iterators: list[Iterator[Any]] = []
        for _ in range(2 if case.is_interleaved and not case.arguments.get("persistent_workers") else 1):
            note(outcome(lambda begun=iterators: begun.append(iter(loader))))
        if case.is_drawing:
            torch.rand(1)
        iterate(iterators, steps)
    return seen


def assert_case(seed: int) -> None:
    case = make_case(seed)
    # For so long torch waits for a worker to end; where one has failed it often does not, and is killed then.
    with mock.patch.object(torch.utils.data._utils, "MP_STATUS_CHECK_INTERVAL", 0.2):
        theirs, mine = (run_case(kind, case) for kind in LOADERS)
        gc.collect()  # an iterator of torch that has raised is in a cycle, and its workers live as long
    for step, (expected, found) in enumerate(itertools.zip_longest(theirs, mine)):
        names = [str(side and side[0])[:300] for side in (expected, found)]
        assert found == expected, f"step {step}: {names}\n{case}"


def main() -> None:
    seconds, first = float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 10_000
    begin = time.monotonic()
    for seed in itertools.count(first):
        if time.monotonic() > begin + seconds:
            print(f"{seed - first} cases from {first} on: equal")
            return
        try:
            assert_case(seed)
        except AssertionError as difference:
            print(f"seed {seed}: {difference}", flush=True)


if __name__ == "__main__":
    main()
