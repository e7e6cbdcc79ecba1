"""What the machine gives to this process."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fastload._display._units import in_bytes
from fastload._process._memory import read_text, total_memory
from fastload._process._processors import num_available, processor_quota


@dataclass(frozen=True)
class Machine:
    """One machine, as this process finds it.

    Attributes:
        available: Processors that this process may run on, by affinity.
        processors: Processors' worth of time, by affinity and control groups.
        megahertz: Mean frequency of the processors at this moment; None where Linux does not tell.
        memory_bytes: Memory of the machine, or of the control group where that is less.
        free_bytes: Of it, what can be had without swapping.
    """

    available: int
    processors: float
    megahertz: float | None
    memory_bytes: int
    free_bytes: int

    def rows(self) -> Iterator[tuple[str, ...]]:
        """What is shown of it."""
        quota = "" if self.processors == self.available else f", {self.processors:g} of them by control groups"
        speed = "" if self.megahertz is None else f"{self.megahertz / 1000:.1f} GHz"
        yield "machine", "processors", f"{self.available}{quota}", speed
        yield "machine", "memory", in_bytes(self.memory_bytes), f"{in_bytes(self.free_bytes)} free"


def examine_machine(root: Path = Path("/")) -> Machine:
    """The machine at this moment.

    Args:
        root: Of the file system; tests have one of their own.
    """
    total = total_memory(root)
    free = _kilobytes(dict(_lines(root / "proc/meminfo", ":")).get("MemAvailable"))
    frequencies = [float(value) for name, value in _lines(root / "proc/cpuinfo", ":") if name == "cpu MHz"]
    return Machine(
        available=num_available(),
        processors=processor_quota(root),
        megahertz=sum(frequencies) / len(frequencies) if frequencies else None,
        memory_bytes=total,
        free_bytes=min(free, total),
    )


def _lines(path: Path, separator: str) -> Iterator[tuple[str, str]]:
    for line in read_text(path).splitlines():
        name, _, value = line.partition(separator)
        yield name.strip(), value.strip()


def _kilobytes(value: str | None) -> int:
    return int(value.split()[0]) * 1024 if value else 0
