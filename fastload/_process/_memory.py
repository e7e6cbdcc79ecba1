"""The memory that this machine lets the process use."""

from __future__ import annotations

import os
from pathlib import Path

from fastload._process._interrupts import is_interrupt

_GROUP_LIMITS = ("sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory/memory.limit_in_bytes")


def total_memory(root: Path = Path("/")) -> int:
    """Returns the bytes of the machine's memory, or the limit of a control group if that is lower.

    Args:
        root: Root of the file system; tests have their own.
    """
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for line in read_text(root / "proc/meminfo").splitlines():
        if line.startswith("MemTotal:"):
            total = int(line.split()[1]) * 1024
    limits = (read_text(root / group).strip() for group in _GROUP_LIMITS)
    return min([total, *(int(limit) for limit in limits if limit.isdigit() and int(limit) > 0)])


def read_text(path: Path) -> str:
    """Returns the contents of a system file; "" if there is none."""
    try:
        return path.read_text() if path.exists() else ""
    except OSError as error:
        if is_interrupt(error):
            raise
        return ""
