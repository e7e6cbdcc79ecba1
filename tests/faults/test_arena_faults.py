"""Every call of the system that an arena makes fails once, and from the n-th on forever."""

from __future__ import annotations

from pathlib import Path

import pytest
from children import RunChild

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
