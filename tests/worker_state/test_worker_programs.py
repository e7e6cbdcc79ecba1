"""Users' programs give the same with fastload's workers as with torch's forked workers, to the byte."""

from __future__ import annotations

import functools
import random
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from both_loaders import Processes, Threads
from draw_programs import DRAWS
from epoch_programs import EPOCHS
from program import NUM_EPOCHS, Setting, Transformed, difference, run
from python_part_loader import torch_loader

pytestmark = pytest.mark.filterwarnings("ignore")

# The measure is torch's loader with forked workers: a program is here only where two runs of that are equal.
PROGRAMS = {**DRAWS, **EPOCHS}
ARGUMENTS: dict[str, dict[str, Any]] = {
    "2 workers": {"num_workers": 2},
    "2 persistent workers": {"num_workers": 2, "persistent_workers": True},
    "1 worker": {"num_workers": 1},
    "4 persistent workers": {"num_workers": 4, "persistent_workers": True, "prefetch_factor": 1},
    "no workers": {"num_workers": 0},
}
# Programs that are not as with torch's persistent workers, with the reason, which docs/dataloader-contract.md has, too.
DEVIATIONS_OF_PERSISTENT = {
    "an_init_function_that_raises": "the error of worker_init_fn is told in every epoch, by torch in one"
}
NUM_GROUPS = 8


@functools.cache
def torchs(name: str, arguments: str) -> dict[str, Any]:
    """Returns what a program gives with torch's loader; run once per session."""
    return run(torch_loader, PROGRAMS[name], **ARGUMENTS[arguments])


def assert_torchs(name: str, arguments: str) -> None:
    """Asserts that a program gives what it gives with torch's workers, without a warning."""
    if name in DEVIATIONS_OF_PERSISTENT and ARGUMENTS[arguments].get("persistent_workers", False):
        return
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for kind in [Processes, Threads] if name in DRAWS else [Processes]:
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
    "group", [pytest.param(group, marks=pytest.mark.slow if group >= 3 else ()) for group in range(NUM_GROUPS)]
)
def test_programs_give_the_batches_of_torchs_workers(group: int) -> None:
    """The others of a program's arguments are left to the campaign."""
    for number in range(group, len(PROGRAMS), NUM_GROUPS):
        assert_torchs(list(PROGRAMS)[number], list(ARGUMENTS)[number % len(ARGUMENTS)])


@pytest.mark.slow
@pytest.mark.parametrize("name", DEVIATIONS_OF_PERSISTENT)
def test_what_is_told_to_be_otherwise_of_persistent_workers_is_so(name: str) -> None:
    """A program that is no longer otherwise is to lose its row."""
    arguments = "2 persistent workers"
    assert difference(torchs(name, arguments), run(Processes, PROGRAMS[name], **ARGUMENTS[arguments])) is not None


@pytest.mark.parametrize("where", ["batches", "objects", "generators"])
def test_a_difference_is_seen_wherever_it_is(where: str) -> None:
    """The comparison itself: a program that gives something else in its second run."""
    steps: Iterator[int] = iter(range(100))

    def build() -> Any:
        run_number = next(steps)
        values = {name: run_number if name == where else 0 for name in ("batches", "objects", "generators")}

        def before(_epoch: int) -> None:
            for _ in range(values["generators"]):
                random.random()

        return Setting(Transformed(lambda _: values["batches"]), {}, before, lambda: values["objects"])

    first, second = run(torch_loader, build, num_workers=0), run(torch_loader, build, num_workers=0)
    found = difference(first, second)
    assert found is not None
    expected = {
        "batches": "batches of epoch 0",
        "objects": "the program's objects after epoch 0",
        "generators": "the program's state of random",
    }
    assert found.startswith(expected[where])
    assert len(first) == 2 * NUM_EPOCHS + 3
