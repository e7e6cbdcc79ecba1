"""Base class of the loader's iterators."""

from __future__ import annotations

import time
from typing import Any

import torch
from torch.utils.data.dataloader import _BaseDataLoaderIter, _DatasetKind

from fastload._process._waits import WaitHistogram


class BaseIterator(_BaseDataLoaderIter):
    """torch's base of iterators, without its cost where nobody looks; notes how long each batch took to come.

    torch names each step of an epoch for its profiler, which takes longer than all that is done here for a batch; and
    an interrupt that falls into it, after the batch was taken, would lose the batch.
    """

    def __init__(self, loader: Any) -> None:
        super().__init__(loader)
        self._waits: WaitHistogram = loader._fastload.waits

    def __next__(self) -> Any:
        begin = time.perf_counter_ns()
        is_counted = self._dataset_kind == _DatasetKind.Iterable and self._IterableDataset_len_called is not None
        if torch.autograd._profiler_enabled() or self._sampler_iter is None or is_counted:  # type: ignore[attr-defined]
            data = super().__next__()
        else:
            data = self._next_data()
            self._num_yielded += 1
        self._waits.add(time.perf_counter_ns() - begin)
        return data
