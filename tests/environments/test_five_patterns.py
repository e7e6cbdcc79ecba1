"""Five programs that torch's workers cannot run; each fails there and gives torch's own batches here."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

import pytest
from children import RunChild
from notebook_kernel import Notebook

PRELUDE = """
import multiprocessing
import os
import re
import zipfile

import torch
from torch.utils.data import Dataset

import fastload


def problem_of(run):
    try:
        run()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    raise AssertionError("nothing was raised")


def are_equal(found, expected):
    return len(found) == len(expected) and all(map(torch.equal, found, expected))


class Numbers(Dataset):
    def __init__(self, transform):
        self.transform = transform

    def __len__(self):
        return 12

    def __getitem__(self, index):
        return self.transform(torch.tensor(index))


def by_torch(dataset, **arguments):
    return list(torch.utils.data.DataLoader(dataset, batch_size=4, **arguments))


def by_fastload(dataset, **arguments):
    return list(fastload.DataLoader(dataset, batch_size=4, workers="threads", **arguments))
"""


# Code that makes a data set which cannot be pickled, and torch's words.
UNPICKLABLE = {
    "a lambda transform": ("dataset = Numbers(lambda number: number * number)", "pickle.*lambda"),
    "a handle in the dataset": (
        """
class Archive(Dataset):
    def __init__(self, path):
        self.archive = zipfile.ZipFile(path)
        self.names = self.archive.namelist()

    def __len__(self):
        return len(self.names)

    def __getitem__(self, index):
        return torch.frombuffer(bytearray(self.archive.read(self.names[index])), dtype=torch.uint8)

with zipfile.ZipFile("images.zip", "w") as archive:
    for number in range(12):
        archive.writestr(f"{number}.raw", os.urandom(3000))
dataset = Archive("images.zip")
""",
        "^TypeError: cannot pickle",
    ),
}


@pytest.mark.parametrize("name", UNPICKLABLE)
def test_what_cannot_be_pickled_under_spawn(run_child: RunChild, name: str) -> None:
    code, words = UNPICKLABLE[name]
    run_child(
        PRELUDE
        + code
        + textwrap.dedent(f"""
        arguments = {{"num_workers": 2, "multiprocessing_context": "spawn"}}
        problem = problem_of(lambda: by_torch(dataset, **arguments))
        assert re.search({words!r}, problem), problem
        assert are_equal(by_fastload(dataset, **arguments), by_torch(dataset))
        """),
        timeout=60,
    )


def test_a_daemonic_parent(run_child: RunChild) -> None:
    run_child(
        PRELUDE
        + textwrap.dedent("""
        def load(dataset, results):
            problem = problem_of(lambda: by_torch(dataset, num_workers=2))
            assert problem == "AssertionError: daemonic processes are not allowed to have children", problem
            results.put([batch.tolist() for batch in by_fastload(dataset, num_workers=2)])

        dataset = Numbers(lambda number: number + 5)
        context = multiprocessing.get_context("fork")
        results = context.SimpleQueue()
        process = context.Process(target=load, args=(dataset, results), daemon=True)
        process.start()
        process.join()
        assert process.exitcode == 0
        assert results.get() == [batch.tolist() for batch in by_torch(dataset)]
        """),
        timeout=60,
    )


def test_a_class_of_the_notebook_under_spawn(notebook: Notebook) -> None:
    notebook.run(PRELUDE)
    notebook.run("dataset, arguments = Numbers(torch.square), {'num_workers': 2, 'multiprocessing_context': 'spawn'}")
    problem = notebook.run("by_torch(dataset, **arguments)")
    assert problem.startswith("RuntimeError: DataLoader worker (pid(s)"), problem
    assert "exited unexpectedly" in problem
    assert notebook.run("print(are_equal(by_fastload(dataset, **arguments), by_torch(dataset)))") == "True\n"


def test_batches_larger_than_a_dev_shm_of_64_mb(
    run_child: RunChild, small_shared_memory: list[str], tmp_path: Path
) -> None:
    """A batch of 4 is 4 x 30 x 400 x 400 float32: 77 MB."""
    script = tmp_path / "script.py"
    script.write_text(
        PRELUDE
        + textwrap.dedent("""
        dataset = Numbers(lambda number: torch.full((30, 400, 400), float(number)))
        size = os.statvfs("/dev/shm")
        assert size.f_blocks * size.f_frsize == 64 << 20
        for found, expected in zip(fastload.DataLoader(dataset, 4, num_workers=2), by_torch(dataset), strict=True):
            assert torch.equal(found, expected)
            assert os.listdir("/dev/shm") == []
        problem = problem_of(lambda: by_torch(dataset, num_workers=2))
        torchs_words = "No space left", "shared memory", "Bus error", "exited unexpectedly"
        assert any(words in problem for words in torchs_words), problem
        """),
    )
    command = [*small_shared_memory, sys.executable, str(script)]
    run_child(f"import os; os.execvp({command[0]!r}, {command!r})", timeout=40)
