"""Runs the same epochs on torch's DataLoader and on fastload's, and records everything comparable."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import torch
from both_loaders import kind_of, on_both, steps_of

NUM_EPOCHS = 3


class Epochs(NamedTuple):
    """The results of some epochs.

    Attributes:
        loader: the loader.
        epochs: the outcomes() of each epoch.
        states: torch's generator state after each epoch.
    """

    loader: Any
    epochs: list[list[Any]]
    states: list[bytes]

    @property
    def batches(self) -> list[Any]:
        """The steps of all epochs."""
        return [batch for epoch in self.epochs for batch in epoch]


def run_epochs(kind: Any, dataset: Any, num_epochs: int = NUM_EPOCHS, **arguments: Any) -> Epochs:
    """Runs epochs of a loader of `kind`, starting from the same seed."""
    torch.manual_seed(3)
    loader = kind(dataset, **arguments)
    epochs, states = [], []
    for _ in range(num_epochs):
        epochs.append(outcomes(loader))
        states.append(generator_state())
    return Epochs(loader, epochs, states)


def assert_equal_to_torch(
    dataset: Any, num_epochs: int = NUM_EPOCHS, *, verdict: str | None = "native", **arguments: Any
) -> Epochs:
    """Asserts that epochs equal torch's, and that explain() begins so; names the first batch that differs."""
    theirs, mine = on_both(lambda kind: run_epochs(kind, dataset, num_epochs, **arguments))
    assert verdict is None or mine.loader.explain().startswith(verdict), mine.loader.explain()
    for number, (their_epoch, epoch) in enumerate(zip(theirs.epochs, mine.epochs, strict=True)):
        for position, (their_batch, batch) in enumerate(itertools.zip_longest(their_epoch, epoch)):
            assert batch == their_batch, f"batch {position} of epoch {number}"
    assert mine.states == theirs.states, "torch's generator after an epoch"
    return mine


def outcomes(batches: Any, limit: int = 1000) -> list[Any]:
    """Returns each batch in a comparable form, or the kind of the error instead."""
    return steps_of(batches, error_form=kind_of, limit=limit)


def generator_state() -> bytes:
    """Returns the state of torch's default generator."""
    return torch.get_rng_state().numpy().tobytes()
