"""Samples that native code begins and the user's Python code completes, fetched as from any map-style dataset."""

from __future__ import annotations

import contextlib
import functools
import operator
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from fastload._errors import SampleError, sample_error
from fastload._images._pipelines import PythonPart
from fastload._iteration.threads._dataset import NO_LOCK, DatasetPlan, MapFetcher
from fastload._iteration.threads._native_part import NativePart, NotApplicableError
from fastload._planning._native_plans import NativePartPlan
from fastload._process._interrupts import is_interrupt
from fastload._workers._random_stream import RandomKey, RandomStream
from fastload._workers._worker_objects import UserCode


class NativePartFetcher(MapFetcher):
    """Makes batches of samples with a native part and a Python part, in one thread.

    A sample that fails ends its batch: later samples draw nothing, as in torch's workers. Random numbers of
    rng="sample" belong to the files of the dataset's table, as in native batches.

    Args:
        plan: The way in which the dataset is asked.
        part: The native part of each sample.
        stream: The random stream of both parts.
        worker_id: Number of the thread, for errors; None: the caller does the work.
        code: The Python part.
    """

    def __init__(
        self, plan: DatasetPlan, part: NativePartPlan, stream: RandomStream, worker_id: int | None, code: UserCode
    ) -> None:
        super().__init__(plan, stream, code)
        self._part = part
        self._worker_id = worker_id
        self._native = NativePart(part, stream, code.python_part, plan.cache)
        self._python_part = PythonPart(code.python_part)
        self._has_python_part = bool(code.python_part) or code.target_transform is not None
        self._counts = _Counts()
        self._files: list[int] = []  # of the current batch

    def _names(self, indices: Any) -> Any:
        return self._files

    def _flush(self) -> None:
        counts, self._counts = self._counts, _Counts()
        self._plan.counters.add(self._native.take_counters())
        self._plan.counters.add(counts.counters(self._has_python_part))

    def _samples(self, indices: Any, key: RandomKey, is_abandoned: Callable[[], bool]) -> Any:
        """Raises SampleError: a sample cannot be read, decoded or transformed."""
        self._files = []
        found = self._numbered(self._found(indices), key, is_abandoned)
        if self._guard is None:
            samples = [self._counted(file, number, key) for number, file in found]
        else:
            load = functools.partial(self._replaced, key=key)
            samples = self._guard.batch((number for number, _ in found), load)
        return samples if self._plan.is_batched else samples[0]

    def _replaced(self, number: int, key: RandomKey) -> tuple[Any, Any]:
        return self._counted(self._part.source.file(number), number, key)

    def _counted(self, file: int, number: int, key: RandomKey) -> tuple[Any, Any]:
        try:
            sample = self._sample(file, number, key)
        except SampleError:
            self._counts.failed += 1
            raise
        self._files.append(file)
        return sample

    def _found(self, indices: Any) -> Iterable[tuple[int, int]]:
        """Returns each index with its file, looked up one at a time or all at once, as the dataset does."""
        source = self._part.source
        numbers = map(operator.index, indices if self._plan.is_batched else [indices])
        found = ((number, source.file(number)) for number in numbers)
        return list(found) if source.finds_all_first and self._plan.is_batched else found

    def _sample(self, file: int, index: int, key: RandomKey) -> tuple[Any, Any]:
        python_part = self._python_part
        self._stream.begin_sample(key, file, self._number)
        try:
            image = self._native.image(file, index)
        except NotApplicableError:  # torchvision's steps run from the start, and raise or succeed
            image, python_part = self._native.opened(file, index), PythonPart([self._code.transform])
        try:
            with self._counts.timer("tail"), self._plan.lock or NO_LOCK, self._stream.mode():
                image = python_part.run(image)
                label: Any = self._part.source.table.label(file)
                if self._code.target_transform is not None:
                    label = self._code.target_transform(label)
        except Exception as error:
            if is_interrupt(error):
                raise
            raise self._transform_error(error, file, index) from error
        self._counts.count(self._native.fallback_reason)
        return image, label

    def _transform_error(self, error: Exception, file: int, index: int) -> SampleError:
        next_step = "Run the transform on this file alone to see why."
        if self._worker_id is not None:
            next_step = f"Caught {type(error).__name__} in DataLoader worker thread {self._worker_id}. {next_step}"
        path = self._part.source.table.path_bytes(file)
        return sample_error(index, path, "transform", error, next_step=next_step)


class _Counts:
    """The counts that a batch adds to the counters."""

    def __init__(self) -> None:
        self.native = self.failed = 0
        self._reasons: dict[str, int] = {}
        self._seconds: dict[str, float] = {}

    def count(self, fallback_reason: str | None) -> None:
        if fallback_reason is None:
            self.native += 1
        else:
            self._reasons[fallback_reason] = self._reasons.get(fallback_reason, 0) + 1

    @contextlib.contextmanager
    def timer(self, stage: str) -> Iterator[None]:
        begin = time.perf_counter()
        try:
            yield
        finally:
            self._seconds[stage] = self._seconds.get(stage, 0.0) + time.perf_counter() - begin

    def counters(self, has_python_part: bool) -> dict[str, Any]:
        by_fallback = sum(self._reasons.values())
        return {
            "samples_native": self.native,
            "samples_fallback": by_fallback,
            "samples_failed": self.failed,
            "samples_python_tail": self.native + by_fallback if has_python_part else 0,
            "fallback_reasons": self._reasons,
            "stage_seconds": self._seconds,
        }
