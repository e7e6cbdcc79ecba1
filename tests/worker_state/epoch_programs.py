"""Programs that change between epochs, datasets in datasets, init functions and streams."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numbered import NUM_SAMPLES, Numbered
from program import Program, Setting, Transformed
from torch.utils.data import ConcatDataset, IterableDataset, Subset, get_worker_info


class Counting(Numbered):
    calls = 0

    def sample(self, index: int) -> Any:
        self.calls += 1
        return index, self.calls


class Epochs(Numbered):
    epoch = -1

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def sample(self, index: int) -> Any:
        return index, self.epoch


def set_epoch() -> Any:
    """Calls dataset.set_epoch() before each epoch, which persistent workers do not see."""
    data = Epochs()
    return Setting(data, before_epoch=data.set_epoch)


def a_curriculum_in_place() -> Any:
    """Changes a list and an array in place in the program."""
    items, scale = [*range(NUM_SAMPLES)], np.ones(1)

    def change(epoch: int) -> None:
        items.reverse()
        scale[0] += epoch

    return Setting(Transformed(lambda index: items[index] * scale[0]), before_epoch=change)


def one_dataset_twice_in_a_concatenation() -> Any:
    """Reads a ConcatDataset of a dataset, itself and a subset of it, with one count."""
    inner = Counting()
    return Setting(ConcatDataset([inner, Subset(inner, [1, 2]), inner]), {"shuffle": True})


def a_list_of_lists_as_dataset() -> Any:
    """Reads a plain list whose elements collate_fn changes."""

    def collate(samples: list[list[int]]) -> Any:
        for sample in samples:
            sample.append(len(sample))
        return [len(sample) for sample in samples]

    data = [[index] for index in range(9)]
    return Setting(
        data, {"collate_fn": collate, "sampler": [0, 1, 2, 0, 1, 2, 3, 3, 0, 1, 0, 2]}, after_epoch=lambda: data
    )


def an_init_function_with_state() -> Any:
    """Uses a callable object that counts its own calls."""

    class Begin:
        def __init__(self) -> None:
            self.workers: list[int] = []

        def __call__(self, worker_id: int) -> None:
            self.workers.append(worker_id)
            get_worker_info().dataset.begun = list(self.workers)

    begin, data = Begin(), Transformed(lambda index: index)
    data.transform = lambda _: str(getattr(data, "begun", None))
    return Setting(data, {"worker_init_fn": begin}, after_epoch=lambda: begin.workers)


def an_init_function_that_raises() -> Any:
    """Fails when worker 1 begins."""

    def begin(worker_id: int) -> None:
        if worker_id == 1:
            raise RuntimeError("worker 1 has no file")

    return Setting(Counting(), {"worker_init_fn": begin})


# ---- streams ------------------------------------------------------------------------------------------------------


class Shards(IterableDataset[Any]):
    """Items by worker, with a count that stays."""

    def __init__(self, length: int = NUM_SAMPLES) -> None:
        self.length, self.passes, self.given = length, 0, 0

    def __iter__(self) -> Iterator[Any]:
        info = get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        self.passes += 1
        for number in range(first, self.length, step):
            self.given += 1
            yield number, self.passes, self.given


def a_stream_with_counters() -> Any:
    """Counts the calls of __iter__ and the items given, on self."""
    data = Shards()
    return Setting(data, after_epoch=lambda: (data.passes, data.given))


def a_stream_without_batches() -> Any:
    """Uses batch_size=None, and a transform with state as collate_fn."""
    seen: list[Any] = []

    def collate(item: Any) -> Any:
        seen.append(item)
        return item[0], len(seen)

    return Setting(Shards(), {"batch_size": None, "collate_fn": collate}, after_epoch=lambda: len(seen))


EPOCHS: dict[str, Program] = {
    program.__name__: program
    for program in (
        *(set_epoch, a_curriculum_in_place, one_dataset_twice_in_a_concatenation, a_list_of_lists_as_dataset),
        *(an_init_function_with_state, an_init_function_that_raises, a_stream_with_counters, a_stream_without_batches),
    )
}
