"""The states of workers that run Python, in a saved state; their data sets' own are under torchdata's keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from fastload._errors import StateError
from fastload._resume._fields import Fields
from fastload._resume._generators import ProgramStates, as_saved, parsed
from fastload._resume._user_state import UserState

SNAPSHOT = "_snapshot"
WORKERS = "_worker_snapshots"


class SavedWorker(NamedTuple):
    """The state of a worker between two batches: in a saved state, before the first one that is made after loading it.

    Attributes:
        generators: States of the worker's own generators, which it uses instead of the program's three.
        held: States of the generators in its objects, by the path to each, such as "dataset.rng".
        not_exact: Paths of generators that are not in the state.
        user: States of the data set and the stream themselves. They are saved under torchdata's keys.
    """

    generators: ProgramStates
    held: Mapping[str, Any]
    not_exact: tuple[str, ...]
    user: UserState = UserState()

    def saved(self, user_field: str = "") -> SavedWorker:
        """Returns it for a state.

        Raises:
            StateError: Data set or stream could not give a state; the error's field begins with `user_field`.
        """
        if (problem := self.user.problem) is not None:
            raise StateError(user_field + problem.field, problem.problem, problem.next_step) from problem.__cause__
        return self

    def as_dict(self) -> dict[str, Any]:
        saved: dict[str, Any] = self.generators.as_dict()
        if self.held:
            saved["held"] = {path: as_saved(state) for path, state in self.held.items()}
        if self.not_exact:
            saved["not_exact"] = list(self.not_exact)
        return saved

    @classmethod
    def parse(cls, fields: Fields, user: UserState) -> SavedWorker:
        """Reads a dict made by as_dict(), and adds `user`. Raises StateError if it is not one."""
        held = {}
        if "held" in fields:
            inner = fields.dict("held")
            held = {path: parsed(inner, path) for path in inner.names()}
        not_exact = tuple(fields.texts("not_exact")) if "not_exact" in fields else ()
        return cls(ProgramStates.parse(fields), held, not_exact, user)


def user_dict(user: UserState, *, is_of_stream: bool) -> dict[str, Any]:
    of_stream = {"dataset_iter_state": user.iterator, "fetcher_ended": user.has_ended}
    return {"dataset_state": user.dataset, "fetcher_state": of_stream if is_of_stream else None}


def user_fields(top: Fields, num_workers: int) -> list[Fields]:
    """Returns the dicts with the states of data set and stream: one per worker, or the program's. Raises StateError."""
    if num_workers == 0:
        return [top]
    workers = top.dict(SNAPSHOT).dict(WORKERS)
    return [workers.dict(f"worker_{number}") for number in range(num_workers)]


def user_path(num_workers: int, worker: int) -> str:
    """Returns the path of one of these dicts, for a message."""
    return f"{SNAPSHOT}.{WORKERS}.worker_{worker}." if num_workers > 0 else ""


def parsed_user(fields: Fields) -> UserState:
    """Reads a dict made by user_dict(). Raises StateError if it is not one."""
    if fields.any("fetcher_state") is None:
        return UserState(fields.any("dataset_state"))
    stream = fields.dict("fetcher_state")
    return UserState(fields.any("dataset_state"), stream.any("dataset_iter_state"), stream.flag("fetcher_ended"))
