"""torch's own iterators with counters, for loaders whose batches torch makes."""

from __future__ import annotations

import contextlib
from typing import Any

from torch.utils.data import DataLoader, dataloader
from torch.utils.data._utils import signal_handling

from fastload import _native
from fastload._delivery._hand_over import Delivery
from fastload._process._interrupts import is_interrupt
from fastload._process._waits import ConsumerClock, WaitHistogram


class TorchCounters:
    """The counters of a loader and its torch iterators in this process."""

    def __init__(self) -> None:
        self.num_samples = 0
        self.num_batches = 0

    def stats(self) -> dict[str, int]:
        """Returns the counters by their names in LoaderStats."""
        return {"samples_python": self.num_samples, "batches_delivered": self.num_batches}


class _Counting(dataloader._BaseDataLoaderIter):
    """Counts samples where both of torch's iterators take a batch's indices from the sampler, and batches."""

    def __init__(
        self, loader: DataLoader[Any], counters: TorchCounters, delivery: Delivery, waits: WaitHistogram
    ) -> None:
        self._counters = counters
        self._delivery = delivery
        self._clock = ConsumerClock(waits)
        super().__init__(loader)

    def __next__(self) -> Any:
        self._clock.ask()
        batch = super().__next__()
        self._clock.give()
        return batch

    def _reset(self, loader: DataLoader[Any], first_iter: bool = False) -> None:
        self._clock.begin_epoch()
        super()._reset(loader, first_iter)

    def _next_index(self) -> Any:
        index = super()._next_index()  # type: ignore[no-untyped-call]
        self._counters.num_samples += len(index) if self._auto_collation else 1
        return index

    def _next_data(self) -> Any:
        batch: Any = super()._next_data()
        self._counters.num_batches += 1
        if self._delivery.device is not None:
            batch = self._delivery.pinned.pin_host_tensors(batch)
        delivery, number = self._delivery, self._num_yielded
        hand: list[Any] = []
        delivery.hand_over(iter([delivery.move(batch, number)]), hand)
        delivery.follow(hand[0], number)
        return hand[0]


class _SingleProcessDataLoaderIter(_Counting, dataloader._SingleProcessDataLoaderIter):
    pass


class _MultiProcessingDataLoaderIter(_Counting, dataloader._MultiProcessingDataLoaderIter, _native.Droppable):
    __del__ = _native.Droppable.__del__
    _is_interrupt = staticmethod(is_interrupt)

    def _when_dropped(self) -> None:
        try:
            dataloader._MultiProcessingDataLoaderIter.__del__(self)
        finally:
            # torch's code does nothing when it is called again, and a later iterator may have the same id().
            if getattr(self, "_worker_pids_set", False):
                with contextlib.suppress(ValueError):  # it was done before an interrupt
                    signal_handling._remove_worker_pids(id(self))  # type: ignore[attr-defined]
                self._worker_pids_set = False


def torch_iterator(
    loader: DataLoader[Any], counters: TorchCounters, delivery: Delivery, waits: WaitHistogram
) -> dataloader._BaseDataLoaderIter:
    """Returns the iterator that torch's iter(loader) would; profilers see it under torch's names."""
    if loader.num_workers == 0:
        return _SingleProcessDataLoaderIter(loader, counters, delivery, waits)
    DataLoader.check_worker_number_rationality(loader)  # torch's own warning applies to its processes
    return _MultiProcessingDataLoaderIter(loader, counters, delivery, waits)
