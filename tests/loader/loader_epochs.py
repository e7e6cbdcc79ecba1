"""Running the same epochs on torch's DataLoader and on fastload's, and taking down all that can be compared."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.utils.data

import fastload

LOADERS = (torch.utils.data.DataLoader, fastload.DataLoader)
NUM_EPOCHS = 3
_ERRORS = (OSError, IndexError, ValueError, TypeError, RuntimeError)


@dataclass(frozen=True)
class Epochs:
    """What some epochs gave.

    Attributes:
        loader: that gave them.
        epochs: of each the batches: bytes, shapes and types of all that is in them; or the type of the error in place
            of one.
        states: of torch's generator after each.
    """

    loader: Any
    epochs: list[list[Any]]
    states: list[bytes]


def run_epochs(kind: Any, dataset: Any, num_epochs: int = NUM_EPOCHS, **arguments: Any) -> Epochs:
    """Epochs of a loader of `kind`, begun from the same seed."""
    torch.manual_seed(3)
    loader = kind(dataset, **arguments)
    epochs, states = [], []
    for _ in range(num_epochs):
        epochs.append(list(outcomes(loader)))
        states.append(generator_state())
    return Epochs(loader, epochs, states)


def assert_epochs_equal(theirs: Epochs, mine: Epochs) -> None:
    """Says which batch is the first that differs, without its bytes."""
    for number, (their_epoch, epoch) in enumerate(zip(theirs.epochs, mine.epochs, strict=True)):
        for position, (their_batch, batch) in enumerate(itertools.zip_longest(their_epoch, epoch)):
            assert batch == their_batch, f"batch {position} of epoch {number}"
    assert mine.states == theirs.states, "torch's generator after an epoch"


def outcomes(batches: Iterable[Any]) -> Iterator[Any]:
    """Each batch in a form that can be compared, or the error in its place."""
    iterator = iter(batches)
    while True:
        try:
            batch = next(iterator)
        except StopIteration:
            return
        except _ERRORS as error:  # SampleErrors are of the original's type, too
            yield next(known for known in _ERRORS if isinstance(error, known)).__name__
        else:
            yield comparable(batch)


def comparable(value: Any) -> Any:
    """Equal exactly where two values of batches are, to the last bit."""
    if isinstance(value, torch.Tensor):
        return type(value), value.dtype, tuple(value.shape), value.contiguous().view(torch.uint8).numpy().tobytes()
    if isinstance(value, (list, tuple)):
        return type(value), [comparable(item) for item in value]
    return type(value), value


def generator_state() -> bytes:
    """Of torch's default generator."""
    return torch.get_rng_state().numpy().tobytes()
