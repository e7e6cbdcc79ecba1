"""Checks of states that hold for every kind of loader, and the cases in which they are made."""

from __future__ import annotations

import hashlib
import itertools
import json
import random
import warnings
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
