"""Random loaders of data sets that run in Python: the same for the same seed on both classes."""

from __future__ import annotations

import functools
import gc
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
import torch.utils.data
from flat_values import words
from numbered import Numbered
from random_runs import Run, first_difference
from torch.utils.data import ConcatDataset, Dataset, IterableDataset, StackDataset, Subset, get_worker_info

import fastload


class BrokenSampleError(Exception):
    pass


_ERRORS: list[Callable[[int], Exception]] = [
    lambda index: BrokenSampleError(f"sample {index}"),
    lambda index: KeyError(f"sample {index}\nof a file"),
    lambda index: FileNotFoundError(2, "No such file", f"{index}.png"),
    lambda index: UnicodeDecodeError("utf-8", b"x", index % 7, 8, "bad"),
    lambda _: AssertionError(),
]


_OF_RANDOM: list[Callable[[], float]] = [
    random.random,
    lambda: random.gauss(0, 1),
    lambda: float(random.randrange(1000)),
    lambda: random.choice([1.5, 2.5, 3.5]),
    lambda: random.sample([0.5, 1.5, 2.5], 3)[0],
]
_OF_NUMPY: list[Callable[[], Any]] = [
    np.random.rand,
    np.random.randn,
    lambda: np.random.permutation(9)[0],
    lambda: np.random.choice([1.5, 2.5], p=[0.3, 0.7]),
    lambda: np.random.normal(size=3).sum(),
]


@dataclass
class Habits:
    """The behaviour of a data set's samples, each as a share of them.

    Attributes:
        draws: random numbers of torch.
        draws_random: random numbers of Python's `random`.
        draws_numpy: random numbers of NumPy's global generator.
        asks: which worker it is.
        seeds: one of these generators.
        fails: before they draw.
        fails_late: after they have drawn.
    """

    draws: float = 0.0
    draws_random: float = 0.0
    draws_numpy: float = 0.0
    asks: float = 0.0
    seeds: float = 0.0
    fails: float = 0.0
    fails_late: float = 0.0

    def sample(self, seed: int, index: int) -> Any:
        """Returns sample `index`, whose habits are always the same; other samples have others."""
        choose = random.Random(seed * 1_000_003 + index)
        if choose.random() < self.fails:
            raise choose.choice(_ERRORS)(index)
        found: list[Any] = [index, torch.zeros(2), 0, -1, 0.0, 0.0]
        if choose.random() < self.seeds:
            choose.choice([torch.manual_seed, random.seed, np.random.seed])(index)
        if choose.random() < self.draws:
            found[1] = choose.choice([torch.rand, torch.randn])(2) + torch.empty(2).uniform_()
            found[2] = int(torch.randint(1000, (1,)))
        if choose.random() < self.draws_random:
            found[4] = choose.choice(_OF_RANDOM)()
        if choose.random() < self.draws_numpy:
            found[5] = float(choose.choice(_OF_NUMPY)())
        if choose.random() < self.asks and (info := get_worker_info()) is not None:
            found[3] = info.id * 1_000_000 + info.seed % 1_000_000
        if choose.random() < self.fails_late:
            raise choose.choice(_ERRORS)(index)
        return {"all": found, "name": f"sample {index}"} if seed % 2 else tuple(found)


class Counter:
    """A callable with a count and a list that grows."""

    def __init__(self) -> None:
        self.calls, self.seen = 0, [0]

    def __call__(self, index: int) -> float:
        self.calls += 1
        self.seen.append(index)
        return self.calls + sum(self.seen) / 1000


class Cache(Counter):
    """Keeps its results; it uses only a bound method of its dict."""

    def __init__(self) -> None:
        super().__init__()
        self.known: dict[int, float] = {}
        self.look_up = self.known.setdefault

    def __call__(self, index: int) -> float:
        return self.look_up(index % 5, super().__call__(index))


class Buffer:
    """Writes into an array and a tensor, and into views of them."""

    def __init__(self) -> None:
        self.array, self.tensor = np.zeros(6), torch.zeros(6)
        self.part, self.view = self.array[2:4], self.tensor[::2]

    def __call__(self, index: int) -> float:
        self.array[index % 6] += index
        self.part += 0.5
        self.view += 1
        return float(self.array.sum() + self.tensor.sum())


def of_closure(_seed: int) -> Callable[[int], float]:
    calls = 0

    def count(index: int) -> float:
        nonlocal calls
        calls += index + 1
        return float(calls)

    return count


def of_generator(draw: Callable[[Any], Any], make: Callable[[int], Any]) -> Callable[[int], Callable[[int], float]]:
    def keeper(seed: int) -> Callable[[int], float]:
        generator = make(seed)
        return lambda _: float(draw(generator))

    return keeper


# Callables that data sets and collate_fn keep: name -> a callable with a state, made from a seed.
KEEPERS: dict[str, Callable[[int], Callable[[int], float]]] = {
    "counter": lambda _: Counter(),
    "cache": lambda _: Cache(),
    "buffer": lambda _: Buffer(),
    "closure": of_closure,
    "method": lambda _: Counter().__call__,
    "partial": lambda _: functools.partial(lambda seen, index: float(seen.append(index) or len(seen)), []),
    "random.Random": lambda seed: of_generator(lambda g: g.random() + g.gauss(0, 1), random.Random)(seed),
    "Generator": of_generator(lambda g: g.random() + g.normal(), np.random.default_rng),
    "RandomState": of_generator(lambda g: g.rand() + g.randn(), np.random.RandomState),
    "torch.Generator": of_generator(
        lambda g: torch.rand(1, generator=g).item(), lambda seed: torch.Generator().manual_seed(seed)
    ),
}


class Samples(Numbered):
    """A map-style data set with keepers.

    Attributes:
        keepers: Called for each sample; several data sets and collate_fn may have the same ones.
    """

    def __init__(self, length: int, habits: Habits, seed: int, keepers: Sequence[Callable[[int], float]] = ()) -> None:
        super().__init__(length)
        self.habits, self.seed, self.keepers = habits, seed, keepers

    def sample(self, index: int) -> Any:
        return with_keepers(self.habits.sample(self.seed, index), self.keepers, index)


def with_keepers(sample: Any, keepers: Sequence[Callable[[int], float]], index: int) -> Any:
    """Returns a sample with the keepers' results for its index."""
    found = [keeper(index) for keeper in keepers]
    return {**sample, "kept": found} if isinstance(sample, dict) else (*sample, found)


class SampleLists(Samples):
    def __getitems__(self, indices: list[Any]) -> list[Any]:
        return [self[index] for index in reversed(indices)]


class Items(IterableDataset[Any]):
    """Every worker has its own part, or all of it."""

    def __init__(self, length: int, habits: Habits, seed: int, keepers: Sequence[Callable[[int], float]] = ()) -> None:
        self.length, self.habits, self.seed, self.keepers = length, habits, seed, keepers

    def __iter__(self) -> Iterator[Any]:
        info = get_worker_info()
        if info is None or self.seed % 3 == 0:
            numbers = range(self.length)
        else:
            numbers = range(info.id, self.length if info.id else self.length // 2, info.num_workers)
        return (with_keepers(self.habits.sample(self.seed, number), self.keepers, number) for number in numbers)


class ItemsWithLength(Items):
    def __len__(self) -> int:
        return self.length


class Mixing(Dataset[Any]):
    """Adds other samples, chosen by `random` and a keeper, and refers to itself."""

    def __init__(self, inner: Samples) -> None:
        self.inner, self.recent, self.itself = inner, [0], self

    def __len__(self) -> int:
        return len(self.inner)

    def __getitem__(self, index: Any) -> Any:
        self.itself.recent.append(range(len(self))[index])
        return self.inner[index], self.inner[random.choice(self.recent)], len(self.recent)


class CollateWithKeepers:
    """Counts batches, and calls the keepers of the data set."""

    def __init__(self, keepers: Sequence[Callable[[int], float]]) -> None:
        self.keepers, self.batches = keepers, 0

    def __call__(self, samples: list[Any]) -> Any:
        self.batches += 1
        noise = np.random.normal() + random.random()
        return torch.utils.data.default_collate(samples), self.batches, [keep(0) for keep in self.keepers], noise


def collate_with_noise(samples: list[Any]) -> Any:
    return torch.rand(1), torch.utils.data.default_collate(samples)


def collate_that_fails_now_and_then(samples: list[Any]) -> Any:
    first = samples[0]["all"][0] if isinstance(samples[0], dict) else samples[0][0]
    if first % 5 == 2:
        raise BrokenSampleError(f"batch of sample {first}")
    return samples


def seed_worker(worker_id: int) -> None:
    torch.manual_seed(100 + worker_id)


@dataclass
class Case(Run):
    """A data set, its loader, and the way it is iterated over."""

    kind: str = ""
    length: int = 0
    habits: Habits = field(default_factory=Habits)
    keepers: list[str] = field(default_factory=list)

    @property
    def is_iterable(self) -> bool:
        return self.kind.startswith("items")


MAP_KINDS = [
    "plain",
    "plain",
    "lists",
    "subset",
    "subset of subset",
    "subset of lists",
    "concat",
    "dict",
    "stack",
    "mixing",
]


def make_case(seed: int) -> Case:
    choose = random.Random(seed)
    case = Case(seed, kind=choose.choice([*MAP_KINDS, "items", "items", "items with length"]))
    case.length = choose.choice([0, 1, 5, 12, 30])
    case.habits = Habits(*(choose.choice([0.0, 0.0, 0.3, 1.0]) for _ in range(4)), choose.choice([0.0, 0.0, 0.2]))
    case.keepers = [choose.choice(list(KEEPERS)) for _ in range(choose.choice([0, 0, 1, 2, 4]))]
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
        case.arguments["collate_fn"] = choose.choice(
            [None, None, collate_with_noise, collate_that_fails_now_and_then, CollateWithKeepers]
        )
    case.own_generator = choose.choice([None, None, "own", "default"])
    case.sampling = choose.choice(["shuffle", "sequential", "replacement", "given", "given"])
    if case.is_iterable:
        case.sampling = "sequential"
    if case.sampling == "given":
        _give_keys(case, choose)
    case.choose_steps(choose)
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
    # Not before iter() ends: torch then leaves its workers to the collector, which waits 5 s for each.
    ahead = case.arguments["num_workers"] * case.arguments.get("prefetch_factor", 1)
    if choose.random() < 0.3 and ahead < len(case.given):
        case.given[choose.randrange(ahead, len(case.given))] = KeyError("sampler")


def dataset_of(case: Case, keepers: Sequence[Callable[[int], float]]) -> Any:
    choose = random.Random(case.seed + 1)
    new = {"lists": SampleLists, "subset of lists": SampleLists, "items": Items, "items with length": ItemsWithLength}
    dataset: Any = new.get(case.kind, Samples)(case.length, case.habits, case.seed, keepers)
    if case.kind == "concat":
        return ConcatDataset([dataset, Samples(5, case.habits, case.seed, keepers)])
    if case.kind == "mixing":
        return Mixing(dataset)
    if case.kind == "dict":
        return {index: {"all": [index, index / 2]} for index in range(-case.length, case.length)}
    if case.kind == "stack":
        return StackDataset(dataset, Samples(case.length, Habits(draws=0.2), case.seed + 2))
    if case.kind.startswith("subset"):
        dataset = Subset(dataset, [choose.randrange(max(1, case.length)) for _ in range(case.length)])
    if case.kind == "subset of subset":
        dataset = Subset(dataset, [*range(0, case.length, 2), *range(case.length)])
    return dataset


def run_case(kind: Any, case: Case) -> list[Any]:
    """Returns everything that can be seen from outside, step by step."""
    keepers = [KEEPERS[name](case.seed + number) for number, name in enumerate(case.keepers)]
    arguments = dict(case.arguments)
    if arguments.get("collate_fn") is CollateWithKeepers:
        arguments["collate_fn"] = CollateWithKeepers(keepers)
    made = replace(case, arguments=arguments).make_loader(kind, dataset_of(case, keepers), is_empty=not case.length)
    return case.seen(*made, words)


def assert_case(seed: int) -> None:
    """Asserts that two runs of fastload's loader equal one of torch's, step by step."""
    case = make_case(seed)
    # How long torch waits for a worker to end; one that has failed often does not, and is then killed.
    with mock.patch.object(torch.utils.data._utils, "MP_STATUS_CHECK_INTERVAL", 0.2):
        theirs = run_case(torch.utils.data.DataLoader, case)
        gc.collect()  # torch's iterator that has raised is in a cycle, which keeps its workers alive
        for attempt in ("first", "second"):
            different = first_difference(theirs, run_case(fastload.DataLoader, case))
            if different is not None:
                again = first_difference(theirs, run_case(torch.utils.data.DataLoader, case))
                note = "" if again is None else f"; torch's own runs differ, too: {again}"
                raise AssertionError(f"{attempt} run, {different}{note}\n{case}")


NUM_CASES = 64


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(NUM_CASES))
def test_data_sets_made_at_random_equal_torchs_at_every_step(seed: int) -> None:
    assert_case(seed)


def test_the_cases_have_every_kind_and_habit() -> None:
    cases = [make_case(seed) for seed in range(NUM_CASES)]
    assert len({case.kind for case in cases}) == 11
    assert {case.arguments["num_workers"] for case in cases} == {0, 1, 2, 3}
    for name in ("draws", "draws_random", "draws_numpy", "asks", "seeds", "fails", "fails_late"):
        assert sum(getattr(case.habits, name) > 0 for case in cases) >= 10, name
    assert {case.sampling for case in cases} == {"shuffle", "sequential", "replacement", "given"}
    assert {name for case in cases for name in case.keepers} == set(KEEPERS)
