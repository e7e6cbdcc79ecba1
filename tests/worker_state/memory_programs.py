"""Programs whose workers write to memory that processes share."""

from __future__ import annotations

import ctypes
import mmap
import multiprocessing
from typing import Any

import numpy as np
import torch
from numbered import NUM_SAMPLES
from program import Chapter, Setting, Transformed, new_folder
from torch.utils.data import get_worker_info

MEMORY = Chapter()


def slot() -> int:
    """Returns a number for each worker; 0 in the program itself."""
    info = get_worker_info()
    return 0 if info is None else info.id


@MEMORY.program
def a_view_of_a_shared_tensor() -> Any:
    """Uses a row of a shared tensor in each worker, and a module whose weights are shared."""
    rows = torch.zeros(8, 3).share_memory_()
    module = torch.nn.Linear(2, 2).share_memory()
    views = [*rows]

    def transform(index: int) -> Any:
        views[slot()].add_(index)
        with torch.no_grad():
            module.bias[0] = 7.0
        return rows[slot()].clone()

    return Setting(Transformed(transform), after_epoch=lambda: (rows, module.bias.detach()))


@MEMORY.program
def memory_of_multiprocessing() -> Any:
    """Counts in mp.Value, in arrays with and without a lock, in one as NumPy's, and in a map, and sets an mp.Event."""
    value, counts = multiprocessing.Value("i", 0), multiprocessing.Array("d", NUM_SAMPLES)
    raw = multiprocessing.RawArray(ctypes.c_int, 8)
    event, lock = multiprocessing.Event(), multiprocessing.Lock()
    memory = multiprocessing.Array(ctypes.c_double, NUM_SAMPLES, lock=False)
    cache = np.frombuffer(memory)
    mapped = np.frombuffer(mmap.mmap(-1, 4096), np.uint8)

    def transform(index: int) -> Any:
        with value.get_lock():
            value.value += index
        with lock:
            if index == NUM_SAMPLES - 1:
                event.set()
        counts[index] += 1.0
        raw[slot()] += 1
        mapped[index] += 1
        was = float(cache[index])
        cache[index] += index
        return raw[slot()], was

    return Setting(
        Transformed(transform),
        after_epoch=lambda: (value.value, *map(list, (counts, raw, memory, mapped[:NUM_SAMPLES])), event.is_set()),
    )


@MEMORY.program
def memmaps() -> Any:
    """Uses np.memmap with mode r, c (copied on write) and r+, whose file has the workers' writes."""
    files = [new_folder() / "table" for _ in range(2)]
    for file in files:
        np.arange(NUM_SAMPLES, dtype=np.int64).tofile(file)
    table, own = (np.memmap(files[0], dtype=np.int64, mode=mode) for mode in ("r", "c"))
    written = np.memmap(files[1], dtype=np.int64, mode="r+")

    def transform(index: int) -> Any:
        own[0] += 1
        written[index] += index
        return int(table[index]), int(own[0]), table.flags.writeable

    return Setting(Transformed(transform), after_epoch=lambda: (np.asarray(own[:2]), np.fromfile(files[1])))
