"""The control groups of this process, version 1 or 2, and the limits that they set."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from fastload._process._memory import read_text


def group_folders(controller: str, root: Path = Path("/")) -> Iterator[Path]:
    """Yields the folders of this process's control groups with all their parents, innermost first.

    Args:
        controller: A controller of version 1, such as "cpu"; version 2 has one folder for all.
        root: Root of the file system; tests have their own.
    """
    for line in read_text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            yield from _upwards(root / "sys/fs/cgroup", path)
        elif controller in controllers.split(","):
            yield from _upwards(root / "sys/fs/cgroup" / controller, path)


class MemoryLimits:
    """The memory limits of this process's control groups, and whether one was reached since this object was made.

    Args:
        root: Root of the file system; tests have their own.
    """

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root
        self._before = {folder: _num_kills(folder) for folder in group_folders("memory", root)}

    def reached(self) -> int | None:
        """Returns the bytes of the limit at which the system has ended processes since; None: at none."""
        for folder, before in self._before.items():
            if _num_kills(folder) > before and (limit := _limit(folder)) is not None:
                return limit
        return None


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


def _upwards(mount: Path, path: str) -> Iterator[Path]:
    """Yields the folder of a group and its parents. In a container the mount may be the group itself."""
    folder = mount / path.lstrip("/")
    while folder != mount and mount in folder.parents:
        yield folder
        folder = folder.parent
    yield mount
