"""Worker processes and a system that fails: dead workers, refused calls, limits and signals."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest
from children import RunChild
from process_faults import IN_WORKER

pytestmark = pytest.mark.slow


def test_a_worker_that_is_killed_in_its_work_costs_its_batches_alone(run_child: RunChild) -> None:
    result = run_child("from process_faults import kill_in_worker\nkill_in_worker()", timeout=200)
    assert result.stdout.splitlines() == [f"place {place}" for place in IN_WORKER]


@pytest.mark.parametrize("name", ["SIGKILL", "SIGTERM"])
def test_a_worker_that_is_killed_from_outside_costs_its_batches_alone(run_child: RunChild, name: str) -> None:
    code = f"import signal\nfrom process_faults import kill_from_outside\nkill_from_outside(signal.{name})"
    assert len(run_child(code, timeout=200).stdout.splitlines()) == 5


WAYS = {
    "fork": "OSError|BlockingIOError",
    "socketpair": "OSError",
    "pipe2": "OSError",
    "memfd_create": "right",
    "ftruncate": "right",
    "mmap": "right|MemoryError",
    "munlock": "right",
    "mprotect": "right",
    "madvise": "right",
}


@pytest.mark.parametrize("call", WAYS)
def test_a_call_that_fails_costs_an_error_or_nothing(run_child: RunChild, shim: Path, call: str) -> None:
    code = f"from process_faults import fail_calls\nfail_calls({call!r}, 'processes')"
    last = run_child(code, env={"LD_PRELOAD": str(shim)}, timeout=300).stdout.splitlines()[-1]
    ways = set(last.split()[1:])
    assert ways
    assert ways <= set(WAYS[call].split("|")), last


def test_without_processes_threads_give_the_same_batches(run_child: RunChild, shim: Path) -> None:
    code = "from process_faults import fail_calls\nfail_calls('fork', 'auto')"
    result = run_child(code, env={"LD_PRELOAD": str(shim)}, timeout=200)
    assert result.stdout.splitlines()[-1] == "ways RuntimeWarning right"


@pytest.mark.parametrize("end", ["lambda: os._exit(7)", "lambda: sys.exit(7)", "lambda: atexit._run_exitfuncs()"])
def test_batches_are_right_while_a_thread_forks(run_child: RunChild, end: str) -> None:
    run_child(
        f"""
        import atexit, os, sys
        from process_faults import check_epoch, forking_thread, make_loader
        for is_persistent in (False, True):
            loader = make_loader(persistent_workers=is_persistent)
            with forking_thread({end}):
                for _ in range(4):
                    check_epoch(loader)
        """,
        timeout=100,
    )


def test_signals_at_random_moments_cost_nothing_else(run_child: RunChild) -> None:
    run_child("from process_faults import signal_at_random\nsignal_at_random(25)", timeout=200)


def test_few_descriptors_are_enough_or_an_error(run_child: RunChild) -> None:
    code = """
        import resource
        from process_faults import Places, check_epoch, expect_held, make_loader
        from held import settled
        import fastload, process_faults

        check_epoch(make_loader())
        before = settled()
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
        outcomes = []
        for process_faults.NUM_WORKERS in (1, 4, 8, 12, 16, 32):
            try:
                check_epoch(make_loader())
                outcomes.append("right")
            except OSError as error:
                outcomes.append(error.strerror)
            expect_held(before)
        print(outcomes)
    """
    outcomes = run_child(textwrap.dedent(code), timeout=100).stdout
    assert outcomes.startswith("['right', 'right'")
    assert outcomes.endswith("'Too many open files']\n")


def test_locked_memory_makes_no_difference(run_child: RunChild) -> None:
    code = """
        import ctypes
        from process_faults import check_epoch, make_loader

        if ctypes.CDLL(None).mlockall(3) != 0:  # MCL_CURRENT | MCL_FUTURE
            print("refused")
        for is_persistent in (False, True):
            loader = make_loader(persistent_workers=is_persistent)
            for _ in range(2):
                check_epoch(loader)
    """
    if run_child(code, timeout=100).stdout == "refused\n":
        pytest.skip("this user may lock no memory, or too little")
