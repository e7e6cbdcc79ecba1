"""The timed work on a GPU: copies of batches, and stretches of training."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from benchmarks._harness import interleave
from benchmarks.contenders._base import CROP_SIZE
from fastload._delivery._batch_memory import PlacedBatch, StagedMemory, ViewForm
from fastload._delivery._device import BatchLayout, Device

COPIES = ("plain", "staged")

Step = Callable[[torch.Tensor, torch.Tensor], object]


class Clock(Protocol):
    """The interface of `_gpu_machine.Gpu`; tests have one for the host."""

    def mark(self) -> Any: ...
    def milliseconds(self, begin: Any, end: Any) -> float: ...
    def wait(self) -> None: ...


# ---- copies ----------------------------------------------------------------------------------------------------------


class Copies:
    """Batches of uint8 pixels with their labels, copied as the loader copies them ("staged") and plainly ("plain").

    Both go from page-locked memory through the same stream: the loader's through its slots, from which native code
    queues a copy for each part and an event; a plain one is one copy_(non_blocking=True) of as many bytes.
    """

    def __init__(self, clock: Clock, device: Device, batch_size: int, num_batches: int) -> None:
        self._clock = clock
        self._device = device
        self._num_batches = num_batches
        self._labels = torch.zeros(batch_size, dtype=torch.int64)
        form = ViewForm(BatchLayout(CROP_SIZE, CROP_SIZE, torch.uint8, torch.channels_last))
        self._memory = StagedMemory(
            device,
            [form],
            num_batches,
            count=lambda _: None,
            check_open=lambda: None,
        )
        self.batch_bytes = batch_size * form.sample_bytes + self._labels.nbytes
        self._hosts = [self._zeros(device.pinned.empty) for _ in range(num_batches)]
        with device.on_copy_stream():
            self._targets = [self._zeros(device.empty) for _ in range(num_batches)]

    def _zeros(self, empty: Callable[..., torch.Tensor]) -> torch.Tensor:
        return empty(self.batch_bytes, dtype=torch.uint8).zero_()

    def milliseconds(self, kind: str) -> float:
        """Returns the time for all batches, copied one after the other."""
        return self._plain() if kind == "plain" else self._staged()

    def _plain(self) -> float:
        def queue() -> None:
            for host, target in zip(self._hosts, self._targets, strict=True):
                target.copy_(host, non_blocking=True)

        return self._timed(queue)

    def _staged(self) -> float:
        placed = [self._placed() for _ in range(self._num_batches)]
        self._memory.look_ahead(placed)  # destinations; the copies wait for the batches to be written
        copies = [batch.copy for batch in placed if batch.copy is not None]

        def queue() -> None:
            for copy in copies:
                copy.set_written()

        taken = self._timed(queue)
        for number, batch in enumerate(placed):
            self._memory.deliver(batch, number)  # raises if a copy failed
        self._memory.look_ahead([])
        return taken

    def _placed(self) -> PlacedBatch:
        self._memory.wait_for_room()
        return self._memory.place(self._labels)

    def _timed(self, queue: Callable[[], None]) -> float:
        with self._device.on_copy_stream():
            begin = self._clock.mark()
            queue()
            end = self._clock.mark()
        self._clock.wait()
        return self._clock.milliseconds(begin, end)


def gigabytes_per_second(copies: Copies, num_batches: int, rounds: int) -> dict[str, list[float]]:
    """Returns the rounds for each kind of COPIES, taking turns, after a round that is not timed."""
    found: dict[str, list[float]] = {kind: [] for kind in COPIES}
    for number, kind in interleave(COPIES, 1 + rounds):
        taken = copies.milliseconds(kind)
        if number > 0:
            found[kind].append(num_batches * copies.batch_bytes / taken / 1e6)
    return found


# ---- training --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Turn:
    """A stretch of training, or of loading alone.

    Attributes:
        images: number of images trained on.
        milliseconds: time on the device, from the end of the step before the first to the end of the last.
        device_wait_ms: the part of it between the end of a step and the moment its batch could be used: waits for the
            host, for the copy, and copies on the training stream.
        host_wait_ms: time that the host spent in getting batches.
    """

    images: int
    milliseconds: float
    device_wait_ms: float
    host_wait_ms: float

    @property
    def images_per_second(self) -> float:
        return 1000 * self.images / self.milliseconds

    @property
    def device_wait_share(self) -> float:
        return self.device_wait_ms / self.milliseconds

    @property
    def host_wait_share(self) -> float:
        return self.host_wait_ms / self.milliseconds


def take_turn(clock: Clock, batches: Iterator[Any], step: Step, warm_steps: int, steps: int) -> Turn:
    """Trains on the next `warm_steps` batches without timing them, then on `steps` more."""
    waits: list[tuple[Any, Any]] = []
    images = 0
    host_seconds = 0.0
    begin = clock.mark()
    for number in range(warm_steps + steps):
        asked = clock.mark()
        if number == warm_steps:
            begin = asked
        host_asked = time.perf_counter()
        pixels, labels = next(batches)
        host_got = time.perf_counter()
        got = clock.mark()
        step(pixels, labels)
        if number >= warm_steps:
            waits.append((asked, got))
            images += len(labels)
            host_seconds += host_got - host_asked
    end = clock.mark()
    clock.wait()
    device_wait = sum(clock.milliseconds(*wait) for wait in waits)
    return Turn(images, clock.milliseconds(begin, end), device_wait, 1000 * host_seconds)
