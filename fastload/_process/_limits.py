"""The processors and the memory that this process may use: the machine's, or what control groups leave of them.

Tests have a file system of their own as `root`.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path

from fastload._process import _config
from fastload._process._interrupts import is_interrupt

_MOUNTED = ("sys/fs/cgroup", "sys/fs/cgroup/memory")  # of version 2, and of the memory controller of version 1


def num_available() -> int:
    """Returns the number of processors that the system lets this process run on: by affinity, or all."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def processor_quota(root: Path = Path("/")) -> float:
    """Returns the processor time per time that this process gets at most, in processors, for example 1.5.

    It is limited by the affinity and by the quotas of this process's control groups (version 1 or 2, with all parents).
    """
    return min([num_available(), *_quotas(root)])


def num_auto_workers(root: Path = Path("/")) -> int:
    """Returns how many threads can load without taking processors from other programs: at least 1.

    That is the quota, shared among the ranks on this machine as the launcher counts them.
    """
    return max(1, math.floor(processor_quota(root)) // _config.num_local_ranks())


def total_memory(root: Path = Path("/")) -> int:
    """Returns the bytes of the machine's memory, or the limit of one of its control groups if that is lower."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for line in read_text(root / "proc/meminfo").splitlines():
        if line.startswith("MemTotal:"):
            total = int(line.split()[1]) * 1024
    mounted = (root / folder for folder in _MOUNTED)  # the container's own group, whatever /proc/self/cgroup says
    return min([total, *filter(None, map(_limit, [*_group_folders("memory", root), *mounted]))])


class MemoryLimits:
    """The memory limits of this process's control groups, and whether one was reached since this object was made."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._before = {folder: _num_kills(folder) for folder in _group_folders("memory", root)}

    def reached(self) -> int | None:
        """Returns the bytes of the limit at which the system has ended processes since; None: at none."""
        for folder, before in self._before.items():
            if _num_kills(folder) > before and (limit := _limit(folder)) is not None:
                return limit
        return None


def read_text(path: Path) -> str:
    """Returns the contents of a system file; "" if there is none."""
    try:
        return path.read_text() if path.exists() else ""
    except OSError as error:
        if is_interrupt(error):
            raise
        return ""


def _quotas(root: Path) -> Iterator[float]:
    """Yields the quota of each control group above this process, in processors."""
    for folder in _group_folders("cpu", root):
        if limit := read_text(folder / "cpu.max"):
            yield from _ratio(*limit.split()[:2])
        quota, period = (read_text(folder / f"cpu.cfs_{name}_us").strip() for name in ("quota", "period"))
        yield from _ratio(quota, period)


def _ratio(quota: str, period: str) -> Iterator[float]:
    # "max", or -1 in version 1: no limit.
    if quota.isdigit() and period.isdigit() and int(period) > 0:
        yield int(quota) / int(period)


def _num_kills(folder: Path) -> int:
    """Returns how many processes of a group the system has ended because memory ran out."""
    for line in (read_text(folder / "memory.events") or read_text(folder / "memory.oom_control")).splitlines():
        name, _, number = line.partition(" ")
        if name == "oom_kill" and number.isdigit():
            return int(number)
    return 0


def _limit(folder: Path) -> int | None:
    text = (read_text(folder / "memory.max") or read_text(folder / "memory.limit_in_bytes")).strip()
    return int(text) if text.isdigit() else None


def _group_folders(controller: str, root: Path) -> Iterator[Path]:
    """Yields the folders of this process's control groups with all their parents, innermost first.

    Version 1 has folders for each controller, such as "cpu", version 2 one for all.
    """
    for line in read_text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            yield from _upwards(root / "sys/fs/cgroup", path)
        elif controller in controllers.split(","):
            yield from _upwards(root / "sys/fs/cgroup" / controller, path)


def _upwards(mount: Path, path: str) -> Iterator[Path]:
    """Yields the folder of a group and its parents. In a container the mount may be the group itself."""
    folder = mount / path.lstrip("/")
    while folder != mount and mount in folder.parents:
        yield folder
        folder = folder.parent
    yield mount
