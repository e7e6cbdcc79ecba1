"""The part of a worker that runs in its process: it takes requests and answers each with a batch or an error."""

from __future__ import annotations

import contextlib
import ctypes
import os
import pickle
import random
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.multiprocessing
from torch.utils.data._utils import signal_handling, worker

from fastload import _native
from fastload._decode_cache._worker_cache import WorkerCache
from fastload._images._opener import decode_natively
from fastload._iteration._maker import Request
from fastload._iteration._saved_worker import SavedWorker
from fastload._iteration.processes._arenas import SlotMemory
from fastload._iteration.processes._connections import EndFlag, keep_only
from fastload._iteration.processes._messages import (
    Answer,
    Begun,
    Ended,
    Lost,
    WorkerReport,
    packed_batch,
    packed_failure,
)
from fastload._iteration.processes._snapshots import SnapshotMessage
from fastload._iteration.python._counters import WorkerCounters
from fastload._iteration.python._task import Task
from fastload._iteration.python._worker import Worker, WorkerPlan
from fastload._iteration.python._worker_draws import WorkerStart
from fastload._process import _config, _worker_process
from fastload._workers._collate_memory import CollateMemory
from fastload._workers._generators import WorkerGenerators
from fastload._workers._places import HeldGenerators
from fastload._workers._seeding import seed_numpy_of_process
from fastload._workers._torch_globals import set_worker_globals
from fastload._workers._user_code import UserCode

# How often a worker without work looks whether its parent still lives.
_WATCH_SECONDS = 2.0
_LAST_WORDS_SECONDS = 1.0
# man 5 proc: /proc/pid/oom_score_adj.
_OOM_SCORE = Path("/proc/self/oom_score_adj")
_MORE_OOM_SCORE, _MOST_OOM_SCORE = 500, 1000
# From malloc.h. None: another C library, or the user has set malloc. The first calls of ctypes and Tensor.numpy() touch
# 150 pages, so they come before workers are forked.
_set_malloc_option = None if _config.has_malloc_settings() else getattr(ctypes.CDLL(None), "mallopt", None)
torch.empty(0, device="cpu").numpy()
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_MAX_MMAP_BYTES = 32 << 20


@dataclass(frozen=True)
class ChildPlan:
    """Everything that the worker processes of an iterator get from it. Can be pickled if the user's code can.

    Attributes:
        code: The user's code.
        held: The generators that it holds, if forked workers have the objects that they were found in.
        workers: The plan of the workers, which get counters and a cache of their own.
        make_cache: Opens the process's cache of decoded images.
        parent_pid: The process that the batches are for if it forks the workers; None: another process starts them.
    """

    code: UserCode
    held: HeldGenerators | None
    workers: WorkerPlan
    make_cache: Callable[[], WorkerCache]
    parent_pid: int | None


class ProcessGenerators(WorkerGenerators):
    """The process's own generators, seeded as the installed torch seeds them in its worker processes."""

    def __init__(self, base_seed: int, worker_id: int) -> None:
        self.worker_id, self.worker_seed = worker_id, base_seed + worker_id
        self.counter = (0, 0, 0, 0)
        _native.ThreadGenerators.__init__(self, random._inst, np.random.mtrand._rand, torch.default_generator)
        random.seed(self.worker_seed)
        _seed_torch(self.worker_seed)
        seed_numpy_of_process(worker._generate_state(base_seed, worker_id))  # type: ignore[no-untyped-call]


def _seed_torch(seed: int) -> None:
    """Calls torch.manual_seed() without the traceback that it keeps for GPUs, for which it reads source files."""
    limit = getattr(sys, "tracebacklimit", None)
    sys.tracebacklimit = 0
    torch.manual_seed(seed)
    del sys.tracebacklimit
    if limit is not None:
        sys.tracebacklimit = limit


class ProcessWorker(Worker):
    """A worker in the main thread of its process, which is all its own; see Worker."""

    _where = "in DataLoader worker process"
    _new_generators = ProcessGenerators

    def _enter(self, until_end: contextlib.ExitStack) -> None:
        worker._worker_info = self.globals.info
        set_worker_globals(self.globals)
        if self._plan.fetch.native_images:
            decode_natively(self._images)  # in all threads that the user's code may have

    def _goes_on_after(self, error: BaseException) -> bool:
        return isinstance(error, Exception)

    def _is_abandoned(self) -> bool:
        return self._is_group_ending()


def run_worker(
    plan: ChildPlan,
    number: int,
    socket: _native.MessageSocket,
    arena: _native.Arena | None,
    is_ending: EndFlag,
    blocked: Iterable[int],
) -> None:
    """Works until the parent ends it or is gone. Runs in the main thread of the worker's process.

    `blocked` are the signals that fastload, and not the program, has blocked since before this process began.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's
    signal_handling._set_worker_signal_handlers()  # type: ignore[attr-defined]
    signal.pthread_sigmask(signal.SIG_UNBLOCK, blocked)
    torch.multiprocessing._set_thread_name("pt_data_worker")
    torch.set_num_threads(1)
    _free_seeding_locks()
    _keep_freed_memory()
    _go_before_the_parent()
    _worker_process.become_worker()
    keep_only(socket)
    process = _Process(plan, number, socket, arena, is_ending.byte)
    try:
        process.run()
    except BaseException as error:
        process.say_last_words(error)
        if not isinstance(error, KeyboardInterrupt):  # torch's workers end without a word, too
            raise


def _free_seeding_locks() -> None:
    """Frees the locks of torch.manual_seed(), which another thread of the parent may have held at the fork."""
    for device in (torch.cuda, torch.mtia, torch.xpu):
        lock = getattr(device, "_initialization_lock", None)
        if lock is not None:
            lock._at_fork_reinit()


def _keep_freed_memory() -> None:
    """Makes malloc keep the memory that a sample frees for the next one, unless the user has set that.

    By its defaults glibc gives it back to the system and takes it again, up to 130 page faults in each sample. The
    thresholds are the largest ones that it would choose by itself.
    """
    if _set_malloc_option is not None:
        _set_malloc_option(_M_MMAP_THRESHOLD, _MAX_MMAP_BYTES)
        _set_malloc_option(_M_TRIM_THRESHOLD, 2 * _MAX_MMAP_BYTES)


def _go_before_the_parent() -> None:
    """Makes this process end before the training does when memory runs out."""
    with contextlib.suppress(OSError, ValueError), _OOM_SCORE.open("r+b", buffering=0) as file:
        score = min(_MOST_OOM_SCORE, int(file.read()) + _MORE_OOM_SCORE)
        file.seek(0)
        file.write(str(score).encode())


class _Process:
    def __init__(
        self, plan: ChildPlan, number: int, socket: _native.MessageSocket, arena: _native.Arena | None, is_ending: Any
    ) -> None:
        self._plan, self._number, self._socket, self._is_ending = plan, number, socket, is_ending
        self._memory = SlotMemory(arena, CollateMemory(plan.workers.max_batches))
        self._counters = WorkerCounters()
        self._last_key = -1
        self._has_begun = False
        self._last: tuple[SavedWorker, SnapshotMessage] | None = None  # that was sent, as a whole
        self._parent_pid = plan.parent_pid or os.getppid()

    def run(self) -> None:
        plan = self._plan
        cache = self._cache = plan.make_cache()
        fetch = replace(plan.workers.fetch, counters=self._counters, open_cache=cache.open)
        code = plan.code.of_worker(open_cache=cache.open)
        held = plan.held or HeldGenerators(code)
        workers = replace(plan.workers, fetch=fetch)
        of_process = ProcessWorker(workers, self._number, code, held, self._should_stop, self._memory)
        with contextlib.ExitStack() as until_end:
            of_process.prepare(until_end)
            for message in self._messages():
                if isinstance(message, WorkerStart):
                    if message.epoch > 1:
                        cache.begin_epoch()
                    of_process.begin_epoch(message)
                    self._answer_start(message)
                elif not self._is_ending[0]:
                    self._answer(of_process, *message)
        self._memory.release()
        cache.close()
        self._send(Ended(self._report()))

    def _messages(self) -> Iterator[Any]:
        """Yields a WorkerStart, or a batch's request and its arguments, until there will be no more."""
        while True:
            begin = time.monotonic()
            while (first := self._socket.first()) is None:
                # A state may be asked for after the iterator is gone, and needs the positions at which workers began.
                is_over = self._is_ending[0] and self._has_begun
                if self._socket.has_ended or is_over or os.getppid() != self._parent_pid:
                    return
                _native.wait_for_message([self._socket], _WATCH_SECONDS)
            number, data = first
            self._socket.drop(number)
            self._counters.add({"worker_wait_seconds": time.monotonic() - begin})
            if not data:  # the parent has ended the iteration
                return
            kind, *values = pickle.loads(data)
            if kind == "begin":
                self._has_begun = True
                yield WorkerStart(*values)
            elif kind == "distrust":
                self._cache.distrust()
            elif values[0] > self._last_key:  # an interrupt of the parent may have come between sending and noting it
                self._last_key = values[0]
                yield values

    def _should_stop(self) -> bool:
        """Returns whether batches are not wanted any more. Called between samples; sends the rest of an answer."""
        self._socket.flush()
        return bool(self._is_ending[0])

    def _answer_start(self, start: WorkerStart) -> None:
        snapshot = self._changed(start.snapshot)
        self._send(Begun(start.epoch, snapshot, start.error, start.is_stateful, self._report()))

    def _answer(
        self, of_process: ProcessWorker, key: int, request: Request, is_asked: bool, epoch: int, copied: list[int]
    ) -> None:
        self._memory.set_free(copied)
        task = Task(request, is_asked=is_asked, epoch=epoch, worker_id=self._number)
        of_process.make(task)
        if not task.is_done:  # abandoned
            return
        where = f"in DataLoader worker process {self._number}"
        if task.failure is not None:
            packed = packed_failure(task.failure, self._memory)
        elif task.is_end_of_stream:
            packed = None
        else:
            packed = packed_batch(task.batch, where, self._memory)
        self._memory.end_batch(key)
        snapshot = self._changed(task.snapshot)
        self._send(Answer(key, packed, task.is_end_of_stream, task.account, snapshot, self._report()))

    def _send(self, message: Begun | Answer | Ended | Lost) -> None:
        self._socket.put(pickle.dumps(message, 5))

    def _changed(self, snapshot: SavedWorker | None) -> SnapshotMessage | None:
        """Returns a snapshot that is sent next, without the parts that are as they were in the one before."""
        if snapshot is None:
            return None
        last, message = self._last, SnapshotMessage.of(snapshot, self._last)
        self._last = snapshot, message
        return message if last is None else message.after(last[1])

    def _report(self) -> WorkerReport:
        cache = self._cache.report()
        return WorkerReport({**self._counters.take(), **cache.counters}, cache, _worker_process.take_kept())

    def say_last_words(self, error: BaseException) -> None:
        """Tells the parent why the process ends."""
        with contextlib.suppress(Exception):
            self._send(Lost(f"{type(error).__name__}: {error}"))
            deadline = time.monotonic() + _LAST_WORDS_SECONDS
            while self._socket.has_unsent and time.monotonic() < deadline:
                time.sleep(0.01)
                self._socket.flush()
