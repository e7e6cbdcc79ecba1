"""CachedDataset in several processes: samples are equal and the file stays whole, also after kills and forks."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import random
import signal
import sqlite3
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from child_loader import wait_for
from children import RunChild
from forked import in_fork
from made_samples import MadeSamples, check_samples, label_of, once, shuffled

import fastload
from fastload._cached import _sqlite_file

ATTEMPTS_SECONDS = 30


def is_whole(path: Path) -> bool:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def in_children(*functions: Callable[[], Any]) -> list[int]:
    """Calls each function in a child that is forked now. Returns the exit codes, negative for a signal."""
    context = multiprocessing.get_context("fork")
    children = [context.Process(target=function) for function in functions]
    for child in children:
        child.start()
    end = time.monotonic() + ATTEMPTS_SECONDS
    for child in children:
        child.join(max(0.0, end - time.monotonic()))
    codes = [child.exitcode for child in children]
    for child in children:
        child.kill()  # pytest would wait for it
    assert None not in codes, "a child waits for ever"
    return [code for code in codes if code is not None]


# ---- at once --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_two_processes_with_one_file_get_equal_samples(tmp_path: Path, seed: int) -> None:
    made = MadeSamples(tmp_path / "log", 40, seconds=0.001)

    def use(number: int) -> Callable[[], None]:
        # Both ask for the first two samples at the same time, and for the others in any order.
        order = [0, 1, *(index for index in shuffled(40, seed + number) if index > 1)]
        return lambda: check_samples(fastload.CachedDataset(made, tmp_path / "s"), order)

    assert in_children(use(0), use(100)) == [0, 0]
    before = made.made()
    assert set(before) == set(range(40))
    assert set(before.values()) <= {1, 2}
    check_samples(fastload.CachedDataset(made, tmp_path / "s"), range(40))
    assert made.made() == before
    assert is_whole(tmp_path / "s")


@pytest.mark.parametrize("is_there", [False, True])
def test_processes_that_create_one_file_at_once_all_use_it(tmp_path: Path, is_there: bool) -> None:
    made = MadeSamples(tmp_path / "log", 3)
    for number in range(5):
        path = tmp_path / f"s{number}"
        if is_there:
            path.touch()
        begin = multiprocessing.get_context("fork").Barrier(4)

        def use(path: Path = path, begin: Any = begin) -> None:
            begin.wait(ATTEMPTS_SECONDS)
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                assert fastload.CachedDataset(made, path).fill() == 3

        assert in_children(use, use, use, use) == [0, 0, 0, 0]
        before = made.made()
        check_samples(fastload.CachedDataset(made, path), range(3))
        assert made.made() == before


def test_ranks_that_fill_one_file_share_the_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = MadeSamples(tmp_path / "log", 60, seconds=0.003)
    makers = tmp_path / "makers"
    makers.mkdir()
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "3")

    def fill(rank: int) -> Callable[[], None]:
        class Here(MadeSamples):
            def __getitem__(self, index: int) -> Any:
                (makers / f"{os.getpid()} {index}").touch()
                return super().__getitem__(index)

        def run() -> None:
            os.environ["LOCAL_RANK"] = str(rank)
            dataset = Here(Path(made.log), 60, made.seconds)
            cached = fastload.CachedDataset(dataset, tmp_path / "s", key=lambda index: index)
            assert cached.fill() == 60

        return run

    assert in_children(fill(0), fill(1), fill(2)) == [0, 0, 0]
    assert set(made.made()) == set(range(60))
    # Two ranks that have made their shares may help the third one with the same samples.
    assert sum(made.made().values()) <= 90
    by_process = [sum(file.name.startswith(pid) for file in makers.iterdir()) for pid in pids_of(makers)]
    assert len(by_process) == 3
    assert min(by_process) >= 6


def pids_of(folder: Path) -> set[str]:
    return {file.name.split()[0] for file in folder.iterdir()}


@pytest.mark.parametrize(
    ("rank", "order"), [(0, [0, 3, 6, 7, 4, 1, 5, 2]), (1, [1, 4, 7, 5, 2, 6, 3, 0]), (2, [2, 5, 6, 3, 0, 7, 4, 1])]
)
@pytest.mark.parametrize("is_file", [False, True])
def test_a_rank_fills_its_share_and_then_what_others_have_not_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rank: int, order: list[int], is_file: bool
) -> None:
    monkeypatch.setenv("LOCAL_RANK", str(rank))
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "3")
    made = MadeSamples(tmp_path / "log", 8)
    cached = fastload.CachedDataset(made, tmp_path / "s" if is_file else None)
    assert cached.fill() == 8
    assert list(made.made()) == order
    assert made.made() == once(range(8))


@pytest.mark.parametrize("kind", ["torch", "fastload", pytest.param("spawn", marks=pytest.mark.slow)])
def test_worker_processes_make_each_once_and_find_it_in_the_next_epoch(tmp_path: Path, kind: str) -> None:
    made = MadeSamples(tmp_path / "log", 24, seconds=0.001)
    cached = fastload.CachedDataset(made, tmp_path / "s").map(label_of)
    arguments: dict[str, Any] = {"batch_size": 4, "shuffle": True, "num_workers": 2}
    if kind == "fastload":
        loader: Any = fastload.DataLoader(cached, **arguments, workers="processes")
    else:
        context = "spawn" if kind == "spawn" else "fork"
        loader = torch.utils.data.DataLoader(cached, **arguments, multiprocessing_context=context)
    for _ in range(2):
        assert sorted(label for batch in loader for label in batch.tolist()) == list(range(24))
    assert made.made() == once(range(24))


def test_what_is_in_memory_when_worker_processes_start_is_theirs_too(tmp_path: Path) -> None:
    made = MadeSamples(tmp_path / "log", 12)
    cached = fastload.CachedDataset(made)
    cached.fill()
    loader = torch.utils.data.DataLoader(cached.map(label_of), batch_size=4, num_workers=2)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        assert [label for batch in loader for label in batch.tolist()] == list(range(12))
    assert made.made() == once(range(12))


def test_worker_processes_that_fill_their_own_memory_say_so(tmp_path: Path, run_child: RunChild) -> None:
    child = run_child(
        """
        import torch, fastload
        loader = torch.utils.data.DataLoader(fastload.CachedDataset([1, 2, 3, 4]), num_workers=2)
        print(len(list(loader)))
        print(len(list(fastload.DataLoader(fastload.CachedDataset([1, 2, 3, 4]), num_workers=2, workers="threads"))))
        """,
        warm=True,
    )
    assert child.stdout.split() == ["4", "4"]
    assert child.stderr.count("each worker process makes its own and loses them at its end") == 1
    assert "Call fill() before the loader starts its workers, pass path=" in child.stderr


# ---- killed --------------------------------------------------------------------------------------------------------


class Deadly(MadeSamples):
    """Kills its process when a sample is made."""

    deadly = -1

    def __getitem__(self, index: int) -> Any:
        sample = super().__getitem__(index)
        if index == self.deadly:
            os.kill(os.getpid(), signal.SIGKILL)
        return sample


def test_who_is_killed_while_it_makes_a_sample_loses_that_one(tmp_path: Path) -> None:
    deadly = Deadly(tmp_path / "log", 20)
    choose = random.Random(5)
    killed = sorted(choose.sample(range(20), 5))
    for deadly.deadly in killed:
        exits = in_children(lambda: fastload.CachedDataset(deadly, tmp_path / "s").fill())
        assert exits == [-signal.SIGKILL]
        assert is_whole(tmp_path / "s")
    deadly.deadly = -1
    cached = fastload.CachedDataset(deadly, tmp_path / "s")
    assert cached.fill() == 20
    check_samples(cached, range(20))
    assert deadly.made() == once(range(20)) + once(killed)


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow), pytest.param(3, marks=pytest.mark.slow)])
def test_who_is_killed_at_any_moment_goes_on_where_it_was(tmp_path: Path, seed: int) -> None:
    choose = random.Random(seed)
    made = MadeSamples(tmp_path / "log", 400)
    num_kills = 0
    for target in sorted(choose.sample(range(10, 360), 4)):
        pid = os.fork()
        if pid == 0:
            try:
                fastload.CachedDataset(made, tmp_path / "s").fill(progress=False)
            finally:
                os._exit(0)
        assert wait_for(lambda target=target: sum(made.made().values()) >= target, ATTEMPTS_SECONDS)  # type: ignore[misc]
        time.sleep(choose.random() * 0.003)
        os.kill(pid, signal.SIGKILL)
        num_kills += os.WIFSIGNALED(os.waitpid(pid, 0)[1])
        check_some(made, tmp_path / "s", choose)
    assert num_kills >= 3
    cached = fastload.CachedDataset(made, tmp_path / "s")
    assert cached.fill() == 400
    check_samples(cached, range(400))
    assert is_whole(tmp_path / "s")
    counts = made.made()
    # Each kill loses at most one sample, which was made and not written yet; check_some() makes it again.
    assert sum(counts.values()) <= 400 + num_kills
    assert set(counts) == set(range(400))


def check_some(made: MadeSamples, path: Path, choose: random.Random) -> None:
    """Reads some samples after a kill, in a child so that this process opens the file anew."""
    there = list(made.made())
    chosen = choose.sample(there, min(10, len(there)))

    def look() -> None:
        check_samples(fastload.CachedDataset(made, path), chosen)

    assert in_children(look) == [0]


class Hanging(MadeSamples):
    """Never finishes a sample if `hangs` is set."""

    hangs = False

    def __getitem__(self, index: int) -> Any:
        sample = super().__getitem__(index)
        if self.hangs:
            threading.Event().wait()
        return sample


# ---- forked --------------------------------------------------------------------------------------------------------


def test_a_forked_child_opens_the_file_for_itself_and_leaves_its_parents_alone(run_child: RunChild) -> None:
    run_child(
        """
        import os, sqlite3, sys
        from pathlib import Path
        import fastload
        from made_samples import MadeSamples, check_samples, once

        made = MadeSamples(Path("log"), 20)
        cached = fastload.CachedDataset(made, "s")
        check_samples(cached, range(10))
        num_connects = 0

        def connect(*args, **kwargs):
            global num_connects
            num_connects += 1
            return real(*args, **kwargs)

        real, sqlite3.connect = sqlite3.connect, connect
        pid = os.fork()
        if pid == 0:
            check_samples(cached, range(5, 15))
            assert num_connects == 1
            sys.exit(0)  # the interpreter ends as usual
        assert os.waitpid(pid, 0)[1] == 0
        check_samples(cached, range(20))
        assert num_connects == 1
        assert made.made() == once(range(20))
        connection = real("s")
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert connection.execute("SELECT count(*) FROM samples").fetchone() == (20,)
        """,
        warm=True,
    )


def test_forks_while_threads_read_and_write_leave_children_that_can(tmp_path: Path) -> None:
    made = MadeSamples(tmp_path / "log", 300)
    cached = fastload.CachedDataset(made, tmp_path / "s")
    is_over = threading.Event()

    def use(thread: int) -> None:
        for index in shuffled(300, thread) * 20:
            if is_over.is_set():
                return
            cached[index]

    threads = [threading.Thread(target=use, args=(thread,)) for thread in range(4)]
    for thread in threads:
        thread.start()
    try:
        for number in range(12):
            in_fork(lambda number=number: check_samples(cached, shuffled(300, number)[:5]))  # type: ignore[misc]
    finally:
        is_over.set()
        for thread in threads:
            thread.join()
    assert is_whole(tmp_path / "s")
    check_samples(cached, range(300))


def test_a_child_has_locks_of_its_own_that_keep_the_journal(tmp_path: Path) -> None:
    made = MadeSamples(tmp_path / "log", 20)
    held = [fastload.CachedDataset(made, tmp_path / "s")]
    check_samples(held[0], range(5))
    context = multiprocessing.get_context("fork")
    may_end = context.Event()

    def use() -> None:
        check_samples(held[0], range(10))
        (tmp_path / "has it open").touch()
        may_end.wait(ATTEMPTS_SECONDS)
        check_samples(held[0], range(20))

    child = context.Process(target=use)
    child.start()
    check_samples(held[0], range(5))
    assert wait_for((tmp_path / "has it open").exists, ATTEMPTS_SECONDS)
    held.clear()  # the child still has the file open
    assert (tmp_path / "s-wal").exists()
    assert in_children(lambda: check_samples(fastload.CachedDataset(made, tmp_path / "s"), range(12))) == [0]
    assert (tmp_path / "s-wal").exists()
    may_end.set()
    child.join(ATTEMPTS_SECONDS)
    assert child.exitcode == 0
    assert is_whole(tmp_path / "s")
    check_samples(fastload.CachedDataset(made, tmp_path / "s"), range(20))
    assert made.made() == once(range(20))


@contextlib.contextmanager
def inside_of_sqlite(cached: fastload.CachedDataset) -> Iterator[threading.Event]:
    """Keeps a thread inside of SQLite until the event is set."""
    begun, may_end = threading.Event(), threading.Event()

    def hold() -> None:
        with cached._samples._file._connection():  # type: ignore[attr-defined]
            begun.set()
            may_end.wait(ATTEMPTS_SECONDS)

    holder = threading.Thread(target=hold)
    holder.start()
    begun.wait()
    yield may_end
    may_end.set()
    holder.join()


def test_a_fork_waits_for_who_is_inside_of_sqlite(tmp_path: Path) -> None:
    made = MadeSamples(tmp_path / "log", 2)
    cached = fastload.CachedDataset(made, tmp_path / "s")
    check_samples(cached, [0])
    with inside_of_sqlite(cached) as may_end:
        threading.Timer(0.1, may_end.set).start()
        assert in_children(lambda: check_samples(cached, [0, 1])) == [0]
        assert may_end.is_set()
        check_samples(cached, [0, 1])
    assert made.made() == once([0, 1])


def test_a_child_leaves_the_file_alone_where_the_fork_could_not_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_sqlite_file, "_FORK_SECONDS", 0.01)
    made = MadeSamples(tmp_path / "log", 4)
    cached = fastload.CachedDataset(made, tmp_path / "s")
    check_samples(cached, [0, 1])

    def use() -> None:
        check_samples(cached, [0, 1, 2])
        assert cached.fill() == 0
        cached.clear()

    with inside_of_sqlite(cached):
        assert in_children(use) == [0]
    assert cached.fill() == 4
    assert made.made() == once(range(4)) + once(range(3))


def test_a_child_forked_while_a_sample_is_made_makes_it_for_itself(tmp_path: Path) -> None:
    made = Hanging(tmp_path / "log", 2)
    for path in (None, tmp_path / "s"):
        cached = fastload.CachedDataset(made, path)
        made.hangs = True
        thread = threading.Thread(target=lambda cached=cached: cached[1], daemon=True)  # type: ignore[misc]
        before = made.made()[1]
        thread.start()
        assert wait_for(lambda before=before: made.made()[1] > before, ATTEMPTS_SECONDS)  # type: ignore[misc]

        def ask(cached: Any = cached) -> None:
            made.hangs = False
            check_samples(cached, [1])

        assert in_children(ask) == [0]
