"""torch's own iterators, for what is not native, counting the samples they are asked for."""

from __future__ import annotations

from typing import Any

from torch.utils.data import DataLoader, dataloader

from fastload._delivery._hand_over import Delivery


class SampleCount:
    """A number that a loader and its iterators share."""

    def __init__(self) -> None:
        self.count = 0


class _Counting(dataloader._BaseDataLoaderIter):
    """Counts in the one place where both of torch's iterators take a batch's indices from the sampler."""

    def __init__(self, loader: DataLoader[Any], samples: SampleCount, delivery: Delivery) -> None:
        self._samples = samples
        self._delivery = delivery
        super().__init__(loader)

    def _next_index(self) -> Any:
        index = super()._next_index()  # type: ignore[no-untyped-call]
        self._samples.count += len(index) if self._auto_collation else 1
        return index

    def _next_data(self) -> Any:
        batch: Any = super()._next_data()
        if self._delivery.device is not None:
            batch = self._delivery.pinned.pin_host_tensors(batch)
        return self._delivery.hand_over(self._delivery.move(batch, self._num_yielded), self._num_yielded)


class _SingleProcessDataLoaderIter(_Counting, dataloader._SingleProcessDataLoaderIter):
    pass


class _MultiProcessingDataLoaderIter(_Counting, dataloader._MultiProcessingDataLoaderIter):
    pass


def torch_iterator(loader: DataLoader[Any], samples: SampleCount, delivery: Delivery) -> dataloader._BaseDataLoaderIter:
    """What torch's DataLoader would return from iter(loader); profilers see it under torch's names."""
    if loader.num_workers == 0:
        return _SingleProcessDataLoaderIter(loader, samples, delivery)
    DataLoader.check_worker_number_rationality(loader)  # torch's own words: these are processes
    return _MultiProcessingDataLoaderIter(loader, samples, delivery)
