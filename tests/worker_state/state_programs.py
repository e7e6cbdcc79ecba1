"""Programs that keep state between samples, on objects that the data set, collate_fn and worker_init_fn share."""

from __future__ import annotations

import functools
import threading
from typing import Any

import torch
from numbered import Numbered
from program import Chapter, Setting, Transformed
from torch.utils.data import get_worker_info

STATE = Chapter()


@STATE.program
def two_closures_on_one_variable() -> Any:
    """Uses a function that writes what another one reads."""
    total = 0

    def write(index: int) -> int:
        nonlocal total
        total += index
        return total

    def read(samples: Any) -> Any:
        return torch.utils.data.default_collate(samples), total

    return Setting(Transformed(write), {"collate_fn": read}, after_epoch=lambda: total)


@STATE.program
def a_module_in_training_mode() -> Any:
    """Keeps batch statistics in the buffers of a torch module."""

    class Data(Numbered):
        def __init__(self) -> None:
            super().__init__()
            self.norm = torch.nn.BatchNorm1d(2)

        def sample(self, index: int) -> Any:
            with torch.no_grad():
                normed = self.norm(torch.tensor([[index, 1.0], [2.0, index]]))
            return normed, self.norm.running_mean.clone(), int(self.norm.num_batches_tracked)

    data = Data()
    return Setting(data, after_epoch=lambda: dict(data.norm.state_dict()))


@STATE.program
def a_thread_local() -> Any:
    """Uses threading.local with values that the program's thread has set."""
    local = threading.local()
    local.calls, local.seen = 10, [1]

    def transform(index: int) -> Any:
        local.calls += 1
        local.seen.append(index)
        return local.calls, len(local.seen)

    return Setting(Transformed(transform), after_epoch=lambda: (local.calls, local.seen))


@STATE.program
def a_lock_around_a_counter() -> Any:
    """Counts under a lock, as thread-safe datasets do."""

    class Data(Numbered):
        def __init__(self) -> None:
            super().__init__()
            self.lock, self.condition, self.calls = threading.RLock(), threading.Condition(), 0

        def sample(self, index: int) -> Any:
            with self.lock, self.condition:
                self.calls += 1
                return index, self.calls

    data = Data()
    return Setting(data, after_epoch=lambda: data.calls)


@STATE.program
def an_error_now_and_then() -> Any:
    """Fails in a sample that depends on how many came before in this worker."""

    class Data(Numbered):
        calls = 0

        def sample(self, index: int) -> Any:
            self.calls += 1
            if self.calls == 7:
                raise ValueError(f"call 7 is sample {index}")
            return index, self.calls

    return Data()


@STATE.program
def the_worker_infos_dataset() -> Any:
    """Checks that get_worker_info().dataset is the dataset asked for samples, and the owner of its transform."""

    class Data(Numbered):
        def sample(self, index: int) -> Any:
            info = get_worker_info()
            return index, info is None or info.dataset is self, -1 if info is None else info.id

    return Data()


@STATE.program
def one_list_by_three_names() -> Any:
    """Uses a list that dataset, transform and collate_fn hold."""
    seen: list[int] = []

    class Data(Numbered):
        def __init__(self) -> None:
            super().__init__()
            self.seen, self.step = seen, functools.partial(list.append, seen)

        def sample(self, index: int) -> Any:
            self.step(index)
            return index, len(self.seen)

    data = Data()
    collate = functools.partial(lambda seen, samples: (samples, list(seen)), seen)
    return Setting(data, {"collate_fn": collate}, after_epoch=lambda: seen)


@STATE.program
def the_loaders_functions_are_methods_of_the_dataset() -> Any:
    """Uses dataset.collate, which reads what samples have left, and worker_init_fn=dataset.begin."""

    class Data(Numbered):
        offset = 0

        def __init__(self) -> None:
            super().__init__()
            self.lengths: list[int] = []

        def begin(self, worker_id: int) -> None:
            self.offset = 100 * (worker_id + 1)

        def sample(self, index: int) -> Any:
            self.lengths.append(index % 5)
            return index + self.offset

        def collate(self, samples: list[int]) -> Any:
            lengths, self.lengths = self.lengths, []
            return samples, lengths

    data = Data()
    arguments = {"collate_fn": data.collate, "worker_init_fn": data.begin}
    return Setting(data, arguments, after_epoch=lambda: (data.lengths, data.offset))
