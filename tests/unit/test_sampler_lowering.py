"""Index batches: torch's own samplers are the oracle, for the indices and for the generators they draw from."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from index_batches import lower
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    DistributedSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

from fastload.samplers import _own_batches


def assert_in_step(make: Callable[[torch.Generator | None], Any], *, is_own: bool) -> int:
    """Steps both side by side; asserts that both generators and the default generator agree after each batch."""

    def run(iterate: Callable[[Any], Any], generator: torch.Generator | None) -> Iterator[tuple[Any, ...]]:
        iterator = iterate(make(generator))
        while True:
            batch = next(iterator, None)
            given = None if generator is None else generator.get_state()
            yield (None if batch is None else list(batch)), given, torch.get_rng_state()
            if batch is None:
                return

    count = 0
    for use_generator in (False, True):
        outcomes = []
        for iterate in (iter, lower):
            torch.manual_seed(11)
            outcomes.append(list(run(iterate, torch.Generator().manual_seed(5) if use_generator else None)))
        theirs, mine = outcomes
        assert len(theirs) == len(mine)
        for step, (expected, got) in enumerate(zip(theirs, mine, strict=True)):
            assert got[0] == expected[0], step
            for state, expected_state in zip(got[1:], expected[1:], strict=True):
                assert (state is None) == (expected_state is None)
                assert state is None or torch.equal(state, expected_state), step
        count += len(theirs)
    if is_own:
        assert lower(make(None)).is_own
    return count


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("batch_size", [1, 3, 5, 10, 11, 64])
@pytest.mark.parametrize("length", [0, 1, 10, 63, 64])
def test_sequential_is_torchs(length: int, batch_size: int, drop_last: bool) -> None:
    assert_in_step(
        lambda _: BatchSampler(SequentialSampler(range(length)), batch_size, drop_last),
        is_own=True,
    )


class Sized:
    def __init__(self, length: int) -> None:
        self._length = length

    def __len__(self) -> int:
        return self._length


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("batch_size", [1, 7, 4095, 4096, 5000])
@pytest.mark.parametrize("length", [4095, 4096, 4097, 8192, 9999])
def test_sequential_is_torchs_across_the_pieces(length: int, batch_size: int, drop_last: bool) -> None:
    batch_sampler = BatchSampler(SequentialSampler(Sized(length)), batch_size, drop_last)
    assert [batch.tolist() for batch in lower(batch_sampler)] == list(batch_sampler)


def test_a_long_range_takes_little_memory() -> None:
    """No index is made long before its batch."""
    batches = lower(BatchSampler(SequentialSampler(Sized(2**40)), 3, False))
    for first in (0, 3, 6):
        batch = next(batches)
        assert batch.tolist() == [first, first + 1, first + 2]
        assert batch.base is not None
        assert batch.base.nbytes <= 2**16


def test_a_data_set_that_grows_in_an_epoch_does_not_lengthen_it() -> None:
    outcomes = []
    ways: list[Callable[[Any], Iterator[Any]]] = [iter, lower]
    for iterate in ways:
        data = [0] * 5000
        iterator = iterate(BatchSampler(SequentialSampler(data), 1000, False))
        batches = [list(next(iterator))]
        data.extend([0] * 5000)
        outcomes.append(batches + [list(batch) for batch in iterator])
    assert outcomes[0] == outcomes[1]
    assert len(outcomes[0]) == 5


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("batch_size", [1, 3, 5, 10, 32, 33, 100])
@pytest.mark.parametrize(("length", "num_samples"), [(1, None), (10, None), (64, None), (10, 3), (10, 25), (3, 100)])
@pytest.mark.parametrize("replacement", [False, True])
def test_random_is_torchs(
    length: int, num_samples: int | None, replacement: bool, batch_size: int, drop_last: bool
) -> None:
    steps = assert_in_step(
        lambda generator: BatchSampler(
            RandomSampler(range(length), replacement, num_samples, generator), batch_size, drop_last
        ),
        is_own=True,
    )
    assert steps >= 2


@pytest.mark.parametrize("length", [2**20, 2**31 + 5, 2**40])
def test_draws_from_a_large_range_are_torchs(length: int) -> None:
    assert_in_step(
        lambda generator: BatchSampler(RandomSampler(Sized(length), True, 333, generator), 50, False), is_own=True
    )


def test_nothing_is_drawn_before_the_first_batch() -> None:
    state = torch.get_rng_state()
    batches = lower(BatchSampler(RandomSampler(range(9)), 4, False))
    assert torch.equal(state, torch.get_rng_state())
    next(batches)
    assert not torch.equal(state, torch.get_rng_state())


def test_a_data_set_that_grows_between_epochs_is_followed() -> None:
    data = [0, 1, 2]
    batch_sampler = BatchSampler(RandomSampler(data), 2, False)
    assert sorted(np.concatenate(list(lower(batch_sampler)))) == [0, 1, 2]
    data.append(3)
    assert sorted(np.concatenate(list(lower(batch_sampler)))) == [0, 1, 2, 3]


def test_a_data_set_that_became_empty_fails_as_torchs_does() -> None:
    data = [0]
    batch_sampler = BatchSampler(RandomSampler(data), 2, False)
    data.clear()
    with pytest.raises(ZeroDivisionError):
        list(batch_sampler)
    with pytest.raises(ZeroDivisionError):
        list(lower(batch_sampler))


def test_batch_size_may_change_between_batches() -> None:
    outcomes = []
    ways: list[Callable[[Any], Iterator[Any]]] = [iter, lower]
    for iterate in ways:
        batch_sampler = BatchSampler(SequentialSampler(range(10)), 2, False)
        iterator = iterate(batch_sampler)
        batches = [list(next(iterator))]
        batch_sampler.batch_size = 5
        batches.extend(list(batch) for batch in iterator)
        outcomes.append(batches)
    assert outcomes[0] == outcomes[1] == [[0, 1], [2, 3, 4, 5, 6], [7, 8, 9]]


def calls_per_batch(batch_sampler: BatchSampler) -> float:
    """Returns the function calls per batch, over 60 batches after the first."""
    events = 0

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal events
        events += event in ("call", "c_call")

    batches = lower(batch_sampler)
    next(batches)
    sys.setprofile(count)
    try:
        for _ in itertools.islice(batches, 60):
            pass
    finally:
        sys.setprofile(None)
    return events / 60


@pytest.mark.parametrize("replacement", [False, True])
def test_python_work_per_batch_does_not_depend_on_its_size(replacement: bool) -> None:
    def calls(batch_size: int) -> float:
        sampler = RandomSampler(range(batch_size * 64), replacement)
        return calls_per_batch(BatchSampler(sampler, batch_size, True))

    assert calls(1024) <= calls(32) <= 40


def test_a_small_batch_in_order_makes_no_indices_of_its_own() -> None:
    calls = [calls_per_batch(BatchSampler(SequentialSampler(Sized(10_000)), size, False)) for size in (1, 32)]
    # A sampler that makes its indices takes 30.
    assert max(calls) < 16, calls


def test_batches_are_int64() -> None:
    for sampler in (SequentialSampler(range(9)), RandomSampler(range(9)), RandomSampler(range(9), True)):
        for batch in lower(BatchSampler(sampler, 4, False)):
            assert batch.dtype == np.int64
            assert batch.flags.c_contiguous


@pytest.mark.parametrize(
    "make",
    [
        lambda generator: BatchSampler(SubsetRandomSampler([3, 1, 8], generator), 2, False),
        lambda generator: BatchSampler(WeightedRandomSampler([1.0, 2.0, 3.0], 7, True, generator), 3, True),
        lambda generator: BatchSampler(DistributedSampler(range(11), 3, 1), 2, False),  # type: ignore[arg-type]
        lambda generator: BatchSampler([4, -1, 2], 2, False),
        lambda generator: [[1, 2], [], [3]],
        lambda generator: [(1, 2), range(3), np.array([5, 6], np.int32), torch.tensor([7])],
        lambda generator: [[np.int64(1), torch.tensor(2), True], [np.uint8(3)]],
        lambda generator: [np.array([1, 2], np.uint64)],
    ],
)
def test_other_samplers_are_iterated(make: Callable[[Any], Any]) -> None:
    assert_in_step(make, is_own=False)
    batches = lower(make(None))
    assert not batches.is_own
    assert all(batch.dtype == np.int64 for batch in batches)


def test_subclasses_are_iterated_not_imitated() -> None:
    class Reversed(SequentialSampler):
        def __iter__(self) -> Iterator[int]:
            return iter(range(len(self.data_source))[::-1])

    class Doubled(BatchSampler):
        def __iter__(self) -> Iterator[list[int]]:
            return iter([*super().__iter__(), *super().__iter__()])

    assert [list(b) for b in lower(BatchSampler(Reversed(range(3)), 2, False))] == [[2, 1], [0]]
    assert [list(b) for b in lower(Doubled(SequentialSampler(range(3)), 3, False))] == [[0, 1, 2], [0, 1, 2]]


def test_a_replaced_iter_of_torchs_class_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RandomSampler, "__iter__", lambda self: iter([2, 2]))
    assert [list(b) for b in lower(BatchSampler(RandomSampler(range(3)), 2, False))] == [[2, 2]]


def test_a_torch_that_draws_otherwise_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    try_out = _own_batches._draws_as_this_torch.__wrapped__
    assert try_out()
    with monkeypatch.context() as patch:
        patch.setattr(RandomSampler, "__iter__", lambda self: iter(range(self.num_samples)))
        assert not try_out()
    monkeypatch.setattr(_own_batches, "_draws_as_this_torch", lambda: False)
    assert not lower(BatchSampler(RandomSampler(range(3)), 2, False)).is_own


def test_a_sampler_is_started_at_once_and_draws_when_torch_lets_it() -> None:
    started = []

    class Eager(Sampler[list[int]]):
        def __iter__(self) -> Iterator[list[int]]:
            started.append(True)
            return iter([[0]])

    lower(Eager())
    assert started == [True]


@pytest.mark.parametrize(
    ("batch", "error", "text"),
    [
        ([0, "a"], TypeError, "list indices must be integers, but the sampler gave 'a' of type str"),
        ([(3, 0.5)], TypeError, r"the sampler gave \(3, 0.5\) of type tuple"),
        ([1.0], TypeError, "the sampler gave 1.0 of type float"),
        ([None], TypeError, "the sampler gave None of type NoneType"),
        (torch.tensor([0.5]), TypeError, "of type float32"),
        (np.array([[1, 2]]), TypeError, "of type ndarray"),
        ([1, 2**63], IndexError, "list index out of range: 9223372036854775808"),
        ([-(2**70)], IndexError, "list index out of range: -1180591620717411303424"),
        (5, TypeError, "not iterable"),
    ],
)
def test_keys_that_are_not_indices_are_named(batch: Any, error: type[Exception], text: str) -> None:
    batches = lower([batch, [1]])
    with pytest.raises(error, match=text):
        next(batches)
    assert next(batches).tolist() == [1]


def test_a_real_loader_is_lowered() -> None:
    data: Any = range(10)
    loader: Any = DataLoader(data, batch_size=4, shuffle=True, generator=torch.Generator().manual_seed(3))
    expected = [list(batch) for batch in loader.batch_sampler]
    loader.generator.manual_seed(3)
    assert [list(batch) for batch in lower(loader.batch_sampler)] == expected
