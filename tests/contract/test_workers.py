"""The environment of the user's code in a worker's thread: worker info, initialisation, and random generators."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import copy
import decimal
import functools
import gc
import inspect
import itertools
import os
import pickle
import random
import sqlite3
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import recipes
import torch
import torch.utils.data
from both_loaders import TORCH_AND_THREADS, Threads, assert_same, negated, on_both, steps_of
from child_loader import wait_for
from forked import in_fork
from torch import initial_seed, manual_seed
from torch.utils.data import IterableDataset, get_worker_info
from torchvision import transforms
from torchvision.datasets import ImageFolder
from user_datasets import Drawing, Nested, Numbered, flat

import fastload
from fastload._process import _limits


class Environment(Numbered):
    """Reports the settings that torch makes in a worker."""

    def sample(self, index: int) -> Any:
        info = torch.utils.data.get_worker_info()
        assert info is not None
        return info.id, info.num_workers, info.seed, torch.initial_seed(), torch.get_num_threads()


@pytest.mark.parametrize("num_workers", [1, 3])
def test_ids_seeds_and_thread_counts_are_those_of_torchs_workers(num_workers: int) -> None:
    def run(kind: Any) -> Any:
        torch.manual_seed(11)
        dataset = Environment()
        loader = kind(dataset, batch_size=4, num_workers=num_workers, collate_fn=list)
        return list(loader)

    before = torch.get_num_threads()
    assert_same(run)
    assert torch.get_num_threads() == before
    assert torch.utils.data.get_worker_info() is None


def test_worker_info_has_the_workers_dataset_and_says_that_it_is_of_a_thread() -> None:
    class Asking(Numbered):
        def sample(self, index: int) -> Any:
            return self, torch.utils.data.get_worker_info()

    dataset = Asking(4)
    samples = list(Threads(dataset, batch_size=None, collate_fn=as_it_is, num_workers=1))
    found = [info for _, info in samples]
    assert all(info.dataset is asked is dataset for asked, info in samples)
    if hasattr(found[0], "worker_method"):
        assert found[0].worker_method == "thread"
        assert torch.thread_safe_generator() is None


def as_it_is(sample: Any) -> Any:
    return sample


class ByName(IterableDataset[Any]):
    """Uses torch's functions by names that its module imported, as most data sets do."""

    def __iter__(self) -> Iterator[Any]:
        info = get_worker_info()
        for number in range(0 if info is None else info.id, 9, 1 if info is None else info.num_workers):
            seed = initial_seed() if info is None else initial_seed() - info.seed
            yield number, seed, manual_seed(number).initial_seed(), torch.rand(1)


@pytest.mark.parametrize("num_workers", [0, 1, 2])
def test_functions_of_torch_that_were_imported_by_name_know_the_worker_too(num_workers: int) -> None:
    def run(kind: Any) -> Any:
        manual_seed(7)
        return [flat(batch) for batch in kind(ByName(), batch_size=2, num_workers=num_workers)], initial_seed()

    assert_same(run, TORCH_AND_THREADS)
    numbers = [item[0] for item in fastload.DataLoader(ByName(), None, num_workers=num_workers)]
    assert sorted(numbers) == list(range(9)), "each once"


def test_torchs_functions_are_the_same_objects_with_the_same_signatures_after_threads_have_run() -> None:
    before = [get_worker_info, manual_seed, initial_seed]
    list(Threads(Drawing(), num_workers=1))
    assert [torch.utils.data.get_worker_info, torch.manual_seed, torch.initial_seed] == before
    assert list(inspect.signature(torch.manual_seed).parameters) == ["seed"]
    assert pickle.loads(pickle.dumps(get_worker_info)) is get_worker_info
    with pytest.raises(TypeError, match="seed"):
        torch.manual_seed()  # type: ignore[call-arg]


@pytest.mark.skipif(not hasattr(torch, "thread_safe_generator"), reason="this torch has no thread_safe_generator")
@pytest.mark.parametrize("num_workers", [1, 2])
def test_torchs_generator_for_threads_is_the_workers(num_workers: int) -> None:
    class Explicit(Numbered):
        def sample(self, index: int) -> Any:
            return torch.rand(2, generator=torch.thread_safe_generator()), torch.rand(1)

    def run(kind: Any) -> Any:
        torch.manual_seed(0)
        return [flat(batch) for batch in kind(Explicit(), batch_size=3, num_workers=num_workers)]

    assert_same(run)


# ---- what the thread that iterates has ---------------------------------------------------------------------------

LANGUAGE = contextvars.ContextVar("LANGUAGE", default="none")
STATES: dict[str, Callable[[], contextlib.AbstractContextManager[Any]]] = {
    "nothing": contextlib.nullcontext,
    "no_grad": torch.no_grad,
    "inference_mode": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "autocast to float16": lambda: torch.autocast("cpu", dtype=torch.float16, cache_enabled=False),
    "errstate": lambda: np.errstate(divide="raise", under="call"),
    "decimal": lambda: decimal.localcontext(decimal.Context(prec=50, rounding=decimal.ROUND_UP)),
    "a context variable": lambda: setting(LANGUAGE, "nl"),
}


@contextlib.contextmanager
def setting(variable: contextvars.ContextVar[str], value: str) -> Iterator[None]:
    token = variable.set(value)
    yield
    variable.reset(token)


def state_of_thread() -> Any:
    modes = torch.is_grad_enabled(), torch.is_inference_mode_enabled()
    devices = ("cpu", "cuda")
    autocast = [(torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)) for device in devices]
    return modes, autocast, torch.is_autocast_cache_enabled(), np.geterr(), str(decimal.getcontext()), LANGUAGE.get()


class Stateful(Numbered):
    def sample(self, index: int) -> Any:
        return state_of_thread()


@pytest.mark.parametrize("name", STATES)
def test_workers_have_the_modes_and_the_context_of_the_thread_that_iterates(name: str) -> None:
    def run(kind: Any) -> Any:
        loader = kind(Stateful(4), 2, num_workers=2, collate_fn=lambda batch: (batch, state_of_thread()))
        with STATES[name]():
            return list(loader), state_of_thread()

    mine = assert_same(run)
    assert [found for batch, found in mine[0]] == [mine[1]] * 2


@pytest.mark.parametrize("is_native", [False, True])
@pytest.mark.parametrize("name", STATES)
def test_init_functions_have_them_too(name: str, is_native: bool, folder: Path) -> None:
    found: list[Any] = []
    dataset: Any = ImageFolder(str(folder), recipes.evaluation(40, 32)) if is_native else Numbered()
    init = lambda _: found.append(state_of_thread())  # noqa: E731
    loader = Threads(dataset, num_workers=2, worker_init_fn=init)
    assert loader.explain().startswith("native:") is is_native
    with STATES[name]():
        expected = state_of_thread()
        list(itertools.islice(loader, 2))  # one from each worker, which calls the function first
    assert found == [expected] * 2


def test_what_a_worker_changes_of_them_is_its_own_and_stays() -> None:
    class Changing(Numbered):
        def sample(self, index: int) -> Any:
            found = decimal.getcontext().prec, LANGUAGE.get(), torch.is_grad_enabled(), np.geterr()["over"]
            decimal.getcontext().prec += 1
            LANGUAGE.set(LANGUAGE.get() + "+")
            torch.set_grad_enabled(False)
            np.seterr(over="ignore")
            return found

    def run(kind: Any) -> Any:
        return list(kind(Changing(8), 2, num_workers=2, collate_fn=list)), state_of_thread()

    before = state_of_thread()
    mine = assert_same(run)
    assert mine[1] == before
    assert mine[0][3][1][:2] == (decimal.getcontext().prec + 3, "none+++")


def test_batches_of_workers_begun_in_inference_mode_may_be_trained_with_outside_of_it() -> None:
    def run(kind: Any) -> Any:
        loader = kind(Nested(4), 2, num_workers=1, persistent_workers=True)
        with torch.inference_mode():
            inside = [(batch["tensor"].is_inference(), flat(batch)) for batch in loader]
        outside = list(loader)
        for batch in outside:
            batch["tensor"].add_(1)
        weights = torch.ones(3, requires_grad=True)
        sum((weights * batch["tensor"]).sum() for batch in outside).backward()
        return inside, [flat(batch) for batch in outside], flat(weights.grad)

    mine = assert_same(run)
    assert all(is_inference for is_inference, _ in mine[0])


# ---- worker_init_fn ------------------------------------------------------------------------------------------------


def test_an_init_function_is_called_once_in_each_thread_with_its_info() -> None:
    called: list[tuple[int, int, int]] = []

    def init(worker_id: int) -> None:
        info = torch.utils.data.get_worker_info()
        assert info is not None
        called.append((worker_id, info.id, threading.get_ident()))

    arguments = {"num_workers": 3, "persistent_workers": True}
    loader = Threads(Numbered(), worker_init_fn=init, **arguments)
    for _ in range(2):
        list(loader)
    assert sorted(number for number, _, _ in called) == [0, 1, 2]
    assert all(number == info_id for number, info_id, _ in called)
    assert len({ident for _, _, ident in called}) == 3
    assert threading.get_ident() not in {ident for _, _, ident in called}


def test_an_error_of_an_init_function_comes_with_each_workers_first_batch(dataset: Any) -> None:
    def init(worker_id: int) -> None:
        raise ZeroDivisionError(f"worker {worker_id}")

    arguments = {"num_workers": 2, "worker_init_fn": init}
    assert assert_same(lambda kind: steps_of(kind(dataset, **arguments), limit=2)) == [ZeroDivisionError] * 2
    iterator = iter(Threads(dataset, **arguments))
    with pytest.raises(ZeroDivisionError, match=r"(?s)^Caught ZeroDivisionError in .* thread 0\..*worker 0"):
        next(iterator)


def seed_everything(worker_id: int) -> None:
    """Seeds like PyTorch's notes on reproducibility."""
    seed = torch.initial_seed() % 2**32
    np.random.seed(seed)
    random.seed(seed)


class FromThreeGenerators(Numbered):
    def sample(self, index: int) -> Any:
        return index, random.random(), np.random.rand(), torch.rand(1)


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize(
    "init",
    [
        seed_everything,
        lambda _: random.seed(3),
        lambda _: np.random.seed(3),
        lambda _: torch.default_generator.manual_seed(3),
        lambda _: (random.gauss(0, 1), np.random.randn(), torch.rand(3)),
    ],
)
def test_an_init_function_seeds_its_workers_three_generators_and_not_the_programs(
    init: Callable[[int], Any], persistent: bool
) -> None:
    def run(kind: Any) -> Any:
        random.seed(1)
        np.random.seed(1)
        torch.manual_seed(1)
        loader = kind(FromThreeGenerators(9), 2, num_workers=2, worker_init_fn=init, persistent_workers=persistent)
        return [flat(batch) for _ in range(2) for batch in loader], random.random(), np.random.rand(), torch.rand(1)

    assert_same(run)


@pytest.mark.parametrize("num_workers", [1, 2])
@pytest.mark.parametrize("persistent", [False, True])
def test_native_batches_draw_from_what_an_init_function_has_seeded(
    folder: Path, num_workers: int, persistent: bool
) -> None:
    def init(worker_id: int) -> None:
        info = torch.utils.data.get_worker_info()
        assert info is not None
        assert info.id == worker_id
        torch.manual_seed(7 + worker_id)
        torch.rand(3)

    dataset = ImageFolder(str(folder), recipes.training(32))

    def run(kind: Any) -> Any:
        torch.manual_seed(0)
        arguments = {"num_workers": num_workers, "worker_init_fn": init, "persistent_workers": persistent}
        loader = kind(dataset, batch_size=3, shuffle=True, **arguments)
        return [[flat(batch) for batch in loader] for _ in range(2)], torch.rand(1).item()

    assert_same(run)
    assert fastload.DataLoader(dataset, num_workers=1, worker_init_fn=init).explain().startswith("native:")


def dataset_of_worker() -> Any:
    info = torch.utils.data.get_worker_info()
    assert info is not None
    return info.dataset


def change_by_its_name(dataset: Any) -> Callable[[int], Any]:
    return lambda worker_id: setattr(dataset_of_worker(), "transform", recipes.evaluation(48, 24 + worker_id))


def change_from_a_closure(dataset: Any) -> Callable[[int], Any]:
    return lambda worker_id: dataset.samples.reverse()


def change_deep_inside(dataset: Any) -> Callable[[int], Any]:
    def change(steps: list[Any], worker_id: int) -> None:
        steps[0].size = 50 + worker_id

    return functools.partial(change, dataset.transform.transforms)


def change_of_a_method(dataset: Any) -> Callable[[int], Any]:
    class Chooser:
        def choose(self, worker_id: int) -> None:
            dataset = dataset_of_worker()
            dataset.samples = dataset.samples[worker_id:] + dataset.samples[:worker_id]

        def __call__(self, worker_id: int) -> None:
            self.choose(worker_id)

    return Chooser()


@pytest.mark.parametrize("change", [change_by_its_name, change_from_a_closure, change_deep_inside, change_of_a_method])
@pytest.mark.parametrize("end", [[], [negated]], ids=["native", "partly native"])
def test_what_an_init_function_changes_of_native_samples_is_its_workers_own(
    folder: Path, change: Callable[[Any], Callable[[int], Any]], end: list[Any]
) -> None:
    def run(kind: Any) -> Any:
        transform = transforms.Compose([*recipes.evaluation(40, 32).transforms, *end])
        dataset = ImageFolder(str(folder), transform)
        loader = kind(dataset, 3, num_workers=2, worker_init_fn=change(dataset))
        return [flat(batch) for batch in loader], flat(dataset.samples), loader

    theirs, mine = on_both(run)
    assert mine[:2] == theirs[:2]
    assert "worker_init_fn: it may change the dataset of its worker" in mine[2].explain()


class Awaiting(Numbered):
    loops: ClassVar[set[asyncio.AbstractEventLoop]] = set()

    async def answer(self, index: int) -> int:
        await asyncio.sleep(0)
        return index + 100

    def sample(self, index: int) -> int:
        loop = asyncio.get_event_loop()
        self.loops.add(loop)
        return loop.run_until_complete(self.answer(index))


def test_a_worker_has_an_event_loop_that_ends_with_it() -> None:
    iterator = iter(Threads(Awaiting(6), batch_size=2, num_workers=2))
    assert [batch.tolist() for batch in iterator] == [[100, 101], [102, 103], [104, 105]]
    for worker in iterator._workers:
        worker.join(60)
    assert [loop.is_closed() for loop in Awaiting.loops] == [True, True]


def test_an_iterator_is_there_before_worker_init_fn_is_done() -> None:
    is_made = threading.Event()
    waited: list[bool] = []

    def wait(_worker_id: int) -> None:
        waited.append(is_made.wait(10))

    iterator = iter(Threads(Numbered(), num_workers=2, worker_init_fn=wait))
    is_made.set()
    assert list(iterator)
    assert waited == [True, True]


def test_a_worker_that_gets_no_event_loop_says_so_and_nothing_waits_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> Any:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(asyncio, "new_event_loop", refuse)
    iterator = iter(Threads(Numbered(), num_workers=2))
    with pytest.raises(OSError, match="Too many open files"):
        next(iterator)


@pytest.mark.parametrize("num_workers", [1, 3])
def test_an_iterator_has_its_workers_where_programs_look_for_them(num_workers: int) -> None:
    iterator = iter(fastload.DataLoader(Numbered(), num_workers=num_workers))
    workers = iterator._workers
    assert [(worker.is_alive(), worker.exitcode) for worker in workers] == [(True, None)] * num_workers
    list(iterator)
    for worker in workers:
        worker.join(60)
    assert [(worker.is_alive(), worker.exitcode) for worker in workers] == [(False, 0)] * num_workers


def test_a_worker_that_is_terminated_ends_the_iteration_with_words() -> None:
    iterator = iter(Threads(Numbered(), num_workers=2))
    next(iterator)
    iterator._workers[0].terminate()
    with pytest.raises(fastload.LoaderClosedError, match="the loader was closed"):
        list(iterator)


# ---- handles -------------------------------------------------------------------------------------------------------


class Database(Numbered):
    """Rows of an sqlite file; a connection of sqlite3 refuses to be used in another thread."""

    def __init__(self, path: Path) -> None:
        super().__init__(40)
        self.opened: list[int] = []
        self.connection = fastload.per_thread(lambda: self.open(path))

    def open(self, path: Path) -> sqlite3.Connection:
        self.opened.append(threading.get_ident())
        return sqlite3.connect(path)

    def sample(self, index: int) -> int:
        return int(self.connection().execute("SELECT value FROM rows WHERE id = ?", (index,)).fetchone()[0])


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    path = tmp_path / "rows.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE rows (id INTEGER PRIMARY KEY, value INTEGER)")
        connection.executemany("INSERT INTO rows VALUES (?, ?)", [(index, index**2) for index in range(40)])
    return path


@pytest.mark.parametrize("num_workers", [0, 1, 3])
def test_per_thread_gives_each_thread_one_handle(rows: Path, num_workers: int) -> None:
    dataset = Database(rows)
    loader = Threads(dataset, batch_size=4, num_workers=num_workers, persistent_workers=num_workers > 0)
    for _ in range(2):
        assert torch.cat(list(loader)).tolist() == [index**2 for index in range(40)]
    assert len(dataset.opened) == len(set(dataset.opened)) <= max(1, num_workers)


def test_a_handle_is_let_go_of_when_its_thread_ends() -> None:
    class Handle:
        alive = 0

        def __init__(self) -> None:
            Handle.alive += 1

        def __del__(self) -> None:
            Handle.alive -= 1

    handles = fastload.per_thread(Handle)

    class Using(Numbered):
        def sample(self, index: int) -> int:
            assert handles() is handles()
            return index

    loader = Threads(Using(), num_workers=3)
    list(loader)
    loader.close()
    assert wait_for(lambda: Handle.alive == 0, 2)


def test_per_thread_copies_and_pickles_as_its_factory() -> None:
    handles = fastload.per_thread(list)
    mine = handles()
    for twin in (copy.copy(handles), copy.deepcopy(handles), pickle.loads(pickle.dumps(handles))):
        assert twin() is twin()
        assert twin() is not mine
    assert "list" in repr(handles)


def test_per_thread_tries_again_after_an_error() -> None:
    answers = iter([OSError("busy"), "opened"])

    def factory() -> str:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    handles = fastload.per_thread(factory)
    with pytest.raises(OSError, match="busy"):
        handles()
    assert handles() == "opened"


def test_per_thread_says_what_it_needs() -> None:
    with pytest.raises(TypeError, match="per_thread needs a function that opens the handle, got 3; for example"):
        fastload.per_thread(3)  # type: ignore[arg-type]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_forked_child_opens_its_own_handle_and_leaves_those_of_its_parents_threads_alone() -> None:
    closed: list[int] = []

    class Handle:
        def __del__(self) -> None:
            closed.append(os.getpid())

    handles = fastload.per_thread(Handle)
    are_open, may_end = threading.Barrier(4), threading.Event()

    def use() -> None:
        handles()
        are_open.wait()
        may_end.wait()

    threads = [threading.Thread(target=use, daemon=True) for _ in range(3)]
    for thread in threads:
        thread.start()
    are_open.wait()
    mine = handles()

    def closed_in_child() -> int:
        handles()
        gc.collect()
        return len(closed)

    assert in_fork(lambda: (handles() is mine, in_fork(closed_in_child), closed_in_child())) == (False, 0, 0)
    assert not closed
    assert handles() is mine
    may_end.set()
    for thread in threads:
        thread.join()
    assert closed == [os.getpid()] * 3


# ---- the GIL -------------------------------------------------------------------------------------------------------


class Computing(Numbered):
    def sample(self, index: int) -> int:
        return sum(range(300_000))


class Compressing(Numbered):
    data = os.urandom(1 << 20)

    def sample(self, index: int) -> int:
        return len(zlib.compress(self.data, 1))


def test_a_dataset_that_holds_the_gil_is_noticed_and_explained() -> None:
    loader = Threads(Computing(600), batch_size=8, num_workers=3)
    list(loader)
    stats = loader.stats()
    assert stats.gil_checks >= 10
    assert stats.gil_held_share > 0.7
    assert stats.mean_gil_wait_seconds > 0.001  # a Python loop releases it after 5 ms
    row = loader.explain().splitlines()[-1]
    assert row.strip().startswith("GIL        held ")
    assert f"held {stats.gil_held_share:.0%} of the time" in row
    assert "workers='processes' is faster" in row
    loader.workers = "processes"
    assert "GIL" not in loader.explain()


@pytest.mark.parametrize("make", [lambda: Compressing(200), lambda: Sleeping(300)], ids=["compressing", "sleeping"])
def test_a_dataset_that_lets_go_of_the_gil_is_not_blamed(make: Callable[[], Any]) -> None:
    loader = Threads(make(), batch_size=8, num_workers=3)
    list(loader)
    assert loader.stats().gil_checks >= 10
    assert loader.stats().gil_held_share < 0.5
    assert "GIL" not in loader.explain()


class Sleeping(Numbered):
    def sample(self, index: int) -> int:
        time.sleep(0.02)
        return index


# ---- num_workers="auto" --------------------------------------------------------------------------------------------


def control_groups(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


V2 = "sys/fs/cgroup"
V1 = "sys/fs/cgroup/cpu"
GROUPS: dict[str, tuple[dict[str, str], int]] = {
    "no groups": ({}, 8),
    "no limit": ({"proc/self/cgroup": "0::/\n", f"{V2}/cpu.max": "max 100000\n"}, 8),
    "version 2": ({"proc/self/cgroup": "0::/job\n", f"{V2}/job/cpu.max": "300000 100000\n"}, 3),
    "version 2, the group above is narrower": (
        {
            "proc/self/cgroup": "0::/jobs/mine\n",
            f"{V2}/jobs/mine/cpu.max": "600000 100000\n",
            f"{V2}/jobs/cpu.max": "250000 100000\n",
        },
        2,
    ),
    "version 2 in a container, whose mount is the group": (
        {"proc/self/cgroup": "0::/../outside\n", f"{V2}/cpu.max": "400000 100000\n"},
        4,
    ),
    "version 1": (
        {
            "proc/self/cgroup": "3:cpuset:/\n2:cpu,cpuacct:/job\n0::/\n",
            f"{V1}/job/cpu.cfs_quota_us": "500000\n",
            f"{V1}/job/cpu.cfs_period_us": "100000\n",
        },
        5,
    ),
    "version 1 without a limit": (
        {"proc/self/cgroup": "2:cpu:/\n", f"{V1}/cpu.cfs_quota_us": "-1\n", f"{V1}/cpu.cfs_period_us": "100000\n"},
        8,
    ),
    "less than one processor": ({"proc/self/cgroup": "0::/\n", f"{V2}/cpu.max": "50000 100000\n"}, 1),
    "nonsense": ({"proc/self/cgroup": "0::/\n", f"{V2}/cpu.max": "a b\n"}, 8),
}


@pytest.mark.parametrize("name", GROUPS)
def test_auto_counts_what_control_groups_leave(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files, expected = GROUPS[name]
    monkeypatch.setattr(_limits, "num_available", lambda: 8)
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    assert _limits.num_auto_workers(control_groups(tmp_path, files)) == expected


@pytest.mark.parametrize(("ranks", "expected"), [("1", 8), ("2", 4), ("3", 2), ("8", 1), ("99", 1), ("", 8), ("x", 8)])
def test_auto_shares_among_the_ranks_of_this_machine(
    ranks: str, expected: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_limits, "num_available", lambda: 8)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", ranks)
    assert _limits.num_auto_workers(tmp_path) == expected


def test_auto_is_a_number_from_construction_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    loader = fastload.DataLoader(Numbered(), batch_size=4, num_workers="auto")
    assert loader.num_workers == _limits.num_auto_workers()
    assert 1 <= loader.num_workers <= len(os.sched_getaffinity(0))
    assert len(list(loader)) == 6
