"""The positions of workers in processes as messages: raw words of generators, each only where it has changed."""

from __future__ import annotations

import pickle
from typing import Any, NamedTuple, cast

import numpy as np
import torch

from fastload._errors import StateError
from fastload._iteration._saved_worker import SavedWorker
from fastload._resume._generators import ProgramStates
from fastload._resume._user_state import UserState

# The version in random.getstate(), and the name in NumPy's state.
_PYTHON_VERSION = 3
_NUMPY_NAME = "MT19937"


class SnapshotMessage(NamedTuple):
    """A worker's position, as its process sends it. A field is None if it is the same as in the message before.

    Attributes:
        torch: The state of torch's generator.
        python: The words of Python's generator, and the value that gauss() keeps.
        numpy: The words of NumPy's generator and three numbers; empty if it is of a kind that is not saved.
        held: A pickle of the states of held generators, and of the paths of those that are not saved.
        user: A pickle of the states of data set and stream, or why there is none.
    """

    torch: bytes | None
    python: tuple[bytes, float | None] | None
    numpy: tuple[Any, ...] | None
    held: bytes | None
    user: bytes | None

    def after(self, before: SnapshotMessage) -> SnapshotMessage:
        """Returns the message without the fields that are the same as in `before`."""
        return SnapshotMessage._make(None if new == old else new for new, old in zip(self, before, strict=True))

    def completed(self, before: SnapshotMessage | None) -> SnapshotMessage:
        """Returns the message with the fields of `before` where it has none. May be repeated."""
        if before is None:
            return self
        return SnapshotMessage._make(old if new is None else new for new, old in zip(self, before, strict=True))

    @classmethod
    def of(cls, snapshot: SavedWorker, last: tuple[SavedWorker, SnapshotMessage] | None) -> SnapshotMessage:
        """Returns a snapshot as a whole message. `last` is the snapshot before and its message."""
        generators = snapshot.generators
        if last is not None and last[0].generators.python is generators.python:
            python = last[1].python  # converting 625 ints takes 25 us
        else:
            version, words, kept = generators.python
            assert version == _PYTHON_VERSION, "the state of Python's generator since 3.2"
            python = np.array(words, np.uint32).tobytes(), kept
        return cls(
            generators.torch.numpy().tobytes(),
            python,
            () if generators.numpy is None else (generators.numpy[1].tobytes(), *generators.numpy[2:]),
            pickle.dumps((dict(snapshot.held), snapshot.not_exact), 5),
            _pickled(snapshot.user),
        )

    def saved(self, user_field: str = "") -> SavedWorker:
        """Returns the snapshot, as SavedWorker.saved(); for whole messages."""
        of_torch, (words, kept), of_numpy, of_held, user = cast("tuple[Any, ...]", self)
        held, not_exact = pickle.loads(of_held)
        numpy = None
        if of_numpy:
            numpy = (_NUMPY_NAME, np.frombuffer(of_numpy[0], np.uint32).copy(), *of_numpy[1:])
        generators = ProgramStates(
            torch.frombuffer(bytearray(of_torch), dtype=torch.uint8),
            (_PYTHON_VERSION, tuple(np.frombuffer(words, np.uint32).tolist()), kept),
            numpy,
        )
        return SavedWorker(generators, held, not_exact, pickle.loads(user)).saved(user_field)


def _pickled(user: UserState) -> bytes:
    """Returns the pickle of the states; if they cannot be pickled, of the error that says so."""
    try:
        return pickle.dumps(user, 5)
    except Exception as error:  # noqa: BLE001 - any code of the user's
        problem = StateError(
            "state",
            f"cannot be sent from the worker's process: {type(error).__name__}: {error}",
            "return what can be pickled from state_dict() of the data set and its iterator",
        )
        return pickle.dumps(UserState(has_ended=user.has_ended, problem=problem), 5)
