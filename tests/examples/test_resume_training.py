"""examples/resume_training.py: whatever ends it, the next start goes on with the same batches and losses."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import example_runner
import pytest
from bad_folders import make_bad_folder
from process_tree import descendants, kill_tree

EPOCHS = 3
STEP = re.compile(r"rank (\d) epoch (\d) step (\d+) (loss \d\.\d+ images [0-9a-f]{8})")

Steps = dict[tuple[int, int], tuple[str, str]]


@contextmanager
def started(num_ranks: int, root: Path, checkpoint: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    """Starts the example with `num_ranks` ranks, which write to one pipe."""
    launch = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={num_ranks}"] if num_ranks > 1 else []
    words = [*launch, example_runner.__file__, "resume_training.py", root, "--checkpoint", checkpoint]
    settings = ["--save-every=2", f"--epochs={EPOCHS}", "--workers=1", *options]
    helpers = str(Path(__file__).parents[1] / "helpers")
    paths = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), helpers]))
    environment = {**os.environ, "PYTHONPATH": paths, "PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        [sys.executable, *map(str, words), *settings],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment,
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                kill_tree(process.pid)


def steps_of(lines: list[str]) -> Steps:
    """Returns epoch, loss and checksum of each (rank, step); two ranks may write into one line."""
    found = STEP.findall("\n".join(lines))
    return {(int(rank), int(step)): (epoch, rest) for rank, epoch, step, rest in found}


def to_the_end(num_ranks: int, root: Path, checkpoint: Path, *options: str) -> tuple[list[str], int]:
    with started(num_ranks, root, checkpoint, *options) as process:
        output, _ = process.communicate(timeout=100)
        return output.splitlines(), process.returncode


def check_killed_at_random(num_ranks: int, root: Path, tmp_path: Path, num_steps: list[int], *options: str) -> None:
    """Kills each start after one of `num_steps` steps, until one ends; all steps together must be one run's."""
    lines, status = to_the_end(num_ranks, root, tmp_path / "whole.pt", *options)
    expected = steps_of(lines)
    assert status == 0
    assert len(expected) >= 6

    choose, seen, num_kills, is_finished = random.Random(num_ranks), {}, 0, False
    while not is_finished:
        most = choose.choice(num_steps) * num_ranks
        with started(num_ranks, root, tmp_path / "killed.pt", *options) as process:
            assert process.stdout is not None
            lines = []
            for line in process.stdout:
                lines.append(line)
                if len(steps_of(lines)) >= most:
                    kill_tree(process.pid)  # what it has printed before is read all the same
                    num_kills += 1
                    break
            lines += process.stdout.readlines()
        new = steps_of(lines)
        assert new.items() <= expected.items()
        seen.update(new)
        is_finished = any("finished" in line for line in lines)
        assert num_kills < 20, "every start gets to a checkpoint"
    assert num_kills >= 1
    assert seen == expected


@pytest.mark.parametrize("num_ranks", [1, 2])
def test_killed_at_random_steps_it_ends_with_the_steps_of_one_run(
    num_ranks: int, image_folder: Path, tmp_path: Path
) -> None:
    check_killed_at_random(num_ranks, image_folder, tmp_path, [3, 4, 5])


@pytest.mark.parametrize("num_ranks", [1, 2])
def test_killed_at_random_steps_it_ends_so_where_one_file_in_a_hundred_is_bad(num_ranks: int, tmp_path: Path) -> None:
    root = tmp_path / "images"
    make_bad_folder(root, 100, [(41, "truncated")])
    _, status = to_the_end(num_ranks, root, tmp_path / "raising.pt")
    assert status != 0, "the file is bad"
    check_killed_at_random(num_ranks, root, tmp_path, [5, 8, 11], "--on-error=replace")


def test_asked_to_end_it_saves_the_step_it_is_at(image_folder: Path, tmp_path: Path) -> None:
    expected = steps_of(to_the_end(1, image_folder, tmp_path / "whole.pt")[0])
    with started(1, image_folder, tmp_path / "asked.pt") as process:
        assert process.stdout is not None
        lines = [process.stdout.readline()]
        process.send_signal(signal.SIGTERM)
        lines += process.stdout.readlines()
        assert process.wait(60) == 0
    before = steps_of(lines)
    lines, status = to_the_end(1, image_folder, tmp_path / "asked.pt")
    assert status == 0
    assert lines[0] == f"rank 0 resumes after step {len(before)}"
    assert {**before, **steps_of(lines)} == expected
    assert len(before) < len(expected)


def test_all_ranks_stop_behind_the_step_at_which_one_was_asked(image_folder: Path, tmp_path: Path) -> None:
    with started(2, image_folder, tmp_path / "asked.pt") as process:
        assert process.stdout is not None
        lines = [process.stdout.readline()]
        ranks = [pid for pid in descendants(process.pid) if b"resume_training" in cmdline(pid)]
        os.kill(ranks[-1], signal.SIGTERM)
        lines += process.stdout.readlines()
        assert process.wait(60) == 0
    steps = sorted(steps_of(lines))
    assert [step for rank, step in steps if rank == 0] == [step for rank, step in steps if rank == 1]
    assert not any("finished" in line for line in lines)


def cmdline(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()
