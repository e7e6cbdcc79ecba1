"""The state of one worker that runs Python, in a saved state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fastload._resume._fields import Fields
from fastload._resume._generators import ProgramStates, as_saved, parsed
from fastload._resume._user_state import UserState


@dataclass(frozen=True)
class SavedWorker:
    """The state of a worker before the first batch that it makes after the state is loaded.

    Attributes:
        generators: States of the worker's own generators, which it uses instead of the program's three.
        held: States of the generators in its objects, by the path to each, such as "dataset.rng".
        not_exact: Paths of generators that are not in the state.
        user: States of the data set and the stream themselves. They are saved under torchdata's keys.
    """

    generators: ProgramStates
    held: Mapping[str, Any] = field(default_factory=dict)
    not_exact: tuple[str, ...] = ()
    user: UserState = field(default_factory=UserState)

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
