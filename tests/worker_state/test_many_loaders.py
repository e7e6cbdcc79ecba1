"""Many loaders beside the user's threads and forks: each draws its own numbers, and nothing is left over."""

from __future__ import annotations

import functools
import gc
import random
import threading
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.utils.data
from both_loaders import Threads
from child_loader import python_part_threads, wait_for
from children import RunChild
from flat_values import flat
from forked import in_fork
from loader_stress import module_attributes
from numbered import NUM_SAMPLES, Numbered
from program import Transformed, batches, seed_all, states
from python_part_loader import torch_loader
from torch.utils.data import IterableDataset, get_worker_info

import fastload

pytestmark = pytest.mark.filterwarnings("ignore")


def draw(_index: int = 0) -> tuple[float, float, float, float]:
    """Draws a number from each of the three generators, and one that leaves a second value in it."""
    return random.random(), np.random.rand(), torch.rand(1).item(), random.gauss(0, 1) + np.random.randn()


class NestedLoaders(Numbered):
    """Every fourth sample is the sum of another loader's batches."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Transformed(draw)

    def sample(self, index: int) -> Any:
        if index % 4:
            return draw(index)[0], index
        found = [batch[1][0].sum() for batch in self.kind(self.inner, batch_size=5, shuffle=True)]
        return float(sum(found)), index

    kind: Any = None


def equal_on_both(action: Callable[[Any], Any]) -> None:
    """Asserts that `action` does with fastload's processes and threads what it does with torch's forked workers."""

    def seen(kind: Any) -> Any:
        seed_all(3)
        return action(kind), states()

    theirs = seen(torch_loader)
    for workers in ("processes", "threads"):
        assert seen(functools.partial(fastload.DataLoader, workers=workers)) == theirs, workers


@pytest.mark.parametrize("num_workers", [0, 1, 2])
def test_two_loaders_that_are_iterated_over_in_turn_see_their_own_numbers(num_workers: int) -> None:
    def action(kind: Any) -> Any:
        loaders = [kind(Transformed(draw), batch_size=4, num_workers=num_workers, shuffle=True) for _ in range(2)]
        found = []
        for first, second in zip(*loaders, strict=True):
            found.append((flat(first), draw(), flat(second)))
        return found

    equal_on_both(action)


def test_iterators_of_one_loader_see_their_own_numbers() -> None:
    def action(kind: Any) -> Any:
        loader = kind(Transformed(draw), batch_size=4, num_workers=2)
        first, second = iter(loader), iter(loader)
        found = [flat(next(first)), flat(next(second)), flat(next(second)), flat(next(first))]
        return found, batches(first), batches(second), batches(loader)

    equal_on_both(action)


def test_a_loader_in_a_loader_draws_from_its_worker() -> None:
    def action(kind: Any) -> Any:
        dataset = NestedLoaders()
        dataset.kind = kind
        loader = kind(dataset, batch_size=4, num_workers=2)
        return batches(loader), batches(loader)

    equal_on_both(action)


@pytest.mark.parametrize("num_workers", [1, 2])
def test_a_loader_of_threads_in_a_sample_does_not_change_what_the_others_draw(num_workers: int) -> None:
    """torch's processes refuse it, so the reference is the same program without the inner loader."""

    class WithInner(Transformed):
        def sample(self, index: int) -> Any:
            if index % 3 == 0:
                kept = torch.get_rng_state()
                list(Threads(Transformed(draw), num_workers=num_workers))
                torch.set_rng_state(kept)
            return super().sample(index)

    def run(kind: Any) -> Any:
        seed_all(4)
        return batches(Threads(kind(draw), batch_size=4, num_workers=2)), states()

    assert run(WithInner) == run(Transformed)


class Endless(IterableDataset[Any]):
    """Draws arrays and single numbers for as long as it is asked."""

    def __iter__(self) -> Iterator[Any]:
        while True:
            for _ in range(20):
                np.random.rand(200)
                random.gauss(0, 1)
                torch.rand(50)
            yield 0


def numbers_of_a_child() -> tuple[float, ...]:
    random.seed(8)  # `random` itself seeds every forked child with what the system gives
    return *draw(), float(np.random.rand(300).sum())


@pytest.mark.parametrize("num_children", [25, pytest.param(100, marks=pytest.mark.slow)])
def test_children_forked_while_workers_draw_draw_the_programs_numbers(num_children: int) -> None:
    seed_all(8)
    kept = states()
    iterator = iter(Threads(Endless(), num_workers=3, generator=torch.Generator()))
    found = set()
    for _ in range(num_children):
        next(iterator)
        found.add(in_fork(numbers_of_a_child))
    del iterator
    assert states() == kept, "the program's own generators were not asked"
    seed_all(8)
    assert found == {numbers_of_a_child()}


# ---- leftovers ----------------------------------------------------------------------------------------------------


def in_child(module: str, call: str) -> str:
    """Returns code for a child process, in which no loader of another test lives."""
    return f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import {module}; {module}.{call}"


def changed_names() -> list[str]:
    now = module_attributes()
    names = sorted(ORIGINAL.keys() | now.keys())
    return [name for name in names if "__warningregistry__" not in name and ORIGINAL.get(name) is not now.get(name)]


ORIGINAL = module_attributes()


def assert_as_they_were() -> None:
    """Waits until the last worker thread has ended, and asserts that nothing is exchanged any more."""
    assert wait_for(lambda: gc.collect() >= 0 and not changed_names(), 60), (changed_names(), python_part_threads())


def fail_in_workers() -> None:
    def fail(index: int) -> Any:
        if index == 5:
            raise ValueError("sample 5")
        return draw()

    def fail_to_begin(_worker_id: int) -> None:
        raise ValueError("init")

    for arguments in ({}, {"worker_init_fn": fail_to_begin}, {"persistent_workers": True}):
        with pytest.raises(ValueError, match=r"sample 5|init"):
            list(Threads(Transformed(fail), num_workers=2, **arguments))
    assert_as_they_were()


def test_errors_of_workers_leave_the_modules_as_they_were(run_child: RunChild) -> None:
    run_child(in_child("test_many_loaders", "fail_in_workers()"), timeout=120, warm=True)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 4))])
def test_loaders_at_random_in_several_threads_leave_the_program_as_none_would(run_child: RunChild, seed: int) -> None:
    """`make campaign` does the same for longer."""
    run_child(in_child("loader_stress", f"assert_case({seed})"), timeout=300, warm=True)


# ---- torch's coming thread workers ----------------------------------------------------------------------------------


class FakeThreadWorkers:
    """The interface of torch's thread workers: a thread-local info that get_worker_info() asks first."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        worker = torch.utils.data._utils.worker
        local = threading.local()
        process_info = worker.get_worker_info

        def get_thread_info() -> Any:
            return getattr(local, "worker_info", None) or process_info()

        monkeypatch.setattr(worker, "_thread_local_worker_info", local, raising=False)
        for module in (worker, torch.utils.data, torch.utils.data._utils):
            if hasattr(module, "get_worker_info"):
                monkeypatch.setattr(module, "get_worker_info", get_thread_info)
        self.local, self.get_worker_info = local, get_thread_info

    def run(self, action: Callable[[], Any], worker_id: int) -> Any:
        """Returns what `action` gives in one of torch's worker threads."""
        found: list[Any] = []

        def work() -> None:
            self.local.worker_info = types.SimpleNamespace(id=worker_id, worker_method="thread", rng=None)
            found.append(action())

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        return found[0]


def test_torchs_thread_workers_and_fastloads_answer_for_their_own_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    def epoch() -> Any:
        seed_all(2)

        def transform(_index: int) -> Any:
            by_module, by_name = torch.utils.data.get_worker_info(), get_worker_info()
            return by_module.id, by_name.id, by_name.num_workers, *draw()

        return batches(Threads(Transformed(transform), batch_size=4, num_workers=2))

    expected = epoch()
    fake = FakeThreadWorkers(monkeypatch)
    assert epoch() == expected
    assert torch.utils.data.get_worker_info is fake.get_worker_info
    assert torch.utils.data.get_worker_info() is None
    assert fake.run(lambda: torch.utils.data.get_worker_info().id, 7) == 7
    iterator = iter(Threads(Transformed(draw), batch_size=4, num_workers=2))
    next(iterator)
    assert fake.run(lambda: torch.utils.data.get_worker_info().id, 7) == 7, "while workers of fastload live"
    seed_all(9)
    assert fake.run(lambda: draw(), 7) == (seed_all(9), draw())[1], "which has no generators of its own here"
    del iterator


def test_a_thread_safe_generator_of_torch_keeps_its_name_and_its_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A function that is not torch 2.13's is left alone, and nothing draws from its generator."""
    own = torch.Generator().manual_seed(5)
    monkeypatch.setattr(torch, "thread_safe_generator", lambda: own, raising=False)
    kept = torch.thread_safe_generator
    seed_all(2)
    found = batches(Threads(Transformed(lambda _: draw()), batch_size=4, num_workers=2))
    seed_all(2)
    assert found == batches(torch_loader(Transformed(lambda _: draw()), batch_size=4, num_workers=2))
    assert torch.thread_safe_generator is kept
    assert own.initial_seed() == 5
    assert torch.equal(own.get_state(), torch.Generator().manual_seed(5).get_state()), "nobody drew from it"


def test_the_programs_states_are_where_torch_leaves_them_after_many_kinds_of_loops() -> None:
    def action(kind: Any) -> Any:
        found: list[Any] = []
        loader = kind(Transformed(draw), batch_size=4, num_workers=2, shuffle=True)
        for number, batch in enumerate(loader):
            found.append((flat(batch), draw()))
            if number == 2:
                break
        found.append((batches(loader), draw()))
        persistent = kind(Transformed(draw), batch_size=4, num_workers=2, persistent_workers=True)
        found += [(batches(persistent), draw()) for _ in range(2)]
        return found

    equal_on_both(action)
    assert NUM_SAMPLES % 4, "so that the last batch is short"
