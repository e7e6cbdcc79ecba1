"""The index batches of one epoch, from the start or from any batch on, and the state that finds them again.

The order of torch's own samplers follows from a seed or the state of a generator. Any other sampler is asked again for
everything that it was asked for, with the program's generators as they were, so that it draws the same numbers at the
same times.
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

from fastload._process._interrupts import append_result
from fastload._resume._generators import ProgramReplay, ProgramStates
from fastload.samplers._draw_numbers import DrawNumbers, Numbers, numbers_of, size_of
from fastload.samplers._own_batches import OwnBatches, draws_order
from fastload.samplers._resting import (
    SavedSampler,
    epoch_holder,
    generators_of,
    kind_of,
    load_own_state,
    own_state,
    sampler_at_rest,
    set_generators,
    sharded_of,
)
from fastload.samplers._sampled import Sampled, begin_pass, index_array

# No loader has more batches in flight.
_MOST_AHEAD = 2**20


class EpochOrder:
    """One pass over a loader's batch sampler, with a state after each batch from which the rest can be found again.

    Make it before torch asks the sampler for the epoch's iterator, hold `asking()` meanwhile, and then call `begin()`.

    `index_sampler` is the loader's batch sampler, or its sampler if there are no batches, and `depth` the number of
    batches in flight at most. With `saved` the epoch resumes after `position` batches. `loaded` has the state that a
    stateful sampler has to load, if any.
    """

    def __init__(
        self,
        index_sampler: Any,
        depth: int,
        saved: SavedSampler | None = None,
        position: int = 0,
        loaded: tuple[Any, ...] = (),
    ) -> None:
        self._batch_sampler = index_sampler
        self.kind = kind_of(self._batch_sampler)
        self._saved, self._position, self._loaded = saved, position, loaded
        self._replay = None if saved is None else ProgramReplay(saved.program)
        self._is_prepared = False
        self._program: ProgramStates | None = None
        self._generators: dict[str, Any] = {}
        self._epoch: int | None = None  # set when the sampler is asked for the first batch
        self._has_drawn = False
        self._is_empty = True  # no batch was given
        self._batches: OwnBatches | Sampled | None = None
        self._own: OwnBatches | None = None  # the same, if these are torch's own or fastload's
        self._numbers: tuple[DrawNumbers | None] | None = None  # set on the first use
        # For a stateful sampler: its states after the last batches, and the batch that is given next.
        self._own_states: deque[Any] = deque(maxlen=int(depth) + 2)
        self._num_noted = position
        self._taken: list[Any] = []
        self._is_noted = False
        self._own_end: tuple[Any, ...] = ()

    # ---- start -----------------------------------------------------------------------------------------------------

    @property
    def is_asked_by_torch(self) -> bool:
        """Whether `asking()` has to be held while torch's base class asks for the iterator that is used."""
        return self.kind in ("stateful", "asked again")

    @contextlib.contextmanager
    def asking(self) -> Iterator[None]:
        """Prepares and replays the program's draws while the sampler is asked for the iterator. May be held again."""
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
                f"{type(sampler).__name__}.set_epoch({sampler.epoch}) was called after load_state_dict(), but the "
                f"loaded state resumes epoch {epoch}: call set_epoch() only for the epochs after it",
                stacklevel=2,
            )

    def _restore_epoch(self, epoch: int | None) -> None:
        sampler = epoch_holder(self._batch_sampler)
        if sampler is None or epoch is None:
            return
        # A ShardedSampler has loaded its own epoch. Without an end, it may be later than the epoch in which the
        # iteration began.
        if sampler.epoch != epoch and sharded_of(self._batch_sampler) is None:
            sampler.set_epoch(epoch)
        self._epoch = epoch

    def begin(self, begun: Iterator[Any] | None) -> None:
        """Asks for the iterator, or takes `begun`, and skips the batches that were handed out."""
        with self.asking():
            saved, num_passed = self._saved, 0
            is_random_or_fixed = draws_order(self._batch_sampler) is not None
            if saved is not None and not is_random_or_fixed:
                begun = self._rest_of(iter(self._batch_sampler) if begun is None else begun, saved)
                num_passed = self._position
            self._batches = begin_pass(self._batch_sampler, begun, num_passed)
            self._own = self._batches if isinstance(self._batches, OwnBatches) else None
            if saved is not None and is_random_or_fixed:
                assert self._own is not None, "torch's own"
                self._own.skip(self._position, saved.seed)

    def look_again(self) -> None:
        """Takes the state that a stateful sampler has now, before anything is asked for."""
        if self.kind == "stateful":
            self._own_states[-1] = own_state(self._batch_sampler)

    def _rest_of(self, items: Iterator[Any], saved: SavedSampler) -> Iterator[Any]:
        """Returns the batches after the position, and asks again for the ones that the saved epoch had asked for."""
        if self.kind == "stateful":
            return items
        deque(itertools.islice(items, min(self._position, sys.maxsize)), maxlen=0)
        # A DistributedSampler reads its epoch when it is asked for the first batch.
        num_ahead = 1 if self.kind == "distributed" else min(max(0, saved.num_asked - self._position), _MOST_AHEAD)
        return itertools.chain(list(itertools.islice(items, num_ahead)), items)

    # ---- batches ---------------------------------------------------------------------------------------------------

    def give(self, given: list[Any]) -> None:
        """Appends the next batch or key in one step; at the end, appends nothing."""
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
        append_result(given, self._taken.pop)

    def item(self, given: Any, *, takes_keys: bool) -> Any:
        """Returns what give() appended as the sampler's item, a key or several; or as index_array() converts it."""
        if self._own is not None:
            return given.tolist() if takes_keys else given
        return given if takes_keys else index_array(given)

    def draw_numbers(self, count: int) -> Numbers | None:
        """Returns the draw numbers of the `count` samples that give() appended last; None if they have none."""
        if self._numbers is None:
            self._numbers = (numbers_of(self._batch_sampler),)
        (numbers,) = self._numbers
        return None if numbers is None else numbers.of(self._num_before(count), count)

    def _num_before(self, count: int) -> int:
        """Returns the number of samples before these, in the epoch or since a stateful sampler resumed."""
        if self._own is not None:
            return self._own.num_given - count
        assert isinstance(self._batches, Sampled), "it has begun"
        num_items = self._batches.num_asked - 1 - (self._position if self.kind == "stateful" else 0)
        return num_items * size_of(self._batch_sampler)

    def check_end(self) -> None:
        """Raises RuntimeError if an interrupt has ended the sampler early; warns if it gave no batch after a resume."""
        if isinstance(self._batches, Sampled):
            self._batches.check_end()
        if self._is_empty and self._position:
            warnings.warn(
                f"the state is of an epoch that was over: the sampler gives no batch after position {self._position}. "
                "The last batch of a sampler with a length is known, and then the next epoch begins at once",
                stacklevel=2,
            )

    # ---- states ----------------------------------------------------------------------------------------------------

    def saved_at(self, position: int) -> SavedSampler:
        """Returns the state from which the batches from `position` on are found."""
        sampler = epoch_holder(self._batch_sampler)
        epoch = sampler.epoch if self._epoch is None and sampler is not None else self._epoch
        generators = self._generators
        if not self._has_drawn and self.kind != "stateful":
            generators = generators_of(self._batch_sampler)
        seed = None if self._own is None else self._own.seed
        state = self._own_states[position - self._num_noted - 1] if self.kind == "stateful" else None
        return SavedSampler(self.kind, epoch, seed, generators, self._program, self._num_asked, state)

    @property
    def _num_asked(self) -> int:
        """The number of the epoch's batches that the sampler was asked for, before and after resuming."""
        before = 0 if self._saved is None else self._saved.num_asked
        return before if self._batches is None else max(before, self._batches.num_asked)

    def saved_after(self, *, is_exhausted: bool) -> Callable[[], SavedSampler]:
        """Returns a function that makes the state of the next epoch, when all batches of this one were handed out.

        `is_exhausted`: the sampler was also asked for one batch more.
        """
        rest = functools.partial(sampler_at_rest, self._batch_sampler, self._own_end)
        if is_exhausted or self.kind != "random" or not (generators := generators_of(self._batch_sampler)):
            return rest
        assert self._own is not None, "torch's own"
        (name,) = generators
        saved = replace(rest(), generators={name: self._own.generator_after()})
        return lambda: saved
