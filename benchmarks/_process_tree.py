"""CPU time and memory of a process with all its descendants, from Linux's /proc."""

from __future__ import annotations

import os
import time
from pathlib import Path

_TICK_SECONDS = 1 / os.sysconf("SC_CLK_TCK")
# As clock_getcpuclockid(3) on Linux: the inverted process number above the kind of clock, here run time.
_RUN_TIME_CLOCK = 2
_SHARED_MEMORY = "/dev/shm/"


def process_tree(pid: int) -> list[int]:
    """Returns the process and its living descendants."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (fields := _stat_fields(int(entry.name))):
            children.setdefault(int(fields[1]), []).append(int(entry.name))
    found = [pid]
    for parent in found:
        found.extend(children.get(parent, []))
    return found


def cpu_seconds(pid: int) -> float:
    """Returns user and system time of the tree, including descendants that have ended and were waited for.

    Resolution is nanoseconds for living processes, a clock tick (10 ms) for each that has ended.
    """
    return sum(_run_seconds_of_one(member) + _ended_children_seconds(member) for member in process_tree(pid))


def pss_bytes(pid: int) -> int:
    """Returns the proportional set size of the tree: a page that n processes share counts 1/n in each."""
    return sum(_pss_of_one(member) for member in process_tree(pid))


def own_pss_bytes(pid: int) -> int:
    """Returns the part of `pss_bytes` that belongs to no file: anonymous and shared memory.

    Other people's programs on the machine map some of the same libraries, and change the rest of it.
    """
    return sum(_pss_of_one(member, ("Pss_Anon:", "Pss_Shmem:")) for member in process_tree(pid))


def unmapped_shared_bytes(pid: int) -> int:
    """Returns the shared memory that the tree keeps open and that none of it has mapped, so that no PSS counts it.

    Batches that torch's workers have finished and the consumer has not fetched are held this way.
    """
    held: dict[int, int] = {}
    mapped: set[int] = set()
    for member in process_tree(pid):
        held.update(_open_shared_files(member))
        mapped |= _mapped_shared_files(member)
    return sum(size for inode, size in held.items() if inode not in mapped)


def wait_until_at_rest(pid: int, quiet_seconds: float = 0.2) -> float:
    """Waits until the tree as it is now, except the calling thread, has rested for `quiet_seconds`.

    Polling costs the caller some microseconds every 10 ms, so that it does not slow down the others.

    Returns: the `time.perf_counter()` at which it came to rest, to about 10 ms.
    """
    members = process_tree(pid)

    def used_by_others() -> float:
        return sum(_run_seconds_of_one(member) for member in members) - time.thread_time()

    rest_began = time.perf_counter()
    used = used_by_others()
    while time.perf_counter() - rest_began < quiet_seconds:
        time.sleep(0.01)
        used_before, used = used, used_by_others()
        if used - used_before > 0.001:
            rest_began = time.perf_counter()
    return rest_began


def wait_until_idle(pid: int, quiet_seconds: float = 1.0, timeout_seconds: float = 120.0) -> bool:
    """Waits until the tree has used less than 5 % of a core for `quiet_seconds`; False on a timeout."""
    deadline = time.monotonic() + timeout_seconds
    while time.monotonic() < deadline:
        before = cpu_seconds(pid)
        time.sleep(quiet_seconds)
        if cpu_seconds(pid) - before < 0.05 * quiet_seconds:
            return True
    return False


def _stat_fields(pid: int) -> list[str]:
    """Returns the fields of /proc/pid/stat from the third on (state, parent, ...); empty if the process is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return []
    return text.rpartition(")")[2].split()


def _run_seconds_of_one(pid: int) -> float:
    try:
        return time.clock_gettime(~pid << 3 | _RUN_TIME_CLOCK)
    except OSError:
        return 0.0


def _ended_children_seconds(pid: int) -> float:
    # cutime and cstime: fields 16 and 17 of proc(5), which _stat_fields counts from 3.
    return sum(int(value) for value in _stat_fields(pid)[13:15]) * _TICK_SECONDS


def _open_shared_files(pid: int) -> dict[int, int]:
    """Returns inode -> bytes in use, for the process's descriptors in /dev/shm."""
    found = {}
    try:
        descriptors = list(Path(f"/proc/{pid}/fd").iterdir())
    except (FileNotFoundError, ProcessLookupError):
        return {}
    for descriptor in descriptors:
        try:
            if str(descriptor.readlink()).startswith(_SHARED_MEMORY):
                status = descriptor.stat()
                found[status.st_ino] = 512 * status.st_blocks
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def _mapped_shared_files(pid: int) -> set[int]:
    """Returns the inodes of the files in /dev/shm that the process has mapped."""
    try:
        lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return set()
    # address, permissions, offset, device, inode, path: proc(5).
    fields = [line.split(maxsplit=5) for line in lines]
    return {int(field[4]) for field in fields if len(field) == 6 and field[5].startswith(_SHARED_MEMORY)}


def _pss_of_one(pid: int, parts: tuple[str, ...] = ("Pss:",)) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return sum(1024 * int(line.split()[1]) for line in lines if line.startswith(parts))
