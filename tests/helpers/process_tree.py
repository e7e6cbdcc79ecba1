"""Ends a process with all that it has started, also what is in a session of its own, as torchrun's ranks are."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path


def kill_tree(pid: int) -> None:
    """Kills the process group that `pid` leads and all descendants; `pid` may have ended by itself."""
    started = list(descendants(pid))
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    for descendant in started:
        with contextlib.suppress(ProcessLookupError):
            os.kill(descendant, signal.SIGKILL)


def descendants(pid: int) -> Iterator[int]:
    """Yields the processes that `pid` has started, and the ones that they have started."""
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # the thread has ended
            for child in map(int, children.read_text().split()):
                yield child
                yield from descendants(child)
