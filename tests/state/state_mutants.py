"""States with changes, for loaders that must refuse them or load them as they are."""

from __future__ import annotations

import contextlib
import copy
import random
import warnings
from collections.abc import Iterator
from typing import Any

import fastload

VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, 2, 3, 5, 8, -1, 7, 2**31, 2**63 - 1, 2**63, 2**64 - 1, 2**64, 10**30, -(2**70)),
    *(0.0, 1.5, float("nan"), float("inf"), "", "a", "torch", "sample", "native", "fixed", "random", "asked again"),
    *("stateful", "in an epoch", "between epochs", "not begun", "\ud800", "é" * 3340, b"", b"torch", object()),
    *([], [1], ["a"], [0, 1], [[]], {}, {"a": 1}, {1: 2}, (), (1, 2), {1}, 3 + 0j),
)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yields the path of every entry of a state's dicts and lists."""
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, inner in entries:
        yield (*path, name)
        yield from places(inner, (*path, name))


def changed_text(choose: random.Random, text: str) -> str:
    """Returns `text` with a character changed, dropped or added, cut short, or with numbers that are too large."""
    at = choose.randrange(len(text) + 1)
    how = choose.randrange(5)
    if how == 0:
        return text[:at] + choose.choice("AZaz09+/=!\n é") + text[at + 1 :]
    if how == 1:
        return text[:at] + text[at + 1 :]
    if how == 2:
        return text[:at] + choose.choice("A/=") + text[at:]
    if how == 3:
        return text[:at]
    return text[: max(0, len(text) - 12)] + "".join(choose.choices("AQ/+9", k=min(12, len(text))))


def some_value(choose: random.Random) -> Any:
    value = choose.choice(VALUES)
    return copy.deepcopy(value) if isinstance(value, (list, dict)) else value


def mutant(state: dict[str, Any], seed: int) -> dict[str, Any]:
    """Returns `state` with one to three changes."""
    choose = random.Random(seed)
    changed = copy.deepcopy(state)
    for _ in range(choose.choice([1, 1, 1, 2, 3])):
        found = list(places(changed))
        ours = [path for path in found if path[0] == "fastload"]
        path = choose.choice(ours if ours and choose.random() < 0.8 else found or [("fastload",)])
        holder: Any = changed
        for name in path[:-1]:
            holder = holder[name]
        last = path[-1]
        old = holder[last] if isinstance(holder, list) or last in holder else None
        how = choose.randrange(6)
        if how == 0:
            del holder[last]
        elif how == 1 and isinstance(old, str):
            holder[last] = changed_text(choose, old)
        elif how == 2 and type(old) is int:
            holder[last] = old + choose.choice([-1, 1, 2, 100, 2**32, 2**63, 2**64])
        elif how == 3 and isinstance(holder, dict):
            holder[choose.choice(["more", 7, "seed", "draws", "generator", "program"])] = some_value(choose)
        else:
            holder[last] = some_value(choose)
    return changed


def count_loaded(loader: Any, state: dict[str, Any], num_mutants: int, sample_errors: tuple[Any, ...] = ()) -> int:
    """Returns how many mutants were loaded and gave a batch; asserts that only StateError refuses the others."""
    num_loaded = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(num_mutants):
            try:
                loader.load_state_dict(mutant(state, seed), strict=seed % 2 == 0)
                with contextlib.suppress(*sample_errors):
                    next(iter(loader), None)
                num_loaded += 1
            except fastload.StateError as error:
                assert error.field  # noqa: PT017 - and no other error
    return num_loaded
