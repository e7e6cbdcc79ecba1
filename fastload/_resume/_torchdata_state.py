"""A state that torchdata's StatefulDataLoader has made, which has no key "fastload"."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fastload._resume._fields import Fields


@dataclass(frozen=True)
class TorchdataState:
    """What such a state tells a loader that is not torchdata's.

    Attributes:
        position: Batches of the epoch that were handed out.
        steps_since: So many of them behind the one that the samplers' states are of.
        is_finished: Whether the epoch is over.
        num_workers: Of the loader.
        base_seed: Of the workers; None where there is none.
        samplers: Where the samplers' states are, with `path`.
        path: For messages.
    """

    position: int
    steps_since: int
    is_finished: bool
    num_workers: int
    base_seed: int | None
    samplers: Fields
    path: str

    @classmethod
    def parse(cls, state: dict[str, Any]) -> TorchdataState | None:
        """None: it is none of torchdata's. Raises StateError: it is one in which something is wrong."""
        top = Fields(state)
        if "_snapshot" in top:
            snapshot = top.dict("_snapshot")
            main, step = snapshot.dict("_main_snapshot"), snapshot.whole("_snapshot_step", 2**62)
            since = top.whole("_steps_since_snapshot", 2**62)
            return cls(
                step + since,
                since,
                top.flag("_iterator_finished"),
                main.whole("_num_workers", 2**31),
                main.whole("_base_seed", 2**63),
                main,
                "_snapshot._main_snapshot.",
            )
        if "_num_yielded" not in top or "_index_sampler_state" not in top:
            return None
        position = top.whole("_num_yielded", 2**62)
        return cls(position, 0, top.flag("_iterator_finished"), 0, None, top, "")

    def state_of_batch_sampler(self) -> Any:
        """That of a loader's own batch sampler, or of its sampler where there are no batches. Raises StateError."""
        return self._there(self.samplers, "_index_sampler_state")

    def state_of_sampler(self) -> Any:
        """That of the sampler whose indices are made batches of. Raises StateError."""
        return self._there(self.samplers.dict("_sampler_iter_state"), "sampler_state")

    def _there(self, fields: Fields, name: str) -> Any:
        if (found := fields.any(name)) is None:
            raise fields.error(name, "is None, and this loader's sampler has a state of its own")
        return found
