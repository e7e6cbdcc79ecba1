"""Counts the bad samples of a loader's batches as these are handed out, notes them, and ends a run of too many."""

from __future__ import annotations

import collections
import time
from collections.abc import Callable
from typing import Any

from fastload._errors import TooManyErrors
from fastload._quarantine._failure import Account, Failure
from fastload._quarantine._known_failures import KnownFailures
from fastload._quarantine._ledger import Ledger
from fastload._quarantine._policy import ErrorPolicy

# So few end no run, whatever share of it they are.
_FEW = 100
_COMMONEST = 5


class Quarantine:
    """The account of one loader in one process. Used by the thread that iterates.

    Args:
        policy: Of the loader.
        rank: Of this process among those that train together.
        world_size: How many these are.
        add: Called with counters to add, by the names of LoaderStats.

    Attributes:
        known: Samples that are known to fail.
    """

    def __init__(self, policy: ErrorPolicy, rank: int, world_size: int, add: Callable[[dict[str, Any]], None]) -> None:
        self.policy = policy
        self._rank = rank
        self._ledger = None if policy.ledger is None else Ledger.of_rank(policy.ledger, rank, world_size)
        self._add = add
        self._num_samples = self._num_failed = 0
        self._kinds: collections.Counter[str] = collections.Counter()
        self.known = KnownFailures()

    def count(self, account: Account, epoch: int, step: int) -> None:
        """Of a batch that is handed out, the one with number `step` in its epoch."""
        self._num_samples += account.num_samples
        if not account.failures:
            return
        bad = [failure for failure in account.failures if not failure.is_substitute]
        self._num_failed += len(bad)
        self._kinds.update(failure.kind for failure in account.failures)
        self._add({"samples_replaced" if self.policy.on_error == "replace" else "samples_skipped": len(bad)})
        if self._ledger is not None:
            self._ledger.append(self._entry(failure, epoch, step) for failure in account.failures)

    def _entry(self, failure: Failure, epoch: int, step: int) -> dict[str, Any]:
        return {"time": time.time(), "rank": self._rank, "epoch": epoch, "step": step, **failure.as_dict()}

    def check(self) -> None:
        """Raises TooManyErrors: more samples have failed than max_errors allows."""
        if self._num_failed <= max(_FEW, self.policy.max_errors * self._num_samples):
            return
        raise TooManyErrors(
            self._num_failed,
            self._num_samples,
            self.policy.max_errors,
            tuple(self._kinds.most_common(_COMMONEST)),
        )
