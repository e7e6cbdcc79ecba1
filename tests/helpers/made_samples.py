"""A data set that says which samples it has made, also in other processes."""

from __future__ import annotations

import os
import random
import threading
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from flat_values import flat
from torch.utils.data import Dataset


def sample_of(index: int) -> dict[str, Any]:
    """Returns a sample as the data set makes it: seeded by the index."""
    return {
        "cloud": torch.from_numpy(np.random.default_rng(index).standard_normal((5 + index % 7, 3))),
        "label": index,
        "faces": np.arange(index, index + 6, dtype=np.int16).reshape(2, 3),
        "name": f"sample {index}",
    }


def label_of(sample: dict[str, Any]) -> Any:
    return sample["label"]


class MadeSamples(Dataset[Any]):
    """Samples by sample_of(), with a line in `log` for each that is made.

    Args:
        log: The log of the samples that were made.
        length: The number of samples.
        seconds: That making one takes at least, so that others ask for it meanwhile.
    """

    def __init__(self, log: Path, length: int, seconds: float = 0.0) -> None:
        self.log = str(log)
        self.length = length
        self.seconds = seconds

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> dict[str, Any]:
        if not -self.length <= index < self.length:
            raise IndexError(index)
        index %= self.length
        file = os.open(self.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(file, f"{index}\n".encode())
        os.close(file)
        time.sleep(self.seconds)
        return sample_of(index)

    def made(self) -> Counter[int]:
        """Returns how often each sample was made."""
        log = Path(self.log)
        return Counter(map(int, log.read_text().split())) if log.exists() else Counter()


def once(indexes: Iterable[int]) -> Counter[int]:
    """Returns the result of made() if each of these was made once."""
    return Counter(dict.fromkeys(indexes, 1))


def check_samples(cached: Any, indexes: Iterable[int]) -> None:
    """Asks for samples and compares every bit."""
    for index in indexes:
        assert flat(cached[index]) == flat(sample_of(index)), index


def shuffled(length: int, seed: int) -> list[int]:
    order = list(range(length))
    random.Random(seed).shuffle(order)
    return order


def in_threads(number: int, function: Any) -> None:
    """Calls `function` with 0, 1, ... in so many threads at once, and raises what one of them raises."""
    begin = threading.Barrier(number)
    errors: list[BaseException] = []

    def run(thread: int) -> None:
        try:
            begin.wait(30)
            function(thread)
        except BaseException as error:  # noqa: BLE001 - for the test
            errors.append(error)

    threads = [threading.Thread(target=run, args=(thread,), daemon=True) for thread in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads), "a thread waits for ever"
    if errors:
        raise errors[0]
