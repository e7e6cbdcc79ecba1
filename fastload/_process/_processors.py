"""Number of processors that this process may use, for num_workers="auto"."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path

from fastload._process import _config
from fastload._process._control_groups import group_folders
from fastload._process._memory import read_text


def num_available() -> int:
    """Returns the number of processors that the system lets this process run on: by affinity, or all."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def processor_quota(root: Path = Path("/")) -> float:
    """Returns the processor time per time that this process gets at most, in processors, for example 1.5.

    It is limited by the affinity and by the quotas of this process's control groups (version 1 or 2, with all parents).

    Args:
        root: Root of the file system; tests have their own.
    """
    return min([num_available(), *_quotas(root)])


def num_auto_workers(root: Path = Path("/")) -> int:
    """Returns how many threads can load without taking processors from other programs: at least 1.

    That is the quota, shared among the ranks on this machine as the launcher counts them.
    """
    return max(1, math.floor(processor_quota(root)) // _config.num_local_ranks())


def _quotas(root: Path) -> Iterator[float]:
    """Yields the quota of each control group above this process, in processors."""
    for folder in group_folders("cpu", root):
        if limit := read_text(folder / "cpu.max"):
            yield from _ratio(*limit.split()[:2])
        quota, period = (read_text(folder / f"cpu.cfs_{name}_us").strip() for name in ("quota", "period"))
        yield from _ratio(quota, period)


def _ratio(quota: str, period: str) -> Iterator[float]:
    # "max", or -1 in version 1: no limit.
    if quota.isdigit() and period.isdigit() and int(period) > 0:
        yield int(quota) / int(period)
