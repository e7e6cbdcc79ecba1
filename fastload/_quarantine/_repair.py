"""Repairs batches with samples that cannot be loaded: whole batches, not sample by sample.

Note [repaired batches]
A loaded batch reports which of its places failed. It is loaded again with substitutes for these, or without them, until
none fails; the choice and order of substitutes is SampleGuard's, which tries one sample after the other. Places fail
independently of one another, with one exception: whether a transform can be applied may depend on what it draws, and
with torch's draws a sample draws other numbers if an earlier one should not have drawn. So only the first failed place
is final at once. Later ones are replaced, too, to save loads: their draws up to the failure are repeated, and a sample
that does not fail with these draws is put back (`revived`).

Objects are immutable, so a step that an interrupt cuts short is repeated with the same ones.
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

# Width and height of an image.
Size = tuple[int, int]
# Finds the known failure of the sample with an index; its position and role are from another batch.
FindKnown = Callable[[int], "Failure | None"]


class FailedPlace(NamedTuple):
    """A place of a batch, by its position among the loaded samples, that failed in a load.

    `drawn_size` is the image's if its transform had drawn before the failure; None if nothing was drawn in order.
    """

    position: int
    error: BaseException
    drawn_size: Size | None


class Unrepairable(NamedTuple):
    """An error that is raised instead of delivering a batch, and the account of its samples."""

    error: BaseException
    account: Account


@dataclass(frozen=True)
class Place:
    """A place of a batch whose own sample cannot be loaded.

    `tries` are the sample, then its substitutes. `failures` belong to the first of these, each with its
    FailedPlace.drawn_size. `error` is the sample's own once it has failed here; None if it was a known failure.
    `num_retries` counts how often the current try was repeated.
    """

    tries: tuple[int, ...]
    failures: tuple[tuple[Failure, Size | None], ...] = ()
    error: Exception | None = None
    num_retries: int = 0

    @property
    def index(self) -> int | None:
        """The index that is loaded here; None if nothing is left to try."""
        return self.tries[len(self.failures)] if len(self.failures) < len(self.tries) else None

    def failed(self, failure: Failure, drawn_size: Size | None, error: Exception | None) -> Place:
        """Returns this place with its current try failed, so the next one is current."""
        first = error if not self.failures else self.error
        return replace(self, failures=(*self.failures, (failure, drawn_size)), error=first, num_retries=0)

    def back_to(self, count: int) -> Place:
        """Returns this place with only the first `count` failures."""
        return replace(self, failures=self.failures[:count], error=self.error if count else None, num_retries=0)


@dataclass(frozen=True)
class BatchRepair:
    """A batch by the sampler's indices, and the state of its samples so far, for a policy that replaces or skips.

    `places` are those whose own sample cannot be loaded, by position. `pause` tells how often storage has failed, if it
    needs a pause before the next load; None if not.
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
        """The positions of loaded samples among the sampler's."""
        is_loaded = np.ones(len(self.indices), dtype=np.bool_)
        is_loaded[[position for position, place in self.places.items() if place.index is None]] = False
        return np.flatnonzero(is_loaded)

    @functools.cached_property
    def loaded(self) -> NDArray[np.int64]:
        """The indices of loaded samples."""
        indices: NDArray[np.int64] = self.indices.copy()
        for position, place in self.places.items():
            if place.index is not None:
                indices[position] = place.index
        loaded: NDArray[np.int64] = indices[self.positions]
        return loaded

    @property
    def replaced(self) -> dict[int, int]:
        """The sampler's index for each substitute, by position among the loaded samples."""
        if self._is_skipping:
            return {}
        return {position: place.tries[0] for position, place in self.places.items() if place.failures}

    @functools.cached_property
    def _lost(self) -> list[tuple[int, int, Size]]:
        """The position, try number and size of each sample that drew but is not loaded, in the order of draws."""
        return [
            (position, number, size)
            for position, place in sorted(self.places.items())
            for number, (_, size) in enumerate(place.failures)
            if size is not None
        ]

    @property
    def lost_draws(self) -> list[tuple[int, int, int]]:
        """The position of the loaded sample that draws next, width and height, for each sample that drew in vain."""
        return [(int(np.searchsorted(self.positions, position)), *size) for position, _, size in self._lost]

    def planned(self, known: Sequence[int], find_known: FindKnown) -> BatchRepair:
        """Returns the batch before its first load, with substitutes for known failures at the positions `known`.

        If that would lead to an error for the batch, the sample is loaded nevertheless, to find out which error.
        """
        places = dict(self.places)
        for position in known:
            place = self._passed_over(self._place(position), position, find_known)
            if place.failures and (self._is_skipping or place.index is not None):
                places[position] = place
        return replace(self, places=places)._with_something_left()

    def after(self, failed: Sequence[FailedPlace], revived: Sequence[int], find_known: FindKnown) -> Repair:
        """Returns what to load next, or to raise, given the places that failed in a load, by position."""
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
            elif place.error is None:  # a known failure, whose error is needed now
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
        """Returns `place` advanced past known failures."""
        while place.index is not None:
            known = find_known(place.index)
            if known is None:
                break
            failure = replace(known, position=position, is_substitute=bool(place.failures))
            place = place.failed(failure, None, None)
        return place

    def _with_something_left(self) -> BatchRepair:
        """Returns this repair, or one that loads the known failures, if nothing else is left, for their errors."""
        if len(self.positions) or not len(self.indices) or self.places[0].error is not None:
            return self
        return replace(self, places={position: place for position, place in self.places.items() if place.error})

    @property
    def first_error(self) -> Exception | None:
        """The error of the first sample if all are left out; otherwise None."""
        return self.places[0].error if len(self.indices) and not len(self.positions) else None

    @property
    def account(self) -> Account:
        """The account of the batch at its delivery, or when its first error is raised."""
        return self._account(self.places, len(self.indices))

    def _account(self, places: Mapping[int, Place], count: int) -> Account:
        """Returns the account of the first `count` samples."""
        failures = [
            replace(failure, substitute=None if self._is_skipping else place.index)
            for position, place in sorted(places.items())
            if position < count
            for failure, _ in place.failures
        ]
        return Account(count, tuple(failures))


Repair = BatchRepair | Unrepairable
