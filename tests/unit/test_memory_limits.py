"""The memory limits of control groups, and whether one was reached."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from numbered import Numbered

import fastload
from fastload._iteration.processes import _worker_processes
from fastload._process._limits import MemoryLimits, total_memory

MIB = 1 << 20
V1 = "sys/fs/cgroup/memory"
V2 = "sys/fs/cgroup"
# The files of each group before, the ones that change, and the limit that was reached.
GROUPS: dict[str, tuple[dict[str, str], dict[str, str], int | None]] = {
    "no groups": ({}, {}, None),
    "version 2": (
        {
            "proc/self/cgroup": "0::/jobs/mine\n",
            f"{V2}/jobs/mine/memory.max": "max\n",
            f"{V2}/jobs/mine/memory.events": "low 0\noom 3\noom_kill 2\n",
            f"{V2}/jobs/memory.max": f"{512 * MIB}\n",
            f"{V2}/jobs/memory.events": "low 0\noom 3\noom_kill 2\n",
        },
        {
            f"{V2}/jobs/mine/memory.events": "low 0\noom 4\noom_kill 3\n",
            f"{V2}/jobs/memory.events": "low 0\noom 4\noom_kill 3\n",
        },
        512 * MIB,
    ),
    "version 2, reached before": (
        {
            "proc/self/cgroup": "0::/\n",
            f"{V2}/memory.max": f"{512 * MIB}\n",
            f"{V2}/memory.events": "oom 3\noom_kill 2\n",
        },
        {},
        None,
    ),
    "version 2, events later": (
        {"proc/self/cgroup": "0::/\n", f"{V2}/memory.max": f"{64 * MIB}\n"},
        {f"{V2}/memory.events": "oom_kill 1\n"},
        64 * MIB,
    ),
    "version 1": (
        {
            "proc/self/cgroup": "4:memory:/job\n1:cpu:/\n0::/\n",
            f"{V1}/job/memory.limit_in_bytes": f"{256 * MIB}\n",
            f"{V1}/job/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 0\n",
        },
        {f"{V1}/job/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n"},
        256 * MIB,
    ),
    "nonsense": (
        {"proc/self/cgroup": "0::/\n", f"{V2}/memory.max": "many\n", f"{V2}/memory.events": "oom_kill\n"},
        {f"{V2}/memory.events": "oom_kill x\noom_kill 3\n"},
        None,
    ),
}


def _write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


@pytest.mark.parametrize("name", GROUPS)
def test_the_innermost_limit_that_was_reached_since_is_told(name: str, tmp_path: Path) -> None:
    before, after, expected = GROUPS[name]
    _write(tmp_path, before)
    limits = MemoryLimits(tmp_path)
    assert limits.reached() is None
    _write(tmp_path, after)
    assert limits.reached() == expected


@pytest.mark.parametrize(
    ("name", "expected"), [("version 2", 512 * MIB), ("version 1", 256 * MIB), ("nonsense", 1 << 40)]
)
def test_the_memory_is_what_the_narrowest_group_leaves(name: str, expected: int, tmp_path: Path) -> None:
    _write(tmp_path, {**GROUPS[name][0], "proc/meminfo": f"MemTotal: {1 << 30} kB\n"})
    assert total_memory(tmp_path) == expected


class Killed(Numbered):
    """A data set whose worker is killed at sample 4, as by a control group whose files are in a folder."""

    def __init__(self, root: Path) -> None:
        super().__init__(12)
        self.root = root

    def sample(self, index: int) -> Any:
        if index == 4:
            _write(self.root, GROUPS["version 2"][1])
            os.kill(os.getpid(), signal.SIGKILL)
        return index


def test_the_loss_of_a_worker_names_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _write(tmp_path, GROUPS["version 2"][0])
    monkeypatch.setattr(_worker_processes, "MemoryLimits", lambda: MemoryLimits(tmp_path))
    iterator = iter(fastload.DataLoader(Killed(tmp_path), 2, num_workers=1, workers="processes"))
    assert [next(iterator).tolist() for _ in range(2)] == [[0, 1], [2, 3]]
    text = (
        r"is killed by signal: Killed. The memory limit of its control group, 512 MiB, was reached. "
        r"It was asked for \[4, 5\]. Fewer workers need less memory; "
        r'with workers="threads" the code runs in this process$'
    )
    with pytest.raises(RuntimeError, match=text):
        next(iterator)
