"""Decides which test runs when.

| tier | command | what runs |
|---|---|---|
| test | `make test` | a few cases of each test function, chosen pairwise; smoke cases of the slow suites |
| ci | `make test-all`, `.ci/run` | the test tier, more or all cases of each function, the slow suites |
| weekly | `make weekly` | the cases beyond the limits of ci, other compilers, processors and builds |
| all | pytest by itself | everything |
| campaign | `make campaign` | cases made from seeds, for as long as you like; also the cases beyond the limits |

The test tier is part of ci, and each case is in exactly one of ci and weekly. `SUITES` has a row for each folder of
tests; a folder without one ends the collection with an error. Files run in the order of the rows.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
TIERS = ("test", "ci", "weekly", "all")


@dataclass(frozen=True)
class Suite:
    """How much of a folder of tests runs.

    Attributes:
        is_smoke: Whether `make test` takes the cases marked `smoke` alone; else it takes all but those marked `slow`.
        test: Most cases of one function in `make test`.
        ci: Most cases of one function in ci, or None for all.
    """

    is_smoke: bool = False
    test: int = 6
    ci: int | None = None


# The fast suites come first, so that a mistake shows soon, then those that compile or wait, then the rest. A case of
# loader, contract, state and verify takes several times as long as one of another folder, hence their lower limit.
SUITES = {
    "tests/unit": Suite(),
    "tests/architecture": Suite(),
    "tests/oracle": Suite(),
    "tests/cpp": Suite(is_smoke=True),
    "tests/packaging": Suite(is_smoke=True),
    "tests/environments": Suite(is_smoke=True),
    "tests/examples": Suite(is_smoke=True),
    "tests/faults": Suite(is_smoke=True, ci=24),
    "tests/frameworks": Suite(is_smoke=True),
    "benchmarks/tests": Suite(is_smoke=True),
    "tests/cache_command": Suite(),
    "tests/cached": Suite(),
    "tests/contract": Suite(test=4, ci=24),
    "tests/device": Suite(),
    "tests/images": Suite(),
    "tests/loader": Suite(test=4, ci=24),
    "tests/processes": Suite(),
    "tests/quarantine": Suite(ci=24),
    "tests/state": Suite(test=4, ci=24),
    "tests/verify": Suite(test=4),
    "tests/worker_state": Suite(ci=24),
}


def choose_pairwise(cases: Sequence[tuple[int, ...]], most: int, chosen: Sequence[int] = ()) -> list[int]:
    """Returns positions of at most `most` of `cases`, so that every two parameters meet in as many values as possible.

    Args:
        cases: The positions of the values of each case's parameters.
        most: At least 1 and the number of `chosen`.
        chosen: Positions that are in the result in any case.
    """

    def pairs(case: tuple[int, ...]) -> set[Any]:
        return {*enumerate(case), *itertools.combinations(enumerate(case), 2)}

    if len(cases) <= most:
        return list(range(len(cases)))
    # Evenly spread cases come first: they win where several bring as many new pairs.
    order = [number * (len(cases) - 1) // (most - 1 or 1) for number in range(most)]
    order += sorted(set(range(len(cases))) - set(order))
    found = list(chosen)
    seen: set[Any] = set().union(*(pairs(cases[position]) for position in found))
    while len(found) < most:
        best = max(
            (position for position in order if position not in found), key=lambda at: len(pairs(cases[at]) - seen)
        )
        found.append(best)
        seen |= pairs(cases[best])
    return sorted(found)


def folder_of(path: Path) -> str:
    """Returns the key of a test file in SUITES. Raises UsageError where its folder has none."""
    folder = path.relative_to(ROOT).parent.as_posix()
    if folder not in SUITES:
        raise pytest.UsageError(f"{path.relative_to(ROOT)}: {folder} has no tier; give it one in tests/tiers.py")
    return folder


def suite_of(path: Path) -> Suite:
    return SUITES[folder_of(path)]


def is_for_test(item: pytest.Item) -> bool:
    """Returns whether `make test` may run a case."""
    if suite_of(item.path).is_smoke:
        return has_marker(item, "smoke") and not has_marker(item, "gpu", "weekly")
    return not has_marker(item, "slow", "gpu", "weekly")


def has_marker(item: pytest.Item, *names: str) -> bool:
    return any(item.get_closest_marker(name) is not None for name in names)


def values_of(item: pytest.Item) -> tuple[int, ...]:
    return tuple(item.callspec.indices.values()) if hasattr(item, "callspec") else ()


def chosen_cases(items: Iterable[pytest.Item]) -> tuple[set[pytest.Item], set[pytest.Item]]:
    """Returns the cases of the tiers test and ci among `items`, which must be all cases that there are."""
    functions: dict[Any, list[pytest.Item]] = defaultdict(list)
    for item in items:
        functions[item.path, getattr(item, "originalname", item.name), str(getattr(item, "cls", None))].append(item)
    test, ci = set(), set()
    for cases in functions.values():
        suite = suite_of(cases[0].path)
        candidates = [case for case in cases if is_for_test(case)]
        first = {candidates[at] for at in choose_pairwise([*map(values_of, candidates)], suite.test)}
        cases = [case for case in cases if not has_marker(case, "weekly")]
        positions = [at for at, case in enumerate(cases) if case in first]
        most = len(cases) if suite.ci is None else suite.ci
        test |= first
        ci |= {cases[at] for at in choose_pairwise([*map(values_of, cases)], most, positions)}
    return test, ci


def select(tier: str, items: list[pytest.Item], deselected: Callable[[list[pytest.Item]], Any]) -> None:
    """Removes from `items` what is not in the tier, and sorts them by the rows of SUITES."""
    if tier not in TIERS:
        raise pytest.UsageError(f"--tier must be one of {', '.join(TIERS)}, got {tier!r}")
    test, ci = chosen_cases(items)
    every = set(items)
    kept = {"test": test, "ci": ci, "weekly": every - ci, "all": every}[tier]
    if left := [item for item in items if item not in kept]:
        deselected(left)
    folders = list(SUITES)
    items[:] = sorted((item for item in items if item in kept), key=lambda item: folders.index(folder_of(item.path)))
