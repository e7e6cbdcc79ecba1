"""Checks of states that hold for every kind of loader, and the cases in which they are made."""

from __future__ import annotations

import contextlib
import copy
import hashlib
import itertools
import json
import random
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiers
import torch
from resumed_runs import Case, batch_of, run_through, seed_program, set_program_states

import fastload


def state_after_first(loader: Any) -> dict[str, Any]:
    """Returns the state after the first batch."""
    iterator = iter(loader)
    next(iterator)
    state: dict[str, Any] = loader.state_dict()
    return state


def field_refused(loader: Any, state: dict[str, Any]) -> str:
    """Returns the field that load_state_dict(), or iter() after it, names."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            loader.load_state_dict(state)
            iter(loader)
    except fastload.StateError as error:
        return error.field
    pytest.fail("the state was loaded")


def assert_resumed_states_are_as_good(case: Case, folder: Path) -> None:
    """Asserts that a state that JSON has kept, of each loader that resumes for one batch, continues the run."""
    stopped = run_through(case.make_loader(folder), case)
    rest, state = [], stopped.state
    for _ in range(len(stopped.rest[0])):
        seed_program(999)
        loader = case.make_loader(folder)
        loader.load_state_dict(json.loads(json.dumps(state)))
        rest.append(batch_of(*next(iter(loader))))
        state = loader.state_dict()
    assert rest == stopped.rest[0]
    set_program_states(stopped.program)
    loader = case.make_loader(folder)
    loader.load_state_dict(state)
    assert [batch_of(*batch) for batch in loader] == stopped.rest[1]


CHILD = """
import hashlib, json, sys, warnings
from pathlib import Path
import repository_path, torchvision_shim
sys.path.insert(0, {tests!r})
from python_runs import PythonCase
from resumed_runs import *
from stream_runs import StreamCase, rest_of

warnings.simplefilter("ignore")
loader = {case!r}.make_loader(Path({folder!r}))
state = torch.load("state.pt", weights_only=True) if {is_torchs} else json.loads(Path("state.json").read_text())
loader.load_state_dict(state)
print(hashlib.sha256(repr(rest_of(iter(loader))).encode()).hexdigest())
"""


def assert_another_process_goes_on(
    run_child: Any, case: Any, stopped: Any, folder: Path, here: Path, *, is_torchs: bool = True
) -> None:
    """Asserts that a child in the folder `here` gives the rest of the epoch, from a state in a file."""
    torch.save(stopped.state, here / "state.pt")
    (here / "state.json").write_text(json.dumps(stopped.state))
    tests = str(Path(__file__).parent)
    code = CHILD.format(case=case, folder=str(folder), is_torchs=is_torchs, tests=tests)
    child = run_child(code, warm=True, timeout=120)
    assert child.stdout.strip() == hashlib.sha256(repr(stopped.rest[0]).encode()).hexdigest()


Axes = tuple[tuple[Any, ...], ...]


def numbered(axes: Axes, number: int) -> list[Any]:
    """Returns each combination of the axes' values, in an order in which neighbours differ."""
    sizes = [len(axis) for axis in axes]
    number = number * 1_000_003 % int(np.prod(sizes))  # the factor has no divisor in common with it
    return [axis[at] for axis, at in zip(axes, np.unravel_index(number, sizes), strict=True)]


def pairwise(axes: Axes, seed: int, count: int) -> list[list[Any]]:
    """Returns combinations in which every two axes meet in nearly all of their values."""
    product = [tuple(positions) for positions in itertools.product(*(range(len(axis)) for axis in axes))]
    some = random.Random(seed).sample(product, 400)
    chosen = [some[position] for position in tiers.choose_pairwise(some, count)]
    return [[axis[at] for axis, at in zip(axes, positions, strict=True)] for positions in chosen]


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
