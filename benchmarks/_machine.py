"""Everything that the figures depend on and the command line does not say."""

from __future__ import annotations

import os
import platform
from pathlib import Path


def describe_machine() -> dict[str, str | int | float]:
    """Returns processor, cores, memory, kernel and the load at the start. Names no host and no user."""
    return {
        "cpu": _first_value("/proc/cpuinfo", "model name") or platform.processor(),
        "cores_usable": len(os.sched_getaffinity(0)),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "kernel": platform.release(),
        "frequency_governor": _governor(),
        "load_average_1_minute": round(os.getloadavg()[0], 2),
    }


def _first_value(path: str, key: str) -> str:
    for line in Path(path).read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == key:
            return value.strip()
    return ""


def _governor() -> str:
    try:
        return Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").read_text().strip()
    except OSError:
        return "unknown"
