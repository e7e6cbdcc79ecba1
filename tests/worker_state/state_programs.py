"""Programs that keep state between samples, on objects that the data set, collate_fn and worker_init_fn share."""

from __future__ import annotations

import functools
import threading
from typing import Any

from numbered import Numbered
from program import Chapter, Setting
from torch.utils.data import get_worker_info

STATE = Chapter()


@STATE.program
def a_variable_and_a_list_by_several_names() -> Any:
    """Uses a variable of two functions, and a list that the data set, a step of it and collate_fn hold."""
    seen: list[int] = []
    total = 0

    class Data(Numbered):
        def __init__(self) -> None:
            super().__init__()
            self.seen, self.step = seen, functools.partial(list.append, seen)

        def sample(self, index: int) -> Any:
            nonlocal total
            total += index
            self.step(index)
            return index, total, len(self.seen)

    def read(seen: list[int], samples: Any) -> Any:
        return samples, total, list(seen)

    return Setting(Data(), {"collate_fn": functools.partial(read, seen)}, after_epoch=lambda: (total, seen))


@STATE.program
def a_thread_local_and_a_lock_around_a_counter() -> Any:
    """Uses threading.local with values that the program's thread has set, and counts under a lock."""
    local = threading.local()
    local.calls, local.seen = 10, [1]

    class Data(Numbered):
        def __init__(self) -> None:
            super().__init__()
            self.lock, self.condition, self.calls = threading.RLock(), threading.Condition(), 0

        def sample(self, index: int) -> Any:
            local.calls += 1
            local.seen.append(index)
            with self.lock, self.condition:
                self.calls += 1
                return index, self.calls, local.calls, len(local.seen)

    data = Data()
    return Setting(data, after_epoch=lambda: (data.calls, local.calls, local.seen))


@STATE.program
def the_worker_infos_dataset() -> Any:
    """Checks that get_worker_info().dataset is the dataset asked for samples, and the owner of its transform."""

    class Data(Numbered):
        def sample(self, index: int) -> Any:
            info = get_worker_info()
            return index, info is None or info.dataset is self, -1 if info is None else info.id

    return Data()


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
