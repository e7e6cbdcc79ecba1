"""Batches made in one thread, sample after sample, as torch's workers make them."""

from __future__ import annotations

import contextlib
import operator
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from fastload._errors import SampleError, sample_error
from fastload._planning._native_part_plan import TailPlan
from fastload._threads._counters import ThreadCounters
from fastload._threads._native_part import NotApplicableError, SampleHead
from fastload._threads._random_stream import RandomKey, RandomStream
from fastload._threads._task import AbandonedError


class TailMaker:
    """Makes batches of a plan, drawing from one stream. Not thread-safe.

    A sample that fails ends its batch: what would have come after it draws nothing, as in torch's workers.

    Args:
        plan: What is made.
        stream: Where all of it draws from.
        counters: To add to.
        worker_id: Number of the thread, as errors tell it; None where the caller does the work.
        lock: Held while the user's own transforms run, where one thread at a time may.
    """

    def __init__(
        self,
        plan: TailPlan,
        stream: RandomStream,
        counters: ThreadCounters,
        worker_id: int | None,
        lock: contextlib.AbstractContextManager[Any] | None,
    ) -> None:
        self._plan = plan
        self._stream = stream
        self._counters = counters
        self._worker_id = worker_id
        self._lock = lock or contextlib.nullcontext()
        self._head = SampleHead(plan, stream)

    def make(self, indices: Any, key: RandomKey, epoch: int, is_abandoned: Callable[[], bool]) -> Any:
        """See BatchMaker.

        Raises:
            SampleError: A sample cannot be read, decoded or transformed.
            AbandonedError: `is_abandoned` said so.
            Exception: What an index that is none, or collate_fn, raises.
        """
        tally = _Tally()
        try:
            samples, files = [], []
            for number, file in self._found(indices):
                if is_abandoned():
                    raise AbandonedError
                files.append(file)
                samples.append(self._sample(file, number, key, tally))
            self._stream.begin_batch(key, files)
            with tally.timer("collate"), self._stream.mode():
                return self._plan.collate_fn(samples if self._plan.is_batched else samples[0])
        except SampleError:
            tally.failed += 1
            raise
        except StopIteration as error:
            raise RuntimeError("collate_fn raised StopIteration, which would end the epoch without a word") from error
        finally:
            self._counters.add(self._head.take_counters())
            self._counters.add(tally.counters(self._plan.has_python_part))

    def _found(self, indices: Any) -> Iterable[tuple[int, int]]:
        """Each index with its file: each when its turn comes, or all at once, as the dataset looks them up."""
        numbers = map(operator.index, indices if self._plan.is_batched else [indices])
        found = ((number, self._plan.source.file(number)) for number in numbers)
        return list(found) if self._plan.source.finds_all_first and self._plan.is_batched else found

    def _sample(self, file: int, index: int, key: RandomKey, tally: _Tally) -> tuple[Any, Any]:
        source, tail = self._plan.source, self._plan.head.tail
        self._stream.begin_sample(key, file)
        try:
            image = self._head.image(file, index)
        except NotApplicableError:  # torchvision finds out, from the beginning, what is to be said or done
            image, tail = self._head.opened(file, index), (source.transform,)
        try:
            with tally.timer("tail"), self._lock, self._stream.mode():
                for transform in tail:
                    image = transform(image)
                label: Any = source.table.label(file)
                if source.target_transform is not None:
                    label = source.target_transform(label)
        except Exception as error:
            raise self._transform_error(error, file, index) from error
        tally.count(self._head.fallback_reason)
        return image, label

    def _transform_error(self, error: Exception, file: int, index: int) -> SampleError:
        next_step = "Run the transform on this file alone to see why."
        if self._worker_id is not None:
            next_step = f"Caught {type(error).__name__} in DataLoader worker thread {self._worker_id}. {next_step}"
        path = self._plan.source.table.path_bytes(file)
        return sample_error(index, path, "transform", error, next_step=next_step)


class _Tally:
    """What one batch adds to the counters."""

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
