"""Programs that change between epochs, datasets in datasets, init functions and streams."""

from __future__ import annotations

import collections
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numbered import NUM_SAMPLES, Numbered
from program import Chapter, Setting, Transformed
from torch.utils.data import ChainDataset, ConcatDataset, IterableDataset, Subset, get_worker_info

EPOCHS = Chapter()
STREAMS = Chapter()


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


@EPOCHS.program
def set_epoch() -> Any:
    """Calls dataset.set_epoch() before each epoch, which persistent workers do not see."""
    data = Epochs()
    return Setting(data, before_epoch=data.set_epoch)


@EPOCHS.program
def a_curriculum_in_place() -> Any:
    """Changes a list and an array in place in the program."""
    items, scale = [*range(NUM_SAMPLES)], np.ones(1)

    def change(epoch: int) -> None:
        items.reverse()
        scale[0] += epoch

    return Setting(Transformed(lambda index: items[index] * scale[0]), before_epoch=change)


@EPOCHS.program
def the_programs_own_draws_between_epochs() -> Any:
    """Draws in the program from all three generators before each epoch."""

    def draw(epoch: int) -> None:
        random.gauss(0, 1)
        np.random.rand(epoch)
        torch.rand(2)

    return Setting(Transformed(lambda _: random.random() + np.random.rand()), {"shuffle": True}, before_epoch=draw)


@EPOCHS.program
def one_dataset_twice_in_a_concatenation() -> Any:
    """Reads a ConcatDataset of a dataset, itself and a subset of it, with one count."""
    inner = Counting()
    return Setting(ConcatDataset([inner, Subset(inner, [1, 2]), inner]), {"shuffle": True})


@EPOCHS.program
def a_wrapper_that_asks_others() -> Any:
    """Adds random samples of another dataset, as mixup and mosaic do."""

    class Mixed(Numbered):
        def __init__(self, inner: Any) -> None:
            super().__init__()
            self.inner, self.recent = inner, collections.deque([0], maxlen=3)

        def sample(self, index: int) -> Any:
            self.recent.append(index)
            other = random.randrange(len(self.inner))
            return self.inner[index], self.inner[other], self.inner[random.choice(self.recent)]

    return Setting(Mixed(Counting()), {"shuffle": True})


@EPOCHS.program
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


@EPOCHS.program
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


@EPOCHS.program
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


@STREAMS.program
def a_stream_with_counters() -> Any:
    """Counts the calls of __iter__ and the items given, on self."""
    data = Shards()
    return Setting(data, after_epoch=lambda: (data.passes, data.given))


@STREAMS.program
def a_shuffle_buffer() -> Any:
    """Keeps a buffer of eight items and draws one of them, with random and NumPy."""

    class Buffered(IterableDataset[Any]):
        def __init__(self, source: Any) -> None:
            self.source = source

        def __iter__(self) -> Iterator[Any]:
            buffer: list[Any] = []
            for item in self.source:
                if len(buffer) < 8:
                    buffer.append(item)
                    continue
                position = random.randrange(8)
                yield buffer[position]
                buffer[position] = item
            yield from (buffer[position] for position in np.random.permutation(len(buffer)))

    return Buffered(Shards())


@STREAMS.program
def a_stream_of_unequal_workers() -> Any:
    """Ends early in worker 0; batches come from the workers that have not ended."""

    class Unequal(IterableDataset[Any]):
        def __iter__(self) -> Iterator[Any]:
            info = get_worker_info()
            number = 0 if info is None else info.id
            yield from ((number, item, random.random()) for item in range(3 + 9 * number))

    return Unequal()


@STREAMS.program
def a_chain_of_streams() -> Any:
    """Chains a stream, itself and another in a ChainDataset."""
    data = Shards(7)
    return ChainDataset([data, data, Shards(3)])


@STREAMS.program
def a_stream_without_batches() -> Any:
    """Uses batch_size=None, and a transform with state as collate_fn."""
    seen: list[Any] = []

    def collate(item: Any) -> Any:
        seen.append(item)
        return item[0], len(seen)

    return Setting(Shards(), {"batch_size": None, "collate_fn": collate}, after_epoch=lambda: len(seen))


@STREAMS.program
def a_reader_object() -> Any:
    """Uses an iterator with state of its own, which __iter__ makes from the dataset's generator."""

    class Reader:
        def __init__(self, owner: Any) -> None:
            self.owner, self.left = owner, 10

        def __iter__(self) -> Any:
            return self

        def __next__(self) -> Any:
            if not self.left:
                raise StopIteration
            self.left -= 1
            self.owner.read += 1
            return self.left, self.owner.read, float(self.owner.generator.random())

    class Data(IterableDataset[Any]):
        def __init__(self) -> None:
            self.read, self.generator = 0, np.random.default_rng(1)

        def __iter__(self) -> Any:
            return Reader(self)

    data = Data()
    return Setting(data, after_epoch=lambda: data.read)
