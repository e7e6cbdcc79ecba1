"""Which test runs when.

| tier | command | what |
|---|---|---|
| test | `make test` | of every test function at most six cases, chosen pairwise; smoke cases of the slow suites |
| rest | `make test-all`, behind `make test` | the other cases, the whole of the slow suites, what needs a GPU |
| campaign | `make campaign` | loops that go on for as long as one likes; each run is a line in tests/campaigns.md |

Every case is in one tier: `SUITES` says of each folder of tests what `make test` takes of it, and a folder that is not
there ends the collection with an error.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
TIERS = ("test", "rest", "all")
MAX_CASES = 6

# Folder of tests -> what `make test` takes of it: "cases", a choice of every function's cases; "smoke", what is marked
# so. The others are left to `make test-all`.
SUITES = {
    "tests/architecture": "cases",
    "tests/cache_command": "cases",
    "tests/cached": "cases",
    "tests/contract": "cases",
    "tests/cpp": "smoke",
    "tests/device": "cases",
    "tests/environments": "smoke",
    "tests/examples": "smoke",
    "tests/faults": "smoke",
    "tests/frameworks": "smoke",
    "tests/images": "cases",
    "tests/loader": "cases",
    "tests/oracle": "cases",
    "tests/packaging": "smoke",
    "tests/quarantine": "cases",
    "tests/state": "cases",
    "tests/unit": "cases",
    "tests/verify": "cases",
    "tests/worker_state": "cases",
    "benchmarks/tests": "smoke",
}


def choose_pairwise(cases: Sequence[tuple[int, ...]], most: int) -> list[int]:
    """Positions of at most `most` of `cases`, so that every two parameters meet in as many values as possible.

    Args:
        cases: Of each the positions of its parameters' values.
        most: At least 1.
    """

    def pairs(case: tuple[int, ...]) -> set[Any]:
        return {*enumerate(case), *itertools.combinations(enumerate(case), 2)}

    if len(cases) <= most:
        return list(range(len(cases)))
    # Where several bring as many new pairs, those that lie evenly among the cases.
    order = [number * (len(cases) - 1) // (most - 1 or 1) for number in range(most)]
    order += [position for position in range(len(cases)) if position not in order]
    chosen: list[int] = []
    seen: set[Any] = set()
    while len(chosen) < most:
        best = max(
            (position for position in order if position not in chosen), key=lambda at: len(pairs(cases[at]) - seen)
        )
        chosen.append(best)
        seen |= pairs(cases[best])
    return sorted(chosen)


def suite_of(path: Path) -> str:
    """What `make test` takes of a test file. Raises UsageError: its folder is in no tier."""
    folder = path.relative_to(ROOT).parent.as_posix()
    if folder not in SUITES:
        raise pytest.UsageError(f"{path.relative_to(ROOT)}: {folder} has no tier; give it one in tests/tiers.py")
    return SUITES[folder]


def smallest_tier(items: Iterable[pytest.Item]) -> set[pytest.Item]:
    """Those of `items`, which are all that there are, that `make test` runs."""
    functions: dict[Any, list[pytest.Item]] = defaultdict(list)
    chosen: set[pytest.Item] = set()
    for item in items:
        unless = ("slow", "gpu") if suite_of(item.path) == "cases" else ("gpu",)
        is_wanted = suite_of(item.path) == "cases" or item.get_closest_marker("smoke") is not None
        if is_wanted and not any(map(item.get_closest_marker, unless)):
            functions[item.path, getattr(item, "originalname", item.name), str(getattr(item, "cls", None))].append(item)
    for cases in functions.values():
        values = [tuple(case.callspec.indices.values()) if hasattr(case, "callspec") else () for case in cases]
        chosen |= {cases[position] for position in choose_pairwise(values, MAX_CASES)}
    return chosen


def select(tier: str, items: list[pytest.Item], deselected: Callable[[list[pytest.Item]], Any]) -> None:
    """Leaves those of `items` that are in the tier."""
    if tier not in TIERS:
        raise pytest.UsageError(f"--tier must be one of {', '.join(TIERS)}, got {tier!r}")
    smallest = smallest_tier(items)
    if tier == "all":
        return
    kept = [item for item in items if (item in smallest) == (tier == "test")]
    deselected([item for item in items if (item in smallest) != (tier == "test")])
    items[:] = kept
