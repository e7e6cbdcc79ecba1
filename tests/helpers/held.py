"""What this process holds: to be the same before and behind."""

from __future__ import annotations

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
    tasks = Path("/proc/self/task")
    children = (tasks / str(os.getpid()) / "children").read_text().split()
    return Held(len(list(tasks.iterdir())), len(list(Path("/proc/self/fd").iterdir())), len(children))


def settle(expected: Held) -> Held:
    """What is held once threads that are on their way out are gone."""
    for _ in range(100):
        if held_now() == expected:
            break
        time.sleep(0.05)
    return held_now()


def settled() -> Held:
    """What is held once it has stayed the same for a while."""
    before = held_now()
    while True:
        time.sleep(0.2)
        if (now := held_now()) == before:
            return now
        before = now


def resident_mib() -> float:
    """Resident memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
