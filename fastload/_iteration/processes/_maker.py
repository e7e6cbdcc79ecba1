"""Batches made by processes that run Python, or by threads if processes cannot make them."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from fastload._decode_cache._worker_cache import WorkerCache
from fastload._errors import StateError
from fastload._iteration._maker import EpochStart, MadeBatch, Request, TorchValues
from fastload._iteration._setup import LoaderSetup
from fastload._iteration.processes._child import ChildPlan
from fastload._iteration.processes._process_group import ProcessGroup, ProcessTask, context_of
from fastload._iteration.python._fetcher import FetchPlan
from fastload._iteration.python._loader_workers import LoaderWorkers
from fastload._iteration.python._maker import WorkerMaker
from fastload._iteration.python._task import Task
from fastload._iteration.python._worker_group import WorkerGroup
from fastload._pillow._decode_image import OpenCache
from fastload._process._forked_cuda import FORKED_CUDA
from fastload._workers._data_pipes import with_graph
from fastload._workers._places import HeldGenerators

_REFUSED = frozenset({errno.EAGAIN, errno.ENOMEM, errno.EPERM})


class ProcessMaker(WorkerMaker):
    """Makes batches with the user's dataset and collate_fn in processes, as torch's DataLoader does.

    With `open_cache` it makes them in threads if no process can be started, or if the first batch shows that processes
    cannot make them. Threads begin with the same base seed and the same requests, so batches and states are as if they
    had begun. That holds only before a batch is taken: the sampler is not asked again, and the program has seen no
    batch.

    Args:
        context: The loader's multiprocessing_context, or None.
        make_cache: Opens a process's cache of decoded images; can be pickled.
        open_cache: Opens the cache of decoded images for threads; None: processes make all batches.
    """

    def __init__(
        self,
        setup: LoaderSetup,
        fetch: FetchPlan,
        record: LoaderWorkers,
        context: Any,
        make_cache: Callable[[], WorkerCache],
        open_cache: OpenCache | None,
    ) -> None:
        super().__init__(setup, fetch, record)
        self._context, self._make_cache = context_of(context), make_cache
        self._open_cache = open_cache
        self._is_of_processes = True
        self._may_move = open_cache is not None  # and nothing has come from the workers, which are processes
        self._moved: list[Request] | None = None  # requests that threads get; not None until they have them
        self._begun: EpochStart | None = None

    def start(self, values: TorchValues) -> None:
        self._values = values
        try:
            super().start(values)
        except OSError as error:
            if self._open_cache is None or error.errno not in _REFUSED:
                raise
            self._start_threads(self._open_cache)
            self._record.forms.no_process(f"the system starts no process ({error.strerror})")
        self._shown = list(self.threads)  # torch's iterators have this list
        self.threads = self._shown

    def _new_group(self, values: TorchValues) -> WorkerGroup:
        if not self._is_of_processes:
            return super()._new_group(values)
        setup, code = self._setup, with_graph(self._setup.code, values.graph_seed)
        is_forked = self._context.get_start_method() == "fork"
        child = ChildPlan(
            code=code,
            held=HeldGenerators(code) if is_forked else None,
            workers=self._worker_plan(values),
            make_cache=self._make_cache,
            parent_pid=os.getpid() if is_forked else None,
        )
        pinning = setup.delivery.pinning(values.pins, values.pin_device)
        return ProcessGroup(child, context=self._context, record=self._record, pinning=pinning)

    def _start_threads(self, open_cache: OpenCache) -> None:
        self._is_of_processes = self._may_move = False
        cache, setup = open_cache(), self._setup
        self._setup = replace(setup, code=setup.code.of_worker(open_cache=lambda: cache))
        self._fetch = replace(self._fetch, open_cache=lambda: cache)
        super().start(self._values)

    def begin_epoch(self, start: EpochStart) -> None:
        self._may_move = self._may_move and self._begun is None
        self._begun = start
        try:
            super().begin_epoch(start)
        except StateError as error:
            if not (self._may_move and FORKED_CUDA in error.problem):
                raise
            self._moved = []
            self._move()

    def has_room(self, *, may_wait: bool = False) -> bool:
        self._move()
        return super().has_room(may_wait=may_wait)

    def take(self) -> MadeBatch | None:
        self._move()
        made = super().take()
        if self._may_move and _is_of_forked_cuda(self._done):
            self._moved = [task.request for task in self._group.pending]
            self._move()
            made = super().take()
        self._may_move = False
        return made

    def _move(self) -> None:
        """Ends the processes and begins in threads, if that was decided. A call after an interrupt begins anew."""
        if self._moved is None:
            return
        assert self._begun is not None, "batches were requested"
        assert self._open_cache is not None, "else it may not move"
        self._group.close()
        self._start_threads(self._open_cache)
        super().begin_epoch(self._begun)
        for request in self._moved:
            self.submit(request, [request])
        self._shown[:] = self.threads
        self.threads = self._shown
        self._moved = None
        self._record.forms.give_up()


def _is_of_forked_cuda(task: Task | None) -> bool:
    """Returns whether CUDA was refused to the worker process of a finished task."""
    return isinstance(task, ProcessTask) and task.payload is not None and task.payload.is_of_forked_cuda
