"""Systems that refuse shared memory, or have little of it: batches are the same, and no worker dies."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from children import RunChild
from flat_values import flat
from numbered import Numbered
from refused_calls import refuse_memfd, skip_unless, with_shared_memory_of

import fastload


class Images(Numbered):
    """Samples of 250 KB."""

    def __init__(self) -> None:
        super().__init__(16)

    def sample(self, index: int) -> Any:
        return torch.full((250, 250), float(index)), index


def _shared_files() -> set[str]:
    return {path.name for path in Path("/dev/shm").glob("fastload*")}


def compare_epochs(method: str, *, is_refused: bool = True, populates: bool = True) -> None:
    """Compares two epochs with batches that were made here; in a child of the test.

    Prints whether the calls were refused, and the warnings.
    """
    print(refuse_memfd(populates=populates) if is_refused else True)
    before = _shared_files()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        loader = fastload.DataLoader(
            Images(), 4, num_workers=2, workers="processes", multiprocessing_context=method, persistent_workers=True
        )
        expected = flat(list(torch.utils.data.DataLoader(Images(), 4)))
        for _ in range(2):
            batches = []
            for batch in loader:
                batches.append(batch)
                assert _shared_files() == before
            assert flat(batches) == expected
    for one in caught:
        print(one.message)


def _code(arguments: str) -> str:
    return f"""
        from processes.test_restricted_systems import compare_epochs
        if __name__ == "__main__":
            compare_epochs({arguments})
    """


@pytest.mark.parametrize(
    "method", ["fork", *(pytest.param(method, marks=pytest.mark.slow) for method in ("spawn", "forkserver"))]
)
def test_without_memfd_batches_are_the_same(run_child: RunChild, method: str) -> None:
    is_accepted, *texts = run_child(_code(f"{method!r}")).stdout.splitlines()
    skip_unless(is_accepted)
    assert len(texts) == (method != "fork")
    assert all("because memfd_create is refused here, and /dev/shm has" in text for text in texts)


@pytest.mark.parametrize(
    ("kib", "populates"),
    [
        (0, True),
        (1024, True),
        (64, False),
        *(
            pytest.param(kib, populates, marks=pytest.mark.slow)
            for kib, populates in [(0, False), (1024, False), (64, True), (3000, True), (3000, False)]
        ),
    ],
)
def test_a_full_shared_memory_ends_no_worker(run_child: RunChild, tmp_path: Path, kib: int, populates: bool) -> None:
    """A batch has 1 MB. tmpfs takes a size of 0 for no limit, so one of 4 KiB stands for it."""
    script = tmp_path / "script.py"
    script.write_text(_code(f"'spawn', populates={populates}").replace("\n        ", "\n"))
    command = [*with_shared_memory_of(max(4, kib)), sys.executable, str(script)]
    result = run_child(f"import os; os.execvp({command[0]!r}, {command!r})")
    is_accepted, *texts = result.stdout.splitlines()
    skip_unless(is_accepted)
    assert len(texts) == 1
    assert f"/dev/shm has {kib >> 10} MiB" in texts[0]


def test_a_small_shared_memory_makes_no_difference_otherwise(run_child: RunChild, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(_code("'fork', is_refused=False").replace("\n        ", "\n"))
    command = [*with_shared_memory_of(1024), sys.executable, str(script)]
    assert run_child(f"import os; os.execvp({command[0]!r}, {command!r})").stdout == "True\n"
