"""Why an epoch of some loaders has no state, and what to do."""

from __future__ import annotations

from fastload._errors import StateError

OF_TORCHS = (
    "torch's own iterator makes the batches, and it has no state. Take a Dataset or an IterableDataset in the place of "
    "the data pipe, or save the number of batches and pass over as many after a restart"
)
OF_PROCESSES = (
    "worker processes of torch's keep their state for themselves. Take workers='threads', which native batches and "
    "their state need; docs/state.md says how a framework is kept from asking"
)
OF_STEPS = (
    "with steps= an iteration is a part of an epoch or of several, and only whole epochs are resumed yet. Leave out "
    "steps and end the loop yourself"
)


def obstacle(what: str, why: str) -> StateError:
    """The error of what has no state; `why` is one of the above."""
    problem, _, next_step = why.partition(". ")
    return StateError("fastload.way", f"{what} has no state to resume from: {problem}", next_step)
