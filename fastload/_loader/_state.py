"""Everything that a loader keeps between iterations."""

from __future__ import annotations

import functools
import threading
from typing import Any

from fastload._decode_cache._loader_cache import LoaderCache
from fastload._delivery._batch_memory import StagedMemory
from fastload._delivery._device import Device, PinnedMemory
from fastload._display._stats import CURRENT_LEVELS, LoaderStats
from fastload._iteration._progress import Progress
from fastload._iteration._settings import LoaderSettings
from fastload._iteration.native._engine import LoaderEngine
from fastload._iteration.python._counters import add_counters
from fastload._iteration.python._loader_workers import LoaderWorkers
from fastload._process._exit import LiveObjects
from fastload._process._locked import Locked
from fastload._process._waits import WaitHistogram
from fastload._quarantine._quarantine import Quarantine
from fastload.sources._lowering import LoweredSource

# Enough for training and validation data, and two more loaders that are used in turns with them.
MOST_AT_REST = 4


class LoaderState(Locked):
    """State of a loader between iterations, in one attribute: more names could clash with those in derived classes.

    A copy has the settings and the epoch, but no threads, plans and counters.

    Attributes:
        settings: The settings as given.
        kind: fastload.DataLoader; the loader may be of a derived class.
        source: The data set's compact form.
        device, opened: The device that was opened last, and the value of `device` that it was opened for.
        pinned: Memory of batches that stay on the host.
        staged: Memory of batches that go to a device.
        waits: How long next() waited for each batch.
        progress: The position of the last iteration, and a state that was loaded for the next one.
    """

    def __init__(self, settings: LoaderSettings, kind: type[Any], epoch: int = 0) -> None:
        super().__init__()
        self.settings, self.kind = settings, kind
        self._engine: tuple[LoaderEngine | None, dict[str, Any]] = None, {}  # and the counts of earlier engines
        self.source: LoweredSource | None = None
        self.workers = LoaderWorkers()
        self.device: Device | None = None
        self.opened: Any = None
        self.pinned = PinnedMemory()
        self.staged: LiveObjects[StagedMemory] = LiveObjects()
        self.waits = WaitHistogram()
        self.quarantine: Quarantine | None = None
        self.cache = LoaderCache()
        self.progress = Progress(epoch)
        self.has_warned_of_program_draws = False
        self.has_warned_of_inexact = False

    @staticmethod
    def of(loader: object) -> LoaderState:
        """Returns the state of a fastload.DataLoader."""
        kept: LoaderState = vars(loader)["_fastload"]
        return kept

    def with_settings(self, settings: LoaderSettings) -> LoaderState:
        """Returns the state for a copy of the loader: these settings and the epoch, and nothing else."""
        return LoaderState(settings, self.kind, self.progress.epoch)

    def settings_of(self, loader: object) -> LoaderSettings:
        """Returns the current settings: the loader's attributes, which may have been changed since construction.

        A derived class may use the names for attributes of its own; its settings are the ones given at construction.
        """
        if type(loader) is not self.kind:
            return self.settings
        return LoaderSettings(**{name: getattr(loader, name) for name in vars(self.settings)})

    @property
    def engine(self) -> LoaderEngine | None:
        """The native engine; None if there is none."""
        return self._engine[0]

    def exchange_engine(self, engine: LoaderEngine | None) -> None:
        """Replaces the engine; the counts of the old one are kept."""
        counted = {name: count for name, count in self.engine_stats().items() if name not in CURRENT_LEVELS}
        self._engine = engine, counted

    def engine_stats(self) -> dict[str, Any]:
        """Returns the counters of all engines so far, by the names of LoaderStats."""
        engine, before = self._engine
        return before if engine is None or engine.native.is_forked else add_counters(before, engine.native.stats())

    @property
    def pinned_memory(self) -> PinnedMemory:
        """The source of page-locked memory: the device's if batches go to a device."""
        return self.pinned if self.device is None else self.device.pinned

    def stats(self) -> LoaderStats:
        """Returns counts, times and memory of all iterations."""
        others = {
            **self.waits.stats(),
            **self.workers.caches.with_levels(self.cache.stats()),
            "pageable_allocations": self.pinned_memory.num_pageable,
        }
        parts = (self.workers.stats(), others, *(memory.stats() for memory in self.staged.all()))
        return LoaderStats.from_counters(functools.reduce(add_counters, parts, self.engine_stats()))

    def end_engine(self) -> None:
        """Releases native threads and their memory, unless an iterator is in use. The next epoch starts new ones.

        It never waits, because it is called while an epoch of another loader begins.
        """
        turn = self.turn
        if not turn.acquire(blocking=False):  # an epoch of this loader is beginning
            return
        try:
            engine = self.engine
            if engine is not None and not engine.native.is_forked and not engine.iterators.all():
                self.exchange_engine(None)  # nothing refers to the old engine now
        finally:
            turn.release()

    @property
    def turn(self) -> threading.RLock:
        """The lock that a thread holds while it begins an iteration."""
        return self._lock

    def __reduce__(self) -> tuple[Any, ...]:
        return LoaderState, (self.settings, self.kind, self.progress.epoch)


class NextEpoch:
    """The attribute `epoch` of a loader. A program or a derived class may set an attribute of that name instead."""

    def __get__(self, loader: object, owner: type | None = None) -> Any:
        return self if loader is None else LoaderState.of(loader).progress.epoch


# Native loaders, ordered by the start of their last epoch.
_recent: LiveObjects[LoaderState] = LiveObjects()


def begin_recent(state: LoaderState) -> None:
    """Notes that an epoch of that native loader begins; older idle loaders release their threads and memory.

    If every loader kept them, its next epoch would start at once. But a program may have hundreds of loaders, one for
    each client in federated learning or each task of a benchmark. So only the most recently used idle loaders keep
    them.
    """
    _recent.add(state)
    for older in _recent.all()[:-MOST_AT_REST]:
        older.end_engine()
