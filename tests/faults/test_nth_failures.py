"""Every call of the system and of the allocator fails once, and from the n-th on forever: helpers/nth_failures.py.

Memory that the core requests itself fails, and memory that it requests from Python; here Python takes each object from
malloc.
"""

from __future__ import annotations

import atexit
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from children import RunChild
from failing_calls import FOREVER, compile_shim
from warm_python import WarmPython

OF_THREADS = ("pthread_create", "Thread.start", "thread memory")
OF_PYTHON = ("malloc", "open", "read", "pread", *OF_THREADS)
OF_NATIVE = (*OF_PYTHON, "mmap")
OF_SCANS = ("malloc", "open", "opendir", "readdir", *OF_THREADS)
CALLS = {
    "native": OF_NATIVE,
    "drawing": OF_NATIVE,
    "replacing": ("malloc", "mmap", *OF_THREADS),  # a sample that cannot be read is replaced
    "mixed": OF_PYTHON,
    "python": OF_PYTHON,
    "scan": OF_SCANS,
    "index write": (*OF_SCANS, "write", "fsync", "rename"),
    "index read": ("malloc", "open", "pread", "preadv"),
}
TIMES = {"once": 1, "for ever": FOREVER}
SECONDS = 60.0

# For campaigns: (setting, call, times).
cases = [(setting, call, times) for setting, calls in CALLS.items() for call in calls for times in TIMES]


def program(setting: str, calls: tuple[str, ...], times: str, most: int | None) -> str:
    return f"from nth_failures import run\nrun({setting!r}, {calls!r}, {TIMES[times]}, {most})\n"


@pytest.fixture(scope="module")
def python_that_fails(shim: Path) -> Iterator[WarmPython]:
    python = WarmPython(LD_PRELOAD=str(shim), PYTHONMALLOC="malloc")
    yield python
    python.close()


@pytest.fixture(params=TIMES)
def times(request: pytest.FixtureRequest) -> str:
    return str(request.param)


RunLoop = Callable[[str, tuple[str, ...], str, int], None]


@pytest.fixture
def run_loop(run_child: Callable[..., Any], python_that_fails: WarmPython) -> RunLoop:
    def run(setting: str, calls: tuple[str, ...], times: str, most: int) -> None:
        run_child(program(setting, calls, times, most), timeout=SECONDS, warm=python_that_fails)

    return run


@pytest.mark.smoke
@pytest.mark.parametrize("setting", ["native", "mixed", "index write"])
def test_without_memory_there_is_an_error_and_the_next_epoch_is_right(setting: str, run_loop: RunLoop) -> None:
    run_loop(setting, ("malloc",), "once", 3)


@pytest.mark.parametrize("setting", CALLS)
def test_a_call_that_fails_costs_an_error_and_nothing_else(setting: str, times: str, run_loop: RunLoop) -> None:
    run_loop(setting, CALLS[setting], times, 3)


def test_a_native_call_needs_no_memory_to_say_that_there_is_none(
    run_child: Callable[..., Any], python_that_fails: WarmPython
) -> None:
    code = "from nth_failures import run_native_calls\nrun_native_calls()\n"
    run_child(code, timeout=SECONDS, warm=python_that_fails)


_python: WarmPython | None = None


def assert_case(seed: int) -> None:
    """Runs all n of one of `cases`; prints the last."""
    global _python
    setting, call, times = cases[seed % len(cases)]
    with tempfile.TemporaryDirectory() as folder:
        if _python is None:
            shim = compile_shim(Path(tempfile.mkdtemp()))
            assert shim is not None, "no C compiler"
            _python = WarmPython(LD_PRELOAD=str(shim), PYTHONMALLOC="malloc")
            atexit.register(_python.close)
        result = _python.run(program(setting, (call,), times, None), Path(folder), 20 * SECONDS, dict(os.environ))
    assert result.returncode == 0, f"{setting}, {call}, {times}: {result.stdout[-100:]} {result.stderr[-3000:]}"
    last = re.findall(r"^last (\d+)", result.stdout, re.MULTILINE)
    print(f"{setting}, {call}, {times}: last n {last[0]}", flush=True)


WAYS = {
    "memfd_create": "anonymous",
    "ftruncate": "anonymous smaller",
    "mmap": "OSError smaller",
    "munlock": "OSError smaller",
    "mprotect": "OSError smaller",
    "madvise": "inline memfd",
    "malloc": "MemoryError",
}


@pytest.mark.smoke
def test_batches_keep_their_bytes_whichever_call_of_an_arena_fails(run_child: RunChild, shim: Path) -> None:
    code = f"from arena_faults import run\nfor call in {[*WAYS]}: run(call)\n"
    output = run_child(code, env={"LD_PRELOAD": str(shim), "PYTHONMALLOC": "malloc"}).stdout
    assert dict(line.split(" ", 1) for line in output.splitlines()) == WAYS
