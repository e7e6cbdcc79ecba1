"""Loads samples one by one, and substitutes for those that cannot be loaded."""

from __future__ import annotations

import errno
import operator
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from fastload._quarantine._failure import Account, Failure, is_of_sample
from fastload._quarantine._policy import ErrorPolicy
from fastload._quarantine._substitutes import Candidates, choices

# Errors of storage that may work the next time.
RETRIED = frozenset({errno.EIO, errno.ESTALE, errno.ETIMEDOUT})
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.1, 5.0


def pause_before(attempt: int) -> None:
    """Waits before failed storage is asked again, longer with each attempt; `attempt` counts from 0."""
    time.sleep(min(_LONGEST_PAUSE_SECONDS, _FIRST_PAUSE_SECONDS * 2**attempt))


class SampleGuard:
    """Loads the samples of one thread by an active policy, and keeps account of the failed ones. Not thread-safe."""

    def __init__(self, policy: ErrorPolicy, candidates: Candidates) -> None:
        self._policy = policy
        self._candidates = candidates
        self._num_samples = 0
        self._failures: list[Failure] = []

    def batch(self, indices: Iterable[Any], load: Callable[[Any], Any]) -> list[Any]:
        """Returns what `load` gives for each index or for its substitute, without samples that are left out.

        Raises what `load` raises if the sample is not the cause, no substitute can be loaded, or the batch would be
        empty.
        """
        samples: list[Any] = []
        first_error: Exception | None = None
        for position, index in enumerate(indices):
            sample, error = self._loaded(position, index, load)
            if error is None:
                samples.append(sample)
            else:
                first_error = first_error or error
        if first_error is None or samples:
            return samples
        try:
            raise first_error
        finally:
            del first_error  # its traceback has this frame

    def one(self, index: Any, load: Callable[[Any], Any]) -> Any:
        """Loads a sample that is not part of a batch, so it cannot be left out."""
        return self._loaded(0, index, load)[0]

    def _loaded(self, position: int, index: Any, load: Callable[[Any], Any]) -> tuple[Any, Exception | None]:
        """Returns a sample, or the error of one that is left out."""
        self._num_samples += 1
        try:
            return self._tried(index, load), None
        except Exception as error:
            is_number = hasattr(index, "__index__")
            if not is_of_sample(error) or not (self._policy.on_error == "skip" or is_number):
                raise  # the substitute is chosen by the index
            found = [Failure.of(error, operator.index(index) if is_number else index, position)]
            try:
                if self._policy.on_error == "skip":
                    return None, error
                sample, instead = self._replacement(found, load)
                found = [replace(failure, substitute=instead) for failure in found]
                if instead is None:
                    raise
                return sample, None
            finally:
                self._failures += found

    def _replacement(self, found: list[Failure], load: Callable[[int], Any]) -> tuple[Any, int | None]:
        """Returns a substitute and its index; None twice if every choice failed, each of which `found` then has."""
        position = found[0].position
        for choice in choices(found[0].index, self._candidates):
            try:
                return self._tried(choice, load), choice
            except Exception as error:
                if not is_of_sample(error):
                    raise
                found.append(Failure.of(error, choice, position, is_substitute=True))
        return None, None

    def _tried(self, index: int, load: Callable[[int], Any]) -> Any:
        for attempt in range(self._policy.retries):
            try:
                return load(index)
            except Exception as error:
                if getattr(error, "errno", None) not in RETRIED or not is_of_sample(error):
                    raise
            pause_before(attempt)
        return load(index)

    def take(self) -> Account:
        """Returns the account since the last call."""
        account = Account(self._num_samples, tuple(self._failures))
        self._num_samples, self._failures = 0, []
        return account
