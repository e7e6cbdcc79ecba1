"""Loaders of streams go on where they were stopped, also where batches are on a device before they are asked for."""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from devices import DeviceUnderTest, read_all
from torch.utils.data import IterableDataset, get_worker_info

import fastload


class Numbers(IterableDataset[Any]):
    """Numbers that differ between workers, with a draw for each."""

    def __iter__(self) -> Iterator[Any]:
        info: Any = get_worker_info()
        for number in range(9 + 4 * info.id):
            yield torch.tensor([100.0 * info.id + number, random.random()])


class Told(IterableDataset[Any]):
    """They tell where they stand, and draw for each."""

    def __init__(self) -> None:
        self.number = 0

    def __iter__(self) -> Iterator[Any]:
        info: Any = get_worker_info()
        while self.number < 9 + 4 * info.id:
            self.number += 1
            yield torch.tensor([100.0 * info.id + self.number, random.random()])

    def state_dict(self) -> dict[str, Any]:
        return {"number": self.number}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.number = state["number"]


@pytest.mark.parametrize("stream", [Numbers, Told])
@pytest.mark.parametrize("every", [1, 5])
def test_a_stream_goes_on_and_what_is_passed_over_is_not_delivered(
    device: DeviceUnderTest, stream: Any, every: int
) -> None:
    transformed: list[int] = []

    def make() -> Any:
        return fastload.DataLoader(
            stream(),
            batch_size=2,
            num_workers=2,
            device=device.handle,
            device_prefetch=3,
            device_transform=lambda batch: transformed.append(len(batch)) or batch,
            snapshot_every_n_steps=every,
        )

    def rest_of(iterator: Any) -> list[Any]:
        reads = [read_all(device, batch) for batch in iterator]
        device.synchronize()
        return [[tensor.tolist() for tensor in read()] for read in reads]

    torch.manual_seed(3)
    whole = rest_of(iter(make()))
    for stop in range(len(whole)):
        torch.manual_seed(3)
        loader = make()
        iterator = iter(loader)
        for _ in range(stop):
            next(iterator)
        state = loader.state_dict()
        loader.close()
        transformed.clear()
        again = make()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            again.load_state_dict(state)
            resumed = iter(again)
        assert transformed == []
        assert rest_of(resumed) == whole[stop:], stop
