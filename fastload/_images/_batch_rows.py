"""Samples that are written where their batch is, so that default_collate has nothing to copy.

Note [rows of a batch]
Collating a batch copies each of its tensors, which takes a tenth of the time of a photograph. If the samples of one
batch end in tensors that native code makes, the next batch's will probably have the same size. So the next batch
gets its memory before its samples are made, and each sample is written to its row. When the batch is collated, a tensor
that still fills its row is in place already; any other is copied there, unless something holds the row. In the end the
user's code must hold none of the samples, since they would change with the batch. Otherwise the batch is copied, and
the worker's later ones are made as torch makes them.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils.data import default_collate
from torch.utils.data._utils import collate

from fastload import _native

# After this many batches in succession whose rows were useless, no batch gets rows any more.
_MAX_MISSES = 3
Place = tuple[_native.BatchRows, int]


class BatchRows:
    """The rows of the batches of one worker. Not thread-safe.

    Args:
        allocate: Allocates this many bytes; returns None if there are none, or if rows would not pay.
    """

    def __init__(self, allocate: Callable[[int], _native.HostBuffer | None]) -> None:
        self._allocate = allocate
        self._sizes: list[int] = []  # bytes of each tensor that native code makes of a sample
        self._made: list[list[int]] = []  # the same for each sample of the current batch
        self._rows: list[_Rows] = []
        self._num_misses = 0

    def begin_batch(self, num_samples: int) -> None:
        """Starts a batch of `num_samples`; 0: without rows."""
        self._made, self._rows = [], []
        for size in self._sizes if num_samples and self._num_misses < _MAX_MISSES else ():
            buffer = self._allocate(num_samples * size)
            if buffer is None:
                break
            with contextlib.suppress(MemoryError):
                self._rows.append(_Rows(buffer, num_samples))

    def begin_sample(self) -> None:
        self._made.append([])

    def place(self) -> Place | None:
        """Returns where the next tensor of the current sample belongs; None if that is unknown."""
        if not self._made or len(self._made[-1]) >= len(self._rows):
            return None
        return self._rows[len(self._made[-1])].native, len(self._made) - 1

    def note(self, size: int) -> None:
        """Records that a tensor of `size` bytes was made."""
        if self._made:
            self._made[-1].append(size)

    def collate(self, samples: list[list[Any]]) -> Any:
        """Returns default_collate's batch of the one list in `samples`; takes it out, so that nothing else has it."""
        batch = self._put_together(samples.pop())
        self._finish()
        return batch

    def _put_together(self, samples: list[Any]) -> Any:
        if not self._rows or collate.default_collate_fn_map.get(torch.Tensor) is not collate.collate_tensor_fn:
            return default_collate(samples)
        functions = {**collate.default_collate_fn_map, torch.Tensor: self._collate_tensors}
        return collate.collate(samples, collate_fn_map=functions)

    def _collate_tensors(self, tensors: Any, *, collate_fn_map: Any = None) -> Any:
        for rows in self._rows:
            batch = rows.batch(tensors)
            if batch is not None:
                return batch
        return collate.collate_tensor_fn(tensors, collate_fn_map=collate_fn_map)

    def _finish(self) -> None:
        if self._rows:
            is_miss = not all(rows.is_used for rows in self._rows)
            self._num_misses = self._num_misses + 1 if is_miss else 0
        self._sizes = self._made[0] if self._made and all(made == self._made[0] for made in self._made) else []
        for rows in self._rows:
            if not rows.let_go():
                self._num_misses = _MAX_MISSES
        self._made, self._rows = [], []


class _Rows:
    """The memory of one tensor of a batch."""

    def __init__(self, buffer: _native.HostBuffer, num_samples: int) -> None:
        self.native = _native.BatchRows(buffer, num_samples)
        self._buffer = buffer
        self._num_samples = num_samples
        self._row_size = buffer.nbytes // num_samples
        self._batch: torch.Tensor | None = None

    @property
    def is_used(self) -> bool:
        """Whether the batch uses it."""
        return self._batch is not None

    def batch(self, tensors: Any) -> torch.Tensor | None:
        """Returns the batch of `tensors`, some of which are in their rows; None if they make none, or it exists."""
        if self.is_used or len(tensors) != self._num_samples or not all(map(_is_plain, tensors)):
            return None
        is_placed = [self._has(tensor, row) for row, tensor in enumerate(tensors)]
        if not any(is_placed):
            return None
        first = tensors[is_placed.index(True)]
        shape, dtype = first.shape, first.dtype
        elsewhere = [row for row, is_there in enumerate(is_placed) if not is_there]
        if any(tensor.shape != shape or tensor.dtype != dtype for tensor in tensors):
            return None
        if any(map(self.native.is_held, elsewhere)):
            return None
        storage = torch.frombuffer(self._buffer, dtype=torch.uint8).untyped_storage()
        batch = torch.empty(0, dtype=dtype, device="cpu")
        batch.set_(storage, 0, (self._num_samples, *shape))  # type: ignore[call-overload]
        for row in elsewhere:
            batch[row] = tensors[row]
        self._batch = batch
        return batch

    def _has(self, tensor: torch.Tensor, row: int) -> bool:
        """Returns whether a plain `tensor` fills the row."""
        return (
            tensor.data_ptr() == self._buffer.address + row * self._row_size
            and tensor.nbytes == self._row_size
            and tensor.is_contiguous()
        )

    def let_go(self) -> bool:
        """Releases the rows once the samples are dropped; returns False if one is held, so the batch was copied."""
        if self._batch is None or self.native.num_held == 0:
            return True
        self._batch.set_(self._batch.clone())  # type: ignore[call-overload]
        return False


def _is_plain(tensor: Any) -> bool:
    is_dense = type(tensor) is torch.Tensor and tensor.layout is torch.strided and not tensor.is_nested
    return is_dense and tensor.is_cpu and not tensor.requires_grad


class _ThreadState(threading.local):
    rows: BatchRows | None = None


_thread_state = _ThreadState()


def rows_of_thread() -> BatchRows | None:
    """Returns the rows of the worker for which the calling thread works."""
    return _thread_state.rows


@contextlib.contextmanager
def batch_rows(rows: BatchRows) -> Iterator[None]:
    """Makes the calling thread write samples to `rows`."""
    _thread_state.rows = rows
    try:
        yield
    finally:
        _thread_state.rows = None
