"""Runs the same epochs on torch's DataLoader and on fastload's, and records everything comparable."""

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
    """The results of some epochs.

    Attributes:
        loader: the loader.
        epochs: the batches of each epoch, as bytes, shapes and types of everything in them; the type of an error
            instead of a batch.
        states: torch's generator state after each epoch.
    """

    loader: Any
    epochs: list[list[Any]]
    states: list[bytes]


def run_epochs(kind: Any, dataset: Any, num_epochs: int = NUM_EPOCHS, **arguments: Any) -> Epochs:
    """Runs epochs of a loader of `kind`, starting from the same seed."""
    torch.manual_seed(3)
    loader = kind(dataset, **arguments)
    epochs, states = [], []
    for _ in range(num_epochs):
        epochs.append(list(outcomes(loader)))
        states.append(generator_state())
    return Epochs(loader, epochs, states)


def assert_epochs_equal(theirs: Epochs, mine: Epochs) -> None:
    """Asserts equality; names the first batch that differs, without its bytes."""
    for number, (their_epoch, epoch) in enumerate(zip(theirs.epochs, mine.epochs, strict=True)):
        for position, (their_batch, batch) in enumerate(itertools.zip_longest(their_epoch, epoch)):
            assert batch == their_batch, f"batch {position} of epoch {number}"
    assert mine.states == theirs.states, "torch's generator after an epoch"


def outcomes(batches: Iterable[Any]) -> Iterator[Any]:
    """Yields each batch in a comparable form, or the error instead."""
    iterator = iter(batches)
    while True:
        try:
            batch = next(iterator)
        except StopIteration:
            return
        except _ERRORS as error:  # SampleErrors have the original's type, too
            yield next(known for known in _ERRORS if isinstance(error, known)).__name__
        else:
            yield comparable(batch)


def comparable(value: Any) -> Any:
    """Returns a form that is equal exactly if two values of batches are, to the last bit."""
    if isinstance(value, torch.Tensor):
        return type(value), value.dtype, tuple(value.shape), value.contiguous().view(torch.uint8).numpy().tobytes()
    if isinstance(value, (list, tuple)):
        return type(value), [comparable(item) for item in value]
    return type(value), value


def generator_state() -> bytes:
    """Returns the state of torch's default generator."""
    return torch.get_rng_state().numpy().tobytes()
