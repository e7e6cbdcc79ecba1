"""A loader's sampler in a saved state: its kind, epoch, generators and own state, in an epoch and between two."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, cast, get_args

import numpy as np
import torch
from torch.utils.data import BatchSampler, DistributedSampler, SequentialSampler
from torch.utils.data.dataloader import _InfiniteConstantSampler

from fastload._errors import StateError
from fastload._process._interrupts import is_interrupt
from fastload._resume._fields import Fields
from fastload._resume._generators import ProgramStates, as_saved, fits, is_held, parsed, set_state, state_of
from fastload.samplers._draw_numbers import NumberedBatches
from fastload.samplers._own_batches import draws_order, own_batches
from fastload.samplers._seeded_shuffle import SeededShuffle, sharded_in
from fastload.samplers._sharded_sampler import ShardedSampler

# Types whose iterators give the same items each time, and draw nothing.
_SEQUENCES = (list, tuple, range, np.ndarray, torch.Tensor, NumberedBatches)

# How the rest of an epoch is found again: by position alone ("fixed"), by the seed or the generator of torch's
# RandomSampler ("random"), by a DistributedSampler's epoch ("distributed"), by the sampler's own state_dict()
# ("stateful"), or by iterating over the sampler again with the program's generators in their old state ("asked again").
Kind = Literal["fixed", "random", "distributed", "stateful", "asked again"]


@dataclass(frozen=True)
class SavedSampler:
    """The position of a sampler.

    `seed` is what a RandomSampler drew for the epoch, if anything. `generators` has the states of those that the
    sampler holds, by name: before the epoch's order was drawn, or the current ones between two epochs. `program` has
    the states of the program's generators when the epoch was requested from the sampler, if it may draw from them.
    `num_asked` batches were requested from the sampler, including batches in flight.
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
        kind = cast(Kind, fields.choice("kind", get_args(Kind)))
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


def kind_of(batch_sampler: Any) -> Kind:
    """Returns the way in which the batches of an epoch are found again."""
    if _stateful_of(batch_sampler) is not None:
        return "stateful"
    is_random = draws_order(batch_sampler)
    if is_random is not None:
        return "random" if is_random else "fixed"
    inner = batch_sampler.sampler if type(batch_sampler) is BatchSampler else batch_sampler
    if type(inner) in (*_SEQUENCES, SequentialSampler, _InfiniteConstantSampler):
        return "fixed"
    return "distributed" if type(inner) is DistributedSampler else "asked again"


def known_length(batch_sampler: Any) -> int | None:
    """Returns the number of batches; None if code of the user's would count them, which may draw, or nothing can."""
    if kind_of(batch_sampler) in ("asked again", "stateful") and own_batches(batch_sampler) is None:
        return None
    try:
        return len(batch_sampler)
    except Exception:  # noqa: BLE001 - of the data set
        return None


def sharded_of(batch_sampler: Any) -> ShardedSampler | None:
    """Returns the ShardedSampler, whose state any number of ranks with any batch size can resume; None for others."""
    return sharded_in(batch_sampler.sampler) if type(batch_sampler) is BatchSampler else None


def describe_sampler(batch_sampler: Any) -> str:
    """Describes the kind and the settings that decide the order, except the rank."""
    if type(batch_sampler) is not BatchSampler:
        return type(batch_sampler).__qualname__
    sampler: Any = batch_sampler.sampler
    names = {
        "RandomSampler": ("replacement", "num_samples"),
        "DistributedSampler": ("num_replicas", "shuffle", "seed", "drop_last"),
    }.get(type(sampler).__name__, ())
    settings = [f"{name}={getattr(sampler, name, None)!r}" for name in names]
    if isinstance(sampler, ShardedSampler):
        settings = [f"{name}={value}" for name, value in sampler._block_settings.items()]
    return f"{type(sampler).__qualname__}({', '.join(settings)})"


def _parts_of(batch_sampler: Any) -> tuple[tuple[str, Any], ...]:
    """Returns the batch sampler and the sampler in it, with their names."""
    sampler = getattr(batch_sampler, "sampler", None)
    own = ("batch_sampler", batch_sampler)
    return (own,) if sampler is None else (own, ("sampler", sampler))


def epoch_holder(batch_sampler: Any) -> Any:
    """Returns the part of it that has an epoch and set_epoch(); None if there is none."""
    for _, part in _parts_of(batch_sampler):
        if hasattr(part, "set_epoch") and type(getattr(part, "epoch", None)) is int and part.epoch >= 0:
            return part
    return None


def depends_on_epoch(batch_sampler: Any, *, is_seeded: bool) -> bool:
    """Returns whether the batches depend on the epoch's number; `is_seeded`: random transforms depend on it."""
    return sharded_of(batch_sampler) is not None or (is_seeded and kind_of(batch_sampler) in ("fixed", "distributed"))


def common_epoch(batch_sampler: Any, epoch: int) -> int:
    """Returns the later epoch of a seeded loader's and its sampler's. A SeededShuffle gets it."""
    sampler = epoch_holder(batch_sampler)
    if isinstance(sampler, SeededShuffle):
        epoch = max(epoch, sampler.asked_epoch)
        sampler.begin_epoch(epoch)
        return epoch
    return epoch if sampler is None else max(epoch, sampler.epoch)


def _generators(batch_sampler: Any) -> dict[str, Any]:
    """Returns the generators that it holds, by name."""
    return {
        f"{part_name}.{name}": value
        for part_name, part in _parts_of(batch_sampler)
        for name, value in getattr(part, "__dict__", {}).items()
        if is_held(value)
    }


def generators_of(batch_sampler: Any) -> dict[str, Any]:
    """Returns the states of the generators that it holds, by name."""
    return {name: state_of(generator) for name, generator in _generators(batch_sampler).items()}


def check_generators(batch_sampler: Any, saved: SavedSampler) -> None:
    """Raises StateError if a state has a generator that the sampler does not hold."""
    held = _generators(batch_sampler)
    for name, state in saved.generators.items():
        if name not in held or not fits(held[name], state):
            raise StateError(
                f"fastload.sampler.generators.{name}",
                "is the state of a generator that the sampler does not hold",
                "make the sampler as it was when the state was saved, with a generator of the same kind",
            )


def set_generators(batch_sampler: Any, states: Mapping[str, Any]) -> None:
    generators = _generators(batch_sampler)
    for name, state in states.items():
        set_state(generators[name], state)


def holds_generator(batch_sampler: Any, generator: torch.Generator) -> bool:
    return any(held is generator for held in _generators(batch_sampler).values())


def _stateful_of(batch_sampler: Any) -> Any:
    """Returns the part of it that has state_dict() and load_state_dict(); None if there is none."""
    parts = _parts_of(batch_sampler)
    for _, part in parts if type(batch_sampler) is BatchSampler else parts[:1]:
        if hasattr(part, "state_dict") and hasattr(part, "load_state_dict"):
            return part
    return None


def own_state(batch_sampler: Any) -> Any:
    """Returns the state_dict() of a stateful sampler."""
    return _stateful_of(batch_sampler).state_dict()


def load_own_state(batch_sampler: Any, state: Any) -> None:
    """Loads the state of a stateful sampler. Raises StateError if the sampler raises."""
    sampler = _stateful_of(batch_sampler)
    try:
        sampler.load_state_dict(state)
    except Exception as error:
        if is_interrupt(error):
            raise
        raise StateError(
            "fastload.sampler.state", f"{type(sampler).__qualname__}.load_state_dict() has raised {error!r}"
        ) from error


def loaded_at_rest(batch_sampler: Any, saved: SavedSampler) -> tuple[Any, ...]:
    """Returns the state that a stateful sampler has to load at the start of an epoch, if any.

    A ShardedSampler has its epoch then, and loads nothing.
    """
    return (saved.state,) if saved.kind == "stateful" and sharded_of(batch_sampler) is None else ()


def sampler_at_rest(batch_sampler: Any, own_end: tuple[Any, ...] = ()) -> SavedSampler:
    """Returns the state of the next epoch before its first batch; `own_end` is the sampler's own state, if known."""
    kind = kind_of(batch_sampler)
    sampler = epoch_holder(batch_sampler)
    epoch = None if sampler is None else sampler.epoch
    if kind == "stateful":
        return SavedSampler(kind, epoch, state=own_end[0] if own_end else own_state(batch_sampler))
    return SavedSampler(kind, epoch, generators=generators_of(batch_sampler))
