"""What a loader keeps between iterations."""

from __future__ import annotations

import functools
import os
import threading
from types import CodeType
from typing import Any

from fastload._decode_cache._loader_cache import LoaderCache
from fastload._delivery._batch_memory import StagedMemory
from fastload._delivery._device import Device, PinnedMemory
from fastload._display._stats import CURRENT_LEVELS, LoaderStats
from fastload._images._processes import ProcessImages
from fastload._iteration._settings import LoaderSettings
from fastload._iteration._torch_iterator import TorchCounters
from fastload._iteration.native._engine import LoaderEngine
from fastload._iteration.threads._counters import add_counters
from fastload._iteration.threads._loader_threads import LoaderThreads
from fastload._process._exit import LiveObjects
from fastload._process._waits import WaitHistogram
from fastload._quarantine._quarantine import Quarantine
from fastload._resume._progress import Progress
from fastload.sources._lowering import LoweredSource


class LoaderState:
    """All of it in one attribute of the loader: more of them would meet those of derived classes.

    A copy has the settings and the epoch; threads, plans and counters stay behind.

    Attributes:
        settings: As given.
        source: The dataset's compact form.
        threads: What iterations in threads of Python share.
        torch: Counters of torch's own iterators.
        process_images: Counters of images in torch's worker processes.
        device, opened: What was opened last, and the value of `device` that it is.
        pinned: Memory of batches that stay on the host.
        staged: Memory of those that go to a device.
        waits: How long each batch took to come.
        quarantine: The account of bad samples, where they are replaced or left out.
        cache: What is kept of decoded images.
        progress: Of the iteration that began last, and a state that was loaded for the next one.
        rest: What makes a state before the first iteration, and the epoch and ranks that it is of.
    """

    def __init__(self, settings: LoaderSettings, epoch: int = 0, *, is_plain: bool = False) -> None:
        self.settings, self._is_plain = settings, is_plain
        self._engine: tuple[LoaderEngine | None, dict[str, Any]] = None, {}  # and what those before it have counted
        self.source: LoweredSource | None = None
        self.threads = LoaderThreads()
        self.torch = TorchCounters()
        self.process_images = ProcessImages()
        self.device: Device | None = None
        self.opened: Any = None
        self.pinned = PinnedMemory()
        self.staged: LiveObjects[StagedMemory] = LiveObjects()
        self.waits = WaitHistogram()
        self.quarantine: Quarantine | None = None
        self.cache = LoaderCache()
        self.progress = Progress(epoch)
        self.rest: tuple[Any, CodeType] | None = None
        self.has_warned_of_program_draws = False
        self.has_warned_of_beginning = False
        self.has_warned_of_inexact = False
        self._turn, self._pid = threading.RLock(), os.getpid()

    @staticmethod
    def of(loader: object) -> LoaderState:
        """Returns what a fastload.DataLoader keeps."""
        kept: LoaderState = vars(loader)["_fastload"]
        return kept

    def with_settings(self, settings: LoaderSettings) -> LoaderState:
        """Returns the state of a copy of the loader: these settings and the epoch, and nothing else."""
        return LoaderState(settings, self.epoch, is_plain=self._is_plain)

    def settings_of(self, loader: object) -> LoaderSettings:
        """Returns the settings that count now: the loader's attributes, which may have been set since.

        In a derived class they may be its own, with a meaning of its own, so there it is what was given.
        """
        if not self._is_plain:
            return self.settings
        return LoaderSettings(**{name: getattr(loader, name) for name in vars(self.settings)})

    @property
    def epoch(self) -> int:
        """Of the next iteration."""
        return self.progress.epoch

    @epoch.setter
    def epoch(self, epoch: int) -> None:
        self.progress.epoch = epoch

    @property
    def engine(self) -> LoaderEngine | None:
        """The native one, while there is one."""
        return self._engine[0]

    def exchange_engine(self, engine: LoaderEngine | None) -> None:
        """What the one before has counted stays counted."""
        counted = {name: count for name, count in self.engine_stats().items() if name not in CURRENT_LEVELS}
        self._engine = engine, counted

    def engine_stats(self) -> dict[str, Any]:
        """Counters of all native ones, by the names of LoaderStats."""
        engine, before = self._engine
        return before if engine is None or engine.native.is_forked else add_counters(before, engine.native.stats())

    @property
    def pinned_memory(self) -> PinnedMemory:
        """Where page-locked memory comes from: the device's, where batches go to one."""
        return self.pinned if self.device is None else self.device.pinned

    def stats(self) -> LoaderStats:
        """Returns counts, times and memory of all iterations."""
        others = {
            **self.torch.stats(),
            **self.process_images.stats(),
            **self.waits.stats(),
            **self.cache.stats(),
            "pageable_allocations": self.pinned_memory.num_pageable,
        }
        parts = (self.threads.stats(), others, *(memory.stats() for memory in self.staged.all()))
        return LoaderStats.from_counters(functools.reduce(add_counters, parts, self.engine_stats()))

    def end_engine(self) -> None:
        """Lets go of native threads and their memory, unless somebody iterates. The next epoch starts new ones.

        Waits for nothing: another loader's epoch begins.
        """
        turn = self.turn()
        if not turn.acquire(blocking=False):  # an epoch begins
            return
        try:
            engine = self.engine
            if engine is not None and not engine.native.is_forked and not engine.iterators.all():
                self.exchange_engine(None)  # nobody holds the other one now
        finally:
            turn.release()

    def turn(self) -> threading.RLock:
        """Held by the thread that begins an iteration. Threads of a parent process, which are not here, hold none."""
        if os.getpid() != self._pid:
            self._turn, self._pid = threading.RLock(), os.getpid()
        return self._turn

    def __reduce__(self) -> tuple[Any, ...]:
        return functools.partial(LoaderState, is_plain=self._is_plain), (self.settings, self.epoch)


class NextEpoch:
    """The attribute `epoch` of a loader. A program, or a derived class, may have one of that name in its place."""

    def __get__(self, loader: object, owner: type | None = None) -> Any:
        return self if loader is None else LoaderState.of(loader).epoch
