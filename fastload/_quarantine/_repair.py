"""What a batch is loaded as when samples of it cannot be loaded: by whole batches, not sample by sample.

Note [repaired batches]
A batch that was loaded tells which of its places have failed. It is loaded again with others in their place, or without
them, until none fails; which others, and in which order, is what SampleGuard does one sample after the other. Places
fail independently of one another, but for one thing: whether a transform can be applied may depend on what it draws,
and with torch's draws a sample draws other numbers where one before it should not have drawn. So only the first place
that fails is final at once. What fails behind it is replaced, too, to save loads; its draws until the failure are made
again, and where it does not fail with those it is put back (`revived`).

Objects are not changed: what an interrupt cuts short is done again from the same ones.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastload._errors import SampleError
from fastload._quarantine._failure import Account, Failure, is_of_sample
from fastload._quarantine._guard import RETRIED
from fastload._quarantine._policy import ErrorPolicy
from fastload._quarantine._substitutes import Candidates, choices
from fastload.samplers._draw_numbers import Numbers

# Width and height of an image.
Size = tuple[int, int]
# Gives how the sample of an index fails, where that is known; position and role are those of another batch.
FindKnown = Callable[[int], "Failure | None"]


class Handling(NamedTuple):
    """What is done about bad samples.

    Attributes:
        policy: With on_error "replace" or "skip".
        candidates: What may stand in.
    """

    policy: ErrorPolicy
    candidates: Candidates


class FailedPlace(NamedTuple):
    """A place of a batch that failed in a load.

    Attributes:
        position: In what was loaded.
        error: Why.
        drawn_size: Of the image whose transform had drawn when it failed; None where nothing was drawn in order.
    """

    position: int
    error: BaseException
    drawn_size: Size | None


class Unrepairable(NamedTuple):
    """What is raised in the place of a batch, and what that tells of its samples."""

    error: BaseException
    account: Account


@dataclass(frozen=True)
class Place:
    """A place of a batch whose own sample cannot be loaded.

    Attributes:
        tries: The sample, and behind it those that are tried in its place.
        failures: Of the first of these.
        drawn_sizes: FailedPlace.drawn_size of each.
        error: That of the sample itself, once it has failed here; None where it was known to.
        num_retries: How often the one at hand was tried again.
    """

    tries: tuple[int, ...]
    failures: tuple[Failure, ...] = ()
    drawn_sizes: tuple[Size | None, ...] = ()
    error: Exception | None = None
    num_retries: int = 0

    @property
    def index(self) -> int | None:
        """What is loaded there; None: nothing is left to be tried."""
        return self.tries[len(self.failures)] if len(self.failures) < len(self.tries) else None

    def failed(self, failure: Failure, drawn_size: Size | None, error: Exception | None) -> Place:
        """With the next one to be tried."""
        first = error if not self.failures else self.error
        return replace(
            self,
            failures=(*self.failures, failure),
            drawn_sizes=(*self.drawn_sizes, drawn_size),
            error=first,
            num_retries=0,
        )

    def back_to(self, count: int) -> Place:
        """With the first `count` failures."""
        error = self.error if count else None
        return replace(
            self, failures=self.failures[:count], drawn_sizes=self.drawn_sizes[:count], error=error, num_retries=0
        )


@dataclass(frozen=True)
class BatchRepair:
    """A batch, and what has become of its samples so far.

    Attributes:
        policy: With on_error "replace" or "skip".
        candidates: What may stand in.
        indices: Of the sampler.
        places: Those whose own sample cannot be loaded, by position.
        pause: How often the storage has been asked in vain, where it is to be left in peace for a while; None: it is
            not.
    """

    policy: ErrorPolicy
    candidates: Candidates
    indices: NDArray[np.int64]
    places: Mapping[int, Place]
    pause: int | None = None

    @functools.cached_property
    def _is_skipping(self) -> bool:
        return self.policy.on_error == "skip"

    @functools.cached_property
    def positions(self) -> NDArray[np.int64]:
        """Of the samples that are loaded, among those of the sampler."""
        is_loaded = np.ones(len(self.indices), dtype=np.bool_)
        is_loaded[[position for position, place in self.places.items() if place.index is None]] = False
        return np.flatnonzero(is_loaded)

    @functools.cached_property
    def loaded(self) -> NDArray[np.int64]:
        """The indices of what is loaded."""
        indices: NDArray[np.int64] = self.indices.copy()
        for position, place in self.places.items():
            if place.index is not None:
                indices[position] = place.index
        loaded: NDArray[np.int64] = indices[self.positions]
        return loaded

    def numbers_of_loaded(self, numbers: Numbers | None) -> Numbers | None:
        """Those of what is loaded, of the draws of the sampler's samples."""
        return None if numbers is None else numbers[self.positions]

    @property
    def replaced(self) -> dict[int, int]:
        """Position in what is loaded -> the sampler's index, where that is another one."""
        if self._is_skipping:
            return {}
        return {position: place.tries[0] for position, place in self.places.items() if place.failures}

    @functools.cached_property
    def _lost(self) -> list[tuple[int, int, Size]]:
        """Position, number of the try and size of those that have drawn and are not loaded, in the order of draws."""
        return [
            (position, number, size)
            for position, place in sorted(self.places.items())
            for number, size in enumerate(place.drawn_sizes)
            if size is not None
        ]

    @property
    def lost_draws(self) -> list[tuple[int, int, int]]:
        """Position in what is loaded of the sample that draws behind it, width and height of each of these."""
        return [(int(np.searchsorted(self.positions, position)), *size) for position, _, size in self._lost]

    def planned(self, known: Sequence[int], find_known: FindKnown) -> BatchRepair:
        """The same before it is loaded: with others for those at positions that are known to fail.

        Where a batch would come to an error that way it is loaded, to find out which one.
        """
        places = dict(self.places)
        for position in known:
            place = self._passed_over(self._place(position), position, find_known)
            if place.failures and (self._is_skipping or place.index is not None):
                places[position] = place
        return replace(self, places=places)._with_something_left()

    def after(self, failed: Sequence[FailedPlace], revived: Sequence[int], find_known: FindKnown) -> Repair:
        """What is to be loaded next, or raised, where these have failed in a load, by position."""
        places, pause = dict(self.places), None
        back = [self._lost[number] for number in revived]
        is_certain = not back or (bool(failed) and self.positions[failed[0].position] < back[0][0])
        for number, each in enumerate(failed):
            position = int(self.positions[each.position])
            place = self._place(position)
            assert place.index is not None, "it was loaded"
            error = each.error
            if not isinstance(error, SampleError) or not is_of_sample(error):
                if number == 0 and is_certain:
                    return Unrepairable(error, self._account(self.places, position + 1))
                continue
            if error.errno in RETRIED and place.num_retries < self.policy.retries:
                pause = max(pause or 0, place.num_retries)
                places[position] = replace(place, num_retries=place.num_retries + 1)
                continue
            failure = Failure.of(error, place.index, position, is_substitute=bool(place.failures))
            place = self._passed_over(place.failed(failure, each.drawn_size, error), position, find_known)
            if place.index is not None or self._is_skipping:
                places[position] = place
            elif place.error is None:  # it was known to fail: now it does so here
                places[position] = place.back_to(0)
            elif number == 0 and is_certain:
                return Unrepairable(place.error, self._account({**self.places, position: place}, position + 1))
        for position, number, _ in reversed(back):
            places[position] = places[position].back_to(number)
        return replace(self, places=places, pause=pause)._with_something_left()

    def _place(self, position: int) -> Place:
        if position in self.places:
            return self.places[position]
        index = int(self.indices[position])
        return Place((index,) if self._is_skipping else (index, *choices(index, self.candidates)))

    def _passed_over(self, place: Place, position: int, find_known: FindKnown) -> Place:
        """`place` behind those that are known to fail."""
        while place.index is not None:
            known = find_known(place.index)
            if known is None:
                break
            failure = replace(known, position=position, is_substitute=bool(place.failures))
            place = place.failed(failure, None, None)
        return place

    def _with_something_left(self) -> BatchRepair:
        """Or with errors to raise: samples that are known to fail are loaded then."""
        if len(self.positions) or not len(self.indices) or self.places[0].error is not None:
            return self
        return replace(self, places={position: place for position, place in self.places.items() if place.error})

    @property
    def first_error(self) -> Exception | None:
        """That of the first sample, where all of them are left out."""
        return self.places[0].error if len(self.indices) and not len(self.positions) else None

    @property
    def account(self) -> Account:
        """Of the batch when it is handed out, or its first error is raised."""
        return self._account(self.places, len(self.indices))

    def _account(self, places: Mapping[int, Place], count: int) -> Account:
        """That of the first `count` samples."""
        failures = [
            failure.with_substitute(None if self._is_skipping else place.index)
            for position, place in sorted(places.items())
            if position < count
            for failure in place.failures
        ]
        return Account(count, tuple(failures))


Repair = BatchRepair | Unrepairable
