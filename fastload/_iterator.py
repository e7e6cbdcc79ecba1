"""One epoch of a native loader, and the engine it runs on."""

from __future__ import annotations

import atexit
import os
import threading
import time
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data.dataloader import _BaseDataLoaderIter

from fastload import _config, _device, _native
from fastload._errors import ForkedProcessError, LoaderClosedError, sample_error
from fastload._fallback import FallbackThreads, classify_failure, serve
from fastload.samplers._lowering import BadIndicesError, lower_batch_sampler
from fastload.sources._lowering import LoweredSource

# How long close() and the interpreter's exit wait for native threads; one that hangs in a read is left behind.
CLOSE_TIMEOUT_SECONDS = 0.2


@dataclass(frozen=True)
class EngineSettings:
    """What an engine is made for.

    Attributes:
        num_threads: native threads; 0 means that the thread which asks for a batch does the work.
        max_batches: the most batches in flight; as many unused buffers are kept.
        max_pixels: larger images are left to Pillow.
        is_native_jpeg_exact: False leaves every file to Pillow.
    """

    num_threads: int
    max_batches: int
    max_pixels: int
    is_native_jpeg_exact: bool


class LoaderEngine:
    """The native engine of one loader with the Python threads that decode what it cannot. Kept between epochs.

    Whoever iterates holds it, so that a loader made in the head of a for statement lives as long as its iterator. When
    nobody holds it any more its threads are signalled, not waited for.

    Raises:
        RuntimeError: the system refuses a thread.
    """

    def __init__(self, settings: EngineSettings) -> None:
        self.settings = settings
        self.owner_pid = os.getpid()
        self.native = _native.Engine(
            num_threads=settings.num_threads,
            max_free_buffers=settings.max_batches + 2,  # one at the consumer and one being let go of
            max_file_bytes=_config.MAX_FILE_BYTES,
            max_pixels=settings.max_pixels,
            native_jpeg=settings.is_native_jpeg_exact,
        )
        self._fallback_threads = FallbackThreads(self.native, settings.num_threads)
        self._fallback_threads.start()
        weakref.finalize(self, _signal_end, self.native).atexit = False
        _exit_state.watch()

    def can_run(self, settings: EngineSettings) -> bool:
        """Whether new iterations with `settings` can use this engine: it has not ended and was made for them."""
        return self.settings == settings and self.native.is_running

    def check_process(self, what: str) -> None:
        """Raises ForkedProcessError in a child of the process that made this engine: it has none of its threads."""
        if self.native.is_forked:
            raise ForkedProcessError(what, self.owner_pid)

    def close(self) -> None:
        """Ends every iterator and thread. Waits at most 0.2 s for native threads and 1 s for those inside Pillow."""
        if self.native.is_forked:
            return
        self.native.close(CLOSE_TIMEOUT_SECONDS)
        self._fallback_threads.close()


def _signal_end(engine: _native.Engine) -> None:
    if not engine.is_forked:
        engine.close()


class _ExitState:
    """Knows that the interpreter is about to exit, and puts other threads that iterate to sleep then.

    The end of the process would do the same to a daemon thread a moment later, but in the wrong place: Python before
    3.14 unwinds a thread that asks for the GIL too late, and a process ends with "terminate called" where that happens
    inside of a torch operator. Besides, the thread would print the LoaderClosedError that it gets.
    """

    # How long exiting waits for those threads to come from their last operators to a place where they can sleep.
    GRACE_SECONDS = 0.05

    def __init__(self) -> None:
        self._is_watching = False
        self._has_begun = False
        self._has_other_threads = False

    def watch(self) -> None:
        if not self._is_watching:
            self._is_watching = True
            atexit.register(self._begin)

    def _begin(self) -> None:
        self._has_begun = True
        if self._has_other_threads:
            time.sleep(self.GRACE_SECONDS)

    def sleep_if_begun(self) -> None:
        """Called where a thread iterates. The main thread goes on: other exit handlers may iterate."""
        if threading.current_thread() is threading.main_thread():
            return
        self._has_other_threads = True
        if self._has_begun:
            threading.Event().wait()


_exit_state = _ExitState()


@dataclass(frozen=True)
class NativePlan:
    """A loader's work in the form the engine takes.

    Attributes:
        source: the dataset as arrays.
        index: its paths.
        transform: steps, output type and layout.
        layout: of a batch.
    """

    source: LoweredSource
    index: _native.SampleIndex
    transform: _native.TransformPlan
    layout: _device.BatchLayout


@dataclass(frozen=True)
class SampleReport:
    """What was done to one sample of a batch.

    Attributes:
        index: in the dataset.
        path: as given to the system.
        source: "native", or "fallback" where Pillow decoded it.
        source_size: (width, height) of the decoded image in pixels.
        steps: the transform with its random choices resolved, in order: ("crop", left, top, width, height, pad_left,
            pad_top, pad_right, pad_bottom), pads being zeros around what was cropped,
            ("resize", width, height, interpolation), ("hflip",).
    """

    index: int
    path: str
    source: str
    source_size: tuple[int, int]
    steps: list[tuple[Any, ...]]


@dataclass
class _PendingBatch:
    indices: NDArray[np.int64]  # as the sampler gave them
    images: torch.Tensor
    labels: torch.Tensor


class NativeIterator(_BaseDataLoaderIter):
    """Yields [images, labels] as torch's default_collate makes them; images lie where the engine wrote them."""

    def __init__(self, loader: Any, engine: LoaderEngine, plan: NativePlan) -> None:
        """`loader` is a fastload.DataLoader; the iterator does not keep it."""
        super().__init__(loader)
        self._engine = engine
        self._plan = plan
        # Two threads may share an iterator: each batch goes to one of them.
        self._lock = threading.Lock()
        self._resets = 0
        # With workers torch asks the sampler for an iterator twice, and uses the second; samplers may count on it.
        self._start(loader, self._sampler_iter if self._num_workers == 0 else None)

    def _reset(self, loader: Any, first_iter: bool = False) -> None:
        """Begins another epoch on the same iterator; torch calls it for persistent_workers."""
        super()._reset(loader, first_iter)
        self._resets += 1
        self._stream.cancel()
        self._start(loader, self._sampler_iter)

    def _start(self, loader: Any, begun: Iterator[Any] | None) -> None:
        index_batches = lower_batch_sampler(loader, begun)
        assert index_batches is not None, "a loader without batches has no native plan"
        self._index_batches = index_batches
        plan = self._plan
        seed, epoch = loader._random_key(int(self._base_seed), self._resets)
        self._stream = self._engine.native.open_stream(plan.index, plan.transform, seed, epoch)
        self._is_exhausted = False
        self._last: tuple[NDArray[np.int64], _native.Batch] | None = None
        if self._num_workers > 0:
            for _ in range(self._engine.settings.max_batches):
                self._submit_next()

    def _submit_next(self) -> None:
        if self._is_exhausted:
            return
        try:
            indices = next(self._index_batches, None)
        except BadIndicesError as error:
            self._submit_error(error)
            return
        if indices is None:
            self._is_exhausted = True
            return
        try:
            files = self._files(indices)
        except IndexError as error:
            self._submit_error(error)
            return
        images = _device.allocate(self._engine.native, self._plan.layout, len(files), is_pinned=bool(self._pin_memory))
        labels = torch.from_numpy(self._plan.source.table.labels[files])
        # The engine keeps what belongs to a batch, so that an interrupt loses a batch as a whole or not at all.
        pending = _PendingBatch(indices, images, labels)
        self._stream.submit(files, images.data_ptr(), images.numel() * images.element_size(), pending)

    def _submit_error(self, error: Exception) -> None:
        """Submits an empty batch whose turn brings `error`, without its frames: they would keep this iterator alive."""
        error.__context__ = None
        self._stream.submit(np.empty(0, np.int64), 0, 0, error.with_traceback(None))

    def _files(self, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        """The files of a batch; IndexError where there are none, as default_collate raises it."""
        if len(indices) == 0:
            raise IndexError("list index out of range: the sampler gave an empty batch")
        return self._plan.source.files(indices)

    def _next_data(self) -> list[torch.Tensor]:  # type: ignore[override]  # torch: NoReturn
        self._engine.check_process("this iterator")
        _exit_state.sleep_if_begun()
        with self._lock:
            if self._stream.batches_in_flight == 0:  # else an interrupted wait has left its batch behind
                self._submit_next()
            batch = self._wait()
            pending = batch.take_owner()
            if self._num_workers > 0:
                self._submit_next()
        if isinstance(pending, Exception):
            try:
                raise pending
            finally:
                del pending  # its traceback has this frame
        self._last = pending.indices, batch
        if (failure := batch.error) is not None:
            raise _exception_of(failure, int(pending.indices[failure["position"]]))
        return [pending.images, pending.labels.pin_memory() if self._pin_memory else pending.labels]

    def _wait(self) -> _native.Batch:
        """The oldest batch in flight; StopIteration where there is none."""
        while True:
            result = self._stream.next(float(self._timeout))
            _exit_state.sleep_if_begun()
            if isinstance(result, _native.Batch):
                return result
            if result is None:
                raise RuntimeError(f"DataLoader timed out after {self._timeout} seconds")
            if isinstance(result, str):
                raise LoaderClosedError(result)
            serve(result)

    def batch_report(self) -> list[SampleReport]:
        """What was done to each sample of the batch returned last, in its order; empty before the first.

        Example:
            >>> images, labels = next(iterator)
            >>> iterator.batch_report()[0].steps
            [('crop', 12, 40, 300, 280, 0, 0, 0, 0), ('resize', 224, 224, 'bilinear'), ('hflip',)]
        """
        if self._last is None:
            return []
        indices, batch = self._last
        return [
            SampleReport(index, os.fsdecode(path), "fallback" if is_by_fallback else "native", size, steps)
            for index, (path, is_by_fallback, size, steps) in zip(indices.tolist(), batch.reports(), strict=True)
        ]


def _exception_of(failure: _native.SampleFailure, index: int) -> BaseException:
    """The exception for the first bad sample of a batch: Pillow's, the system's, or a native status in words."""
    path, stage = failure["path"], failure["stage"]
    if stage == "engine":
        kind = MemoryError if failure["is_out_of_memory"] else RuntimeError
        return kind(f"sample {index} ({os.fsdecode(path)!r}): {failure['detail']}")
    if (exception := failure["exception"]) is not None:
        verdict = classify_failure(exception, path)
        return sample_error(index, path, verdict.stage, exception, detail=verdict.detail)
    if number := failure["errno"]:
        cause = OSError(number, os.strerror(number), os.fsdecode(path))
        return sample_error(index, path, stage, cause, offset=failure["offset"] or None)
    text = ": ".join(part for part in (failure["text"], failure["detail"]) if part)
    is_of_system = stage in ("open", "read")  # Python has OSError for a file that is none or shrank, too
    return sample_error(index, path, stage, OSError(text) if is_of_system else text, offset=failure["offset"] or None)
