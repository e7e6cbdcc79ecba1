"""Every call of the system that an arena makes fails once, and from the n-th on forever."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

CALLS = ("memfd_create", "ftruncate", "mmap", "munlock", "mprotect", "madvise", "malloc")


@pytest.mark.smoke
def test_batches_keep_their_bytes_whichever_call_fails(run_child: Callable[..., Any], shim: Path) -> None:
    code = f"from arena_faults import run\nfor call in {CALLS}: run(call)\n"
    output = run_child(code, timeout=100, env={"LD_PRELOAD": str(shim), "PYTHONMALLOC": "malloc"}).stdout
    ways = {call: ast.literal_eval(rest) for call, rest in (line.split(" ", 1) for line in output.splitlines())}
    assert {call: set(seen) for call, seen in ways.items()} == {
        "memfd_create": {"anonymous"},
        "ftruncate": {"smaller", "anonymous"},
        "mmap": {"smaller", "OSError"},
        "munlock": {"smaller", "OSError"},
        "mprotect": {"smaller", "OSError"},
        "madvise": {"memfd", "memfd, inline"},
        "malloc": {"MemoryError"},
    }
