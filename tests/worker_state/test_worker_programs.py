"""Users' programs give the same with fastload's workers as with torch's forked workers, to the byte."""

from __future__ import annotations

import functools
import random
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from both_loaders import Processes, Threads
from draw_programs import DRAWS, RECIPES
from program import Transformed, difference, run
from python_part_loader import torch_loader

pytestmark = pytest.mark.filterwarnings("ignore")

PROGRAMS = {**DRAWS, **RECIPES}
# The measure is torch's loader with forked workers: a program is here only where two runs of that are equal.
ARGUMENTS: dict[str, dict[str, Any]] = {
    "2 workers": {"num_workers": 2},
    "2 persistent workers": {"num_workers": 2, "persistent_workers": True},
    "1 worker": {"num_workers": 1},
    "4 persistent workers": {"num_workers": 4, "persistent_workers": True, "prefetch_factor": 1},
    "no workers": {"num_workers": 0},
}
NUM_GROUPS = 5


@functools.cache
def torchs(name: str, arguments: str) -> dict[str, Any]:
    """Returns what a program gives with torch's loader; run once per session."""
    PROGRAMS[name]()  # imports its packages: some draw when they are imported
    return run(torch_loader, PROGRAMS[name], **ARGUMENTS[arguments])


def assert_torchs(name: str, arguments: str) -> None:
    """Asserts that a program gives what it gives with torch's workers, without a warning."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for kind in (Processes, Threads):
            found = difference(torchs(name, arguments), run(kind, PROGRAMS[name], **ARGUMENTS[arguments]))
            assert found is None, (name, arguments, found)
    assert [str(warning.message) for warning in caught if "fastload" in str(warning.message)] == []


def assert_case(seed: int) -> None:
    """Runs all programs with all arguments in turn; torch's own loader repeats them."""
    name = list(PROGRAMS)[seed % len(PROGRAMS)]
    arguments = list(ARGUMENTS)[seed // len(PROGRAMS) % len(ARGUMENTS)]
    assert_torchs(name, arguments)
    again = run(torch_loader, PROGRAMS[name], **ARGUMENTS[arguments])
    assert difference(torchs(name, arguments), again) is None, "torch's own loader does not repeat it"


@pytest.mark.parametrize(
    "group", [pytest.param(group, marks=pytest.mark.slow if group >= 2 else ()) for group in range(NUM_GROUPS)]
)
def test_programs_give_the_batches_of_torchs_workers(group: int) -> None:
    """The others of a program's arguments are left to the campaign."""
    for number in range(group, len(DRAWS), NUM_GROUPS):
        assert_torchs(list(DRAWS)[number], list(ARGUMENTS)[(number // NUM_GROUPS + group) % len(ARGUMENTS)])


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if "timm" in name else ()) for name in RECIPES]
)
def test_recipes_give_the_batches_of_torchs_workers(name: str) -> None:
    assert_torchs(name, "2 persistent workers")


@pytest.mark.parametrize("where", ["batches", "generators"])
def test_a_difference_is_seen_wherever_it_is(where: str) -> None:
    """The comparison itself: a program that gives something else in its second run."""
    steps: Iterator[int] = iter(range(100))

    def build() -> Any:
        run_number = next(steps)
        for _ in range(run_number * (where == "generators")):
            random.random()
        return Transformed(lambda _: run_number * (where == "batches"))

    found = difference(*(run(torch_loader, build, num_workers=0) for _ in range(2)))
    assert found is not None
    expected = {"batches": "batches of epoch 0", "generators": "the program's state of random"}
    assert found.startswith(expected[where])
