"""The ends of worker processes: workers that do not end by themselves, and children of the program that do."""

from __future__ import annotations

import functools
import multiprocessing
import os
import signal
import sys
import time
from typing import Any

import pytest
import torch.utils.data
from both_loaders import Processes
from child_loader import wait_for
from children import RunChild
from numbered import Numbered

from fastload._iteration.processes import _worker_processes

BOTH = {"torch": torch.utils.data.DataLoader, "fastload": Processes}


class Stubborn(Numbered):
    """Its two workers ignore SIGTERM, and take very long for sample 4."""

    def __init__(self) -> None:
        super().__init__()
        self.are_busy = multiprocessing.RawArray("b", 2)

    def sample(self, index: int) -> Any:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if index == 4:
            self.are_busy[torch.utils.data.get_worker_info().id] = True
            time.sleep(3600)
        return index, os.getpid()


def _live(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _stubborn_workers(**arguments: Any) -> list[int]:
    """Drops an iterator whose workers do not end, and returns their pids."""
    dataset = Stubborn()
    iterator = iter(Processes(dataset, 1, sampler=[0, 1, 4, 4], num_workers=2, **arguments))
    pids = {int(next(iterator)[1]) for _ in range(2)}
    assert len(pids) == 2
    assert wait_for(lambda: all(dataset.are_busy))
    return sorted(pids)


def test_workers_that_go_on_after_a_drop_are_killed_by_later_iterations(monkeypatch: pytest.MonkeyPatch) -> None:
    pids = _stubborn_workers()
    other = Processes(Numbered(), 2, num_workers=1)
    next(iter(other))  # no signal is due yet
    monkeypatch.setattr(_worker_processes, "_GRACE_SECONDS", 0.0)
    next(iter(other))  # SIGTERM
    time.sleep(0.1)
    assert all(map(_live, pids))
    next(iter(other))  # SIGKILL
    assert wait_for(lambda: not multiprocessing.active_children() or not any(map(_live, pids)))


@pytest.mark.parametrize(
    "method", ["fork", *(pytest.param(method, marks=pytest.mark.slow) for method in ("spawn", "forkserver"))]
)
def test_the_exit_of_the_program_kills_workers_that_ignore_signals(run_child: RunChild, method: str) -> None:
    result = run_child(
        f"""
        from fastload._iteration.processes import _worker_processes
        from processes.test_process_ends import _stubborn_workers
        _worker_processes._GRACE_SECONDS = 0.5
        if __name__ == "__main__":
            print(*_stubborn_workers(multiprocessing_context={method!r}))
        """
    )
    assert wait_for(lambda: not any(map(_live, map(int, result.stdout.split()))))


class Closing(Numbered):
    """Its workers close all their descriptors and go on."""

    def sample(self, index: int) -> Any:
        if index == 4:
            os.closerange(3, 256)
            time.sleep(3600)
        return index


def test_a_worker_that_closes_its_connection_is_lost_and_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fastload._iteration.processes._process_group._JOIN_SECONDS", 0.3)
    before = set(multiprocessing.active_children())
    iterator = iter(Processes(Closing(), 2, num_workers=1))
    assert [next(iterator).tolist() for _ in range(2)] == [[0, 1], [2, 3]]
    with pytest.raises(RuntimeError, match=r"exited unexpectedly. It was asked for \[4, 5\]"):
        next(iterator)
    assert wait_for(lambda: set(multiprocessing.active_children()) <= before)


def _raise() -> None:
    raise RuntimeError("of the child")


ENDS = {"sys.exit": functools.partial(sys.exit, 3), "os._exit": functools.partial(os._exit, 3), "exception": _raise}


def fork_and_go_on(kind: str, end: str) -> None:
    """Iterates while a child of the program ends; in a child of the test."""
    loader = BOTH[kind](Numbered(), 1, num_workers=2, persistent_workers=True)
    iterator = iter(loader)
    next(iterator)
    if end == "Process":
        process = multiprocessing.Process(target=ENDS["sys.exit"])
        process.start()
        process.join()
    else:
        if (pid := os.fork()) == 0:
            ENDS[end]()
        os.waitpid(pid, 0)
    assert len(list(iterator)) == 22
    assert len(list(loader)) == 23
    print("went on")


@pytest.mark.parametrize("kind", [pytest.param("torch", marks=pytest.mark.slow), "fastload"])
@pytest.mark.parametrize("end", [*ENDS, "Process"])
def test_children_of_the_program_end_and_its_workers_go_on(run_child: RunChild, kind: str, end: str) -> None:
    """torch's workers are terminated by the exit functions of a forked child, which is multiprocessing's doing."""
    code = f"from processes.test_process_ends import fork_and_go_on\nfork_and_go_on({kind!r}, {end!r})"
    result = run_child(code, check=False)
    is_torchs_loss = kind == "torch" and end in ("sys.exit", "exception")
    assert (result.returncode == 0) != is_torchs_loss, result.stderr
    assert ("is killed by signal: Terminated" in result.stderr) == is_torchs_loss
    assert ("went on" in result.stdout) != is_torchs_loss
