"""The threads, descriptors and children that this process holds, to be the same before and after."""

from __future__ import annotations

import multiprocessing
import os
import time
from pathlib import Path
from typing import NamedTuple


class Held(NamedTuple):
    """Counts of this process; `children` are processes."""

    threads: int
    descriptors: int
    children: int


def held_now() -> Held:
    multiprocessing.active_children()  # frees what is kept of workers that have ended, as the next iter() does
    tasks = Path("/proc/self/task")
    children = (tasks / str(os.getpid()) / "children").read_text().split()
    return Held(len(list(tasks.iterdir())), len(list(Path("/proc/self/fd").iterdir())), len(children))


def settle(expected: Held) -> Held:
    """Waits until threads that are ending are gone; returns what is held then."""
    for _ in range(100):
        if held_now() == expected:
            break
        time.sleep(0.05)
    return held_now()


def settled() -> Held:
    """Waits until the counts have stayed the same for a while, and returns them."""
    before = held_now()
    while True:
        time.sleep(0.2)
        if (now := held_now()) == before:
            return now
        before = now


def resident_mib() -> float:
    """Returns the resident memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
