"""Users' programs give the same with fastload's workers as with torch's forked workers, to the byte."""

from __future__ import annotations

import functools
import random
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from both_loaders import Processes, Threads
from program import NUM_EPOCHS, Program, Setting, Transformed, difference, run
from python_part_loader import torch_loader
from worker_programs import CHAPTERS, DEVIATIONS_OF_PERSISTENT, OF_THREADS, PROGRAMS, chosen

pytestmark = pytest.mark.filterwarnings("ignore")


ARGUMENTS: dict[str, dict[str, Any]] = {
    "2 workers": {"num_workers": 2},
    "2 persistent workers": {"num_workers": 2, "persistent_workers": True},
    "1 worker": {"num_workers": 1},
    "4 persistent workers": {"num_workers": 4, "persistent_workers": True, "prefetch_factor": 1},
    "no workers": {"num_workers": 0},
}


@functools.cache
def torchs(name: str, arguments: str) -> dict[str, Any]:
    """Returns what a program gives with torch's loader; run once per session."""
    return run(torch_loader, PROGRAMS[name], **ARGUMENTS[arguments])


def differences(programs: list[Program], arguments: str, run_again: Callable[[Program], dict[str, Any]]) -> list[str]:
    """Returns a line for each installed program that gives something else than with torch's loader."""
    found = []
    for program in programs:
        if not program.is_installed:
            continue
        different = difference(torchs(program.name, arguments), run_again(program))
        if different is not None:
            found.append(f"{program.name} ({program.about}) {different}")
    return found


def fastloads(arguments: str, kind: Any = Processes) -> Callable[[Program], dict[str, Any]]:
    return lambda program: run(kind, program, **ARGUMENTS[arguments])


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_programs_give_the_batches_of_torchs_workers(chapter: str) -> None:
    for kind in kinds_of(chapter):
        assert differences(chosen(chapter), "2 workers", fastloads("2 workers", kind)) == []


def kinds_of(chapter: str) -> list[Any]:
    return [Processes, Threads] if chapter in OF_THREADS else [Processes]


def assert_torchs(name: str, arguments: str) -> None:
    """Asserts that a program gives what it gives with torch's workers, without a warning. Skips missing packages."""
    for package in PROGRAMS[name].needs:
        pytest.importorskip(package)
    if name in DEVIATIONS_OF_PERSISTENT and ARGUMENTS[arguments].get("persistent_workers", False):
        pytest.skip(DEVIATIONS_OF_PERSISTENT[name])
    (chapter,) = [chapter for chapter, programs in CHAPTERS.items() if name in programs]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for kind in kinds_of(chapter):
            assert differences([PROGRAMS[name]], arguments, fastloads(arguments, kind)) == []
    assert [str(warning.message) for warning in caught if "fastload" in str(warning.message)] == []


def assert_case(seed: int) -> None:
    """Runs all programs with all arguments in turn; torch's own loader repeats them."""
    name = list(PROGRAMS)[seed % len(PROGRAMS)]
    arguments = list(ARGUMENTS)[seed // len(PROGRAMS) % len(ARGUMENTS)]
    try:
        assert_torchs(name, arguments)
    except pytest.skip.Exception:
        return
    again = run(torch_loader, PROGRAMS[name], **ARGUMENTS[arguments])
    assert difference(torchs(name, arguments), again) is None, "torch's own loader does not repeat it"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "arguments"), [(name, list(ARGUMENTS)[number % len(ARGUMENTS)]) for number, name in enumerate(PROGRAMS)]
)
def test_a_program_gives_the_batches_of_torchs_workers(name: str, arguments: str) -> None:
    """The others of its arguments are left to the campaign."""
    assert_torchs(name, arguments)


@pytest.mark.slow
@pytest.mark.parametrize("name", DEVIATIONS_OF_PERSISTENT)
def test_what_is_told_to_be_otherwise_of_persistent_workers_is_so(name: str) -> None:
    """A program that is no longer otherwise is to lose its row."""
    arguments = "2 persistent workers"
    assert len(differences([PROGRAMS[name]], arguments, fastloads(arguments))) == 1


def test_there_are_programs_of_every_kind_and_each_says_what_it_depends_on() -> None:
    assert len(PROGRAMS) == sum(map(len, CHAPTERS.values())) >= 58
    assert sum(len(chosen(chapter)) for chapter in CHAPTERS) >= 35
    assert all(program.about and "\n" not in program.about for program in PROGRAMS.values())


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

    program = Program("changing", "", build)
    first, second = run(torch_loader, program, num_workers=0), run(torch_loader, program, num_workers=0)
    found = difference(first, second)
    assert found is not None
    expected = {
        "batches": "batches of epoch 0",
        "objects": "the program's objects after epoch 0",
        "generators": "the program's state of random",
    }
    assert found.startswith(expected[where])
    assert len(first) == 2 * NUM_EPOCHS + 3
