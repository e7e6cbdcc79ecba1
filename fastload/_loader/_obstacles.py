"""Reasons why the epochs of some loaders have no state, and what to do."""

from __future__ import annotations

from fastload._errors import StateError

OF_TORCHS = (
    "torch's own iterator makes the batches, and it has no state. Use a Dataset or an IterableDataset instead of the "
    "data pipe, or save the number of batches and skip as many after a restart"
)
OF_STEPS = (
    "with steps= an iteration covers a part of an epoch or several epochs, and only whole epochs can be resumed. Leave "
    "out steps and end the loop yourself"
)


def obstacle(what: str, why: str) -> StateError:
    """Makes the error for `what`, which has no state; `why` is one of the above."""
    problem, _, next_step = why.partition(". ")
    return StateError("fastload.way", f"{what} has no state to resume from: {problem}", next_step)
