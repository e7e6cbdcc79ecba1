"""A small program of a user's, and all that can be seen of it from outside."""

from __future__ import annotations

import gc
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from flat_values import flat, words
from numbered import Numbered

NUM_EPOCHS = 3


@dataclass
class Setting:
    """The parts of a program.

    Attributes:
        dataset: The loader's data set.
        arguments: The loader's arguments; `batch_size` is 4 unless given.
    """

    dataset: Any
    arguments: dict[str, Any] = field(default_factory=dict)


# Makes everything anew: a Setting, or a data set alone.
Program = Callable[[], Any]


class Transformed(Numbered):
    """Sample i is i and transform(i)."""

    def __init__(self, transform: Callable[[int], Any]) -> None:
        super().__init__()
        self.transform = transform

    def sample(self, index: int) -> Any:
        return index, self.transform(index)


def seed_all(seed: int) -> None:
    """Seeds the program's three generators."""
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def states() -> dict[str, Any]:
    """Returns the states of the program's three generators."""
    return {
        "random": random.getstate(),
        "NumPy": flat(np.random.get_state()),
        "torch": torch.get_rng_state().numpy().tobytes(),
    }


def batches(loader: Any) -> list[Any]:
    """Returns all batches of an epoch as values that == compares, up to the first error, and the error."""
    found: list[Any] = []
    try:
        for batch in loader:
            found.append(flat(batch))
    except Exception as error:  # noqa: BLE001 - what is raised is what is compared
        found.append(words(error))
        gc.collect()  # an iterator of torch that has raised is in a cycle, which keeps its workers alive
    return found


def run(kind: Callable[..., Any], program: Program, **arguments: Any) -> dict[str, Any]:
    """Returns all that a program with a class of loaders shows, by name and in the order in which it shows."""
    seed_all(5)
    made = program()
    setting = made if isinstance(made, Setting) else Setting(made)
    loader = kind(setting.dataset, **{"batch_size": 4, **setting.arguments, **arguments})
    seen = {f"batches of epoch {epoch}": batches(loader) for epoch in range(NUM_EPOCHS)}
    return seen | {f"the program's state of {name}": state for name, state in states().items()}


def difference(expected: dict[str, Any], found: dict[str, Any]) -> str | None:
    """Returns the first difference between two runs, or None."""
    for name, value in expected.items():
        if found[name] != value:
            return f"{name}: {shortened(value, found[name])}"
    return None


def shortened(expected: Any, found: Any) -> str:
    """Returns the first elements that differ, however deep; of lists with different lengths their ends."""
    while isinstance(expected, (list, tuple)) and type(expected) is type(found) and len(expected) == len(found):
        pairs = [(one, other) for one, other in zip(expected, found, strict=True) if one != other]
        expected, found = pairs[0]
    if isinstance(expected, list) and isinstance(found, list):
        return f"expected {len(expected)}, then {str(expected[-1:])[:200]}, found {len(found)}, {str(found[-1:])[:200]}"
    return f"expected {str(expected)[:200]}, found {str(found)[:200]}"
