"""Runs the same program on torch's DataLoader and on fastload's."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

import torch.utils.data
from flat_values import flat

import fastload

LOADERS = (torch.utils.data.DataLoader, fastload.DataLoader)
Threads = functools.partial(fastload.DataLoader, workers="threads")
Processes = functools.partial(fastload.DataLoader, workers="processes")
TORCH_AND_THREADS = (torch.utils.data.DataLoader, Threads)


def outcome(action: Callable[[], Any]) -> tuple[str, Any]:
    """Returns ("returned", value) or ("raised", exact type of the exception)."""
    try:
        return "returned", action()
    except Exception as error:  # noqa: BLE001 - what is raised is what is compared
        return "raised", type(error)


def on_both(action: Callable[[Any], Any], kinds: tuple[Any, Any] = LOADERS) -> tuple[Any, Any]:
    """Returns the results of `action` for torch's class and for fastload's."""
    theirs, mine = map(action, kinds)
    return theirs, mine


def assert_same(action: Callable[[Any], Any], kinds: tuple[Any, Any] = LOADERS) -> Any:
    """Asserts that both classes give the same result, and returns it."""
    theirs, mine = on_both(action, kinds)
    assert mine == theirs
    return mine


def steps_of(
    batches: Iterable[Any],
    form: Callable[[Any], Any] = flat,
    error_form: Callable[[Exception], Any] = type,
    limit: int = 30,
) -> list[Any]:
    """Returns each step of an epoch: the form of a batch, or of the error instead; goes on after errors."""
    iterator = iter(batches)
    steps: list[Any] = []
    while len(steps) < limit:
        try:
            steps.append(form(next(iterator)))
        except StopIteration:
            break
        except Exception as error:  # noqa: BLE001 - what is raised is what is compared
            steps.append(error_form(error))
    return steps


_KINDS = (FileNotFoundError, OSError, IndexError, KeyError, ValueError, TypeError, RuntimeError)


def kind_of(error: Exception) -> type[Exception]:
    """Returns the built-in type of an error; a SampleError has the original's type, too."""
    return next((kind for kind in _KINDS if isinstance(error, kind)), type(error))


def labels_of(batches: Any) -> list[list[int]]:
    return [labels.tolist() for _, labels in batches]


def negated(image: torch.Tensor) -> torch.Tensor:
    """Negates the image: a step that only Python knows."""
    return -image
