"""The index batches of one epoch, from its beginning or from any of them on, and how they are found again.

torch's own samplers are known by a seed or by the state of a generator. Any other is asked once more, with the
program's generators as they were, for all that it was asked for: so what it draws, and when, comes out the same.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import sys
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from fastload._process._interrupts import keep
from fastload._resume._generators import ProgramReplay, ProgramStates
from fastload._resume._saved_sampler import SavedSampler
from fastload.samplers._draw_numbers import DrawNumbers, Numbers, numbers_of, size_of
from fastload.samplers._lowering import IndexBatches, lower_batch_sampler
from fastload.samplers._own_batches import draws_order
from fastload.samplers._resting import (
    epoch_holder,
    generators_of,
    kind_of,
    load_own_state,
    own_state,
    sampler_at_rest,
    set_generators,
    sharded_of,
)
from fastload.samplers._sampled import Sampled, SampledLists, sampled_keys

# No loader has more batches in flight.
_MOST_AHEAD = 2**20


class EpochOrder:
    """One pass over a loader's batch sampler, which can say of each batch how the ones behind it are found.

    It is made before torch asks the sampler for the epoch's iterator, and `asking()` is held meanwhile; then `begin()`.

    Args:
        index_sampler: A loader's batch sampler, or its sampler where there are no batches.
        depth: So many batches at most are asked for and not handed out.
        saved: Where an epoch is to go on; None: it begins.
        position: Batches that were handed out in that.
        loaded: The state that a stateful sampler is to load, or none.
        takes_keys: Whether what the sampler gives is left as it is, for a data set that any key may ask; else give()
            gives what IndexBatches does.
    """

    def __init__(
        self,
        index_sampler: Any,
        depth: int,
        saved: SavedSampler | None = None,
        position: int = 0,
        loaded: tuple[Any, ...] = (),
        *,
        takes_keys: bool = False,
    ) -> None:
        self._batch_sampler = index_sampler
        self._takes_keys = takes_keys
        self.kind = kind_of(self._batch_sampler)
        self._saved, self._position, self._loaded = saved, position, loaded
        self._replay = None if saved is None else ProgramReplay(saved.program)
        self._is_prepared = False
        self._program: ProgramStates | None = None
        self._generators: dict[str, Any] = {}
        self._epoch: int | None = None  # once the sampler was asked for a batch
        self._has_drawn = False
        self._is_empty = True  # nothing was given
        self._batches: IndexBatches | Sampled | SampledLists | None = None
        self._numbers: tuple[DrawNumbers | None] | None = None  # once they were asked for
        # Of a stateful sampler: its states behind the batches that were given last, and the batch that is given next.
        self._own_states: deque[Any] = deque(maxlen=int(depth) + 2)
        self._num_noted = position
        self._taken: list[Any] = []
        self._is_noted = False
        self._own_end: tuple[Any, ...] = ()

    # ---- its beginning ---------------------------------------------------------------------------------------------

    @property
    def is_asked_by_torch(self) -> bool:
        """Whether `asking()` has to be held where torch's base class asks for the iterator that is used."""
        return self.kind in ("stateful", "asked again")

    @contextlib.contextmanager
    def asking(self) -> Iterator[None]:
        """Held while the sampler is asked for the iterator that is used. May be held again."""
        with contextlib.nullcontext() if self._replay is None else self._replay.drawing():
            if not self._is_prepared:
                self._prepare()
                self._is_prepared = True
            yield

    def _prepare(self) -> None:
        if self._saved is not None:
            self._warn_of_epoch(self._saved.epoch)
        for state in self._loaded:
            load_own_state(self._batch_sampler, state)
        if self.kind == "stateful":
            self._own_states.append(own_state(self._batch_sampler))
        if self._saved is not None:
            self._program, self._generators = self._saved.program, dict(self._saved.generators)
            self._has_drawn = bool(self._generators)
            set_generators(self._batch_sampler, self._generators)
            self._restore_epoch(self._saved.epoch)
        elif self.kind == "asked again":
            self._program, self._generators = ProgramStates.now(), generators_of(self._batch_sampler)
            self._has_drawn = True

    def _warn_of_epoch(self, epoch: int | None) -> None:
        sampler = epoch_holder(self._batch_sampler)
        if sampler is not None and epoch is not None and sampler.epoch != epoch:
            warnings.warn(
                f"{type(sampler).__name__}.set_epoch({sampler.epoch}) was called behind load_state_dict(), and the "
                f"state is of epoch {epoch}, which goes on: call set_epoch() for the epochs behind it only",
                stacklevel=2,
            )

    def _restore_epoch(self, epoch: int | None) -> None:
        sampler = epoch_holder(self._batch_sampler)
        if sampler is None or epoch is None:
            return
        # A ShardedSampler has loaded its epoch, a later one than that in which its iteration began where they follow
        # each other without an end.
        if sampler.epoch != epoch and sharded_of(self._batch_sampler) is None:
            sampler.set_epoch(epoch)
        self._epoch = epoch

    def begin(self, begun: Iterator[Any] | None) -> None:
        """Asks for the iterator, or takes `begun`, and passes over what was handed out."""
        with self.asking():
            if self._saved is None:
                self._batches = self._lowered(begun)
            elif draws_order(self._batch_sampler) is not None:
                self._batches = self._lowered(begun)
                own = self._batches.own
                assert own is not None, "torch's own"
                own.skip(self._position, self._saved.seed)
            else:
                items = iter(self._batch_sampler) if begun is None else begun
                self._batches = self._lowered(self._rest_of(items, self._saved), self._position)

    def look_again(self) -> None:
        """Takes the state that a stateful sampler has now, before anything is asked for."""
        if self.kind == "stateful":
            self._own_states[-1] = own_state(self._batch_sampler)

    def _lowered(self, begun: Iterator[Any] | None, num_passed: int = 0) -> IndexBatches | Sampled | SampledLists:
        if self._takes_keys:
            return sampled_keys(self._batch_sampler, begun, num_passed)
        batches = lower_batch_sampler(_Holder(self._batch_sampler), begun, num_passed)
        assert batches is not None, "there is a batch sampler"
        return batches

    def _rest_of(self, items: Iterator[Any], saved: SavedSampler) -> Iterator[Any]:
        """What comes behind the position; the part of it that was asked for before is asked for now."""
        if self.kind == "stateful":
            return items
        deque(itertools.islice(items, min(self._position, sys.maxsize)), maxlen=0)
        # A DistributedSampler looks at its epoch when it is asked for the first batch.
        num_ahead = 1 if self.kind == "distributed" else min(max(0, saved.num_asked - self._position), _MOST_AHEAD)
        return itertools.chain(list(itertools.islice(items, num_ahead)), items)

    # ---- its batches -----------------------------------------------------------------------------------------------

    def give(self, given: list[Any]) -> None:
        """Appends the next batch or key, or nothing where there is none, in one step."""
        assert self._batches is not None, "it has begun"
        if self._epoch is None and (sampler := epoch_holder(self._batch_sampler)) is not None:
            self._epoch = sampler.epoch
        if self.kind == "random" and not self._has_drawn:
            self._generators, self._has_drawn = generators_of(self._batch_sampler), True
        if self.kind != "stateful":
            self._batches.give(given)
            self._is_empty = self._is_empty and not given
            return
        if not self._taken:
            self._is_noted = False
            self._batches.give(self._taken)
        if not self._taken:
            self._own_end = (own_state(self._batch_sampler),)
            return
        if not self._is_noted:  # together with the batch, or not at all: Note [interrupts]
            states = deque([*self._own_states, own_state(self._batch_sampler)], self._own_states.maxlen)
            self._own_states, self._num_noted, self._is_noted = states, self._num_noted + 1, True
        self._is_empty = False
        keep(given, self._taken.pop)

    def item(self, given: Any) -> Any:
        """Returns what the sampler gave, of what give() appended: index batches are that themselves."""
        return self._batches.item(given) if isinstance(self._batches, (Sampled, SampledLists)) else given

    def draw_numbers(self, count: int) -> Numbers | None:
        """Of the `count` samples of what give() has appended last, before it is called again; None: they have none."""
        if self._numbers is None:
            self._numbers = (numbers_of(self._batch_sampler),)
        (numbers,) = self._numbers
        return None if numbers is None else numbers.of(self._num_before(count), count)

    def _num_before(self, count: int) -> int:
        """Samples before these: of the epoch, or since a stateful sampler went on."""
        assert self._batches is not None, "it has begun"
        own = self._batches.own
        if own is not None:
            return own.num_given - count
        num_items = self._batches.num_asked - 1 - (self._position if self.kind == "stateful" else 0)
        return num_items * size_of(self._batch_sampler)

    def check_end(self) -> None:
        assert self._batches is not None, "it has begun"
        self._batches.check_end()
        if self._is_empty and self._position:
            warnings.warn(
                f"the state is of an epoch that was over: the sampler gives no batch behind position {self._position}. "
                "One with a length says which batch is the last, and then the next epoch begins at once",
                stacklevel=2,
            )

    # ---- how it is found again -------------------------------------------------------------------------------------

    def saved_at(self, position: int) -> SavedSampler:
        """How the batches from `position` on are found."""
        sampler = epoch_holder(self._batch_sampler)
        epoch = sampler.epoch if self._epoch is None and sampler is not None else self._epoch
        generators = self._generators
        if not self._has_drawn and self.kind != "stateful":
            generators = generators_of(self._batch_sampler)
        own = None if self._batches is None else self._batches.own
        seed = None if own is None else own.seed
        state = self._own_states[position - self._num_noted - 1] if self.kind == "stateful" else None
        return SavedSampler(self.kind, epoch, seed, generators, self._program, self._num_asked, state)

    @property
    def _num_asked(self) -> int:
        """Batches of the epoch that the sampler was asked for, before and since it went on."""
        before = 0 if self._saved is None else self._saved.num_asked
        return before if self._batches is None else max(before, self._batches.num_asked)

    def saved_behind(self, *, is_exhausted: bool) -> Callable[[], SavedSampler]:
        """What says how the next epoch is found, where all batches of this one were handed out.

        `is_exhausted`: the sampler was asked for one more, too.
        """
        rest = functools.partial(sampler_at_rest, self._batch_sampler, self._own_end)
        if is_exhausted or self.kind != "random" or not (generators := generators_of(self._batch_sampler)):
            return rest
        assert self._batches is not None, "it has begun"
        own = self._batches.own
        assert own is not None, "torch's own"
        (name,) = generators
        saved = replace(rest(), generators={name: own.generator_behind()})
        return lambda: saved


class _Holder:
    """A batch sampler in the place of the loader that has it."""

    def __init__(self, batch_sampler: Any) -> None:
        self.batch_sampler = batch_sampler
