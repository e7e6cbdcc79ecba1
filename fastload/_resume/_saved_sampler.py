"""Where a loader's sampler stands, in a saved state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from fastload._resume._fields import Fields
from fastload._resume._generators import ProgramStates
from fastload._resume._held import as_saved, parsed

# How the rest of an epoch is found again: its indices are known by their position ("fixed"), by what torch's
# RandomSampler was seeded with or drew from ("random"), by a DistributedSampler's epoch, by the sampler's own
# state_dict(), or by asking the sampler once more, with the program's generators as they were.
Kind = Literal["fixed", "random", "distributed", "stateful", "asked again"]
KINDS: tuple[Kind, ...] = ("fixed", "random", "distributed", "stateful", "asked again")


@dataclass(frozen=True)
class SavedSampler:
    """Where a sampler stands.

    Attributes:
        kind: How the rest of the epoch is found.
        epoch: What set_epoch() has told the sampler; None where it has none.
        seed: That a RandomSampler has drawn for the epoch; None where it has drawn none.
        generators: States of the generators that the sampler holds, by name: as they were when the epoch's order was
            drawn, or between two epochs as they are.
        program: The program's generators as they were when the sampler was asked for the epoch, where it may draw from
            them.
        num_asked: Batches that the sampler was asked for, those in flight too.
        state: Its own, where it is stateful.
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
        """What as_dict() gave. Raises StateError."""
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
