"""The position of a loader's sampler, in a saved state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from fastload._resume._fields import Fields
from fastload._resume._generators import ProgramStates, as_saved, parsed

# How the rest of an epoch is found again: by position alone ("fixed"), by the seed or the generator of torch's
# RandomSampler ("random"), by a DistributedSampler's epoch ("distributed"), by the sampler's own state_dict()
# ("stateful"), or by iterating over the sampler again with the program's generators in their old state ("asked again").
Kind = Literal["fixed", "random", "distributed", "stateful", "asked again"]
KINDS: tuple[Kind, ...] = ("fixed", "random", "distributed", "stateful", "asked again")


@dataclass(frozen=True)
class SavedSampler:
    """The position of a sampler.

    Attributes:
        kind: How the rest of the epoch is found.
        epoch: The sampler's epoch, as set_epoch() has set it; None if it has none.
        seed: The seed that a RandomSampler drew for the epoch; None if it drew none.
        generators: States of the generators that the sampler holds, by name: before the epoch's order was drawn, or the
            current ones between two epochs.
        program: States of the program's generators when the epoch was requested from the sampler, if it may draw from
            them.
        num_asked: Number of batches requested from the sampler, including batches in flight.
        state: The sampler's own state, if it is stateful.
    """

    kind: Kind
    epoch: int | None = None
    seed: int | None = None
    generators: Mapping[str, Any] = field(default_factory=dict)
    program: ProgramStates | None = None
    num_asked: int = 0
    state: Any = None

    def as_dict(self) -> dict[str, Any]:
        saved: dict[str, Any] = {"kind": self.kind}
        if self.epoch is not None:
            saved["epoch"] = self.epoch
        if self.seed is not None:
            saved["seed"] = self.seed
        if self.generators:
            saved["generators"] = {name: as_saved(state) for name, state in self.generators.items()}
        if self.program is not None:
            saved |= {"program": self.program.as_dict(), "asked": self.num_asked}
        if self.kind == "stateful":
            saved["state"] = self.state
        return saved

    @classmethod
    def parse(cls, fields: Fields) -> SavedSampler:
        """Reads a dict made by as_dict(). Raises StateError if it is not one."""
        kind = cast(Kind, fields.choice("kind", KINDS))
        generators = {}
        if "generators" in fields:
            texts = fields.dict("generators")
            generators = {name: parsed(texts, name) for name in texts.names()}
        program = ProgramStates.parse(fields.dict("program")) if "program" in fields else None
        return cls(
            kind,
            fields.whole("epoch", 2**63) if "epoch" in fields else None,
            fields.whole("seed", 2**63) if "seed" in fields else None,
            generators,
            program,
            0 if program is None else fields.whole("asked"),
            fields.any("state") if kind == "stateful" else None,
        )
