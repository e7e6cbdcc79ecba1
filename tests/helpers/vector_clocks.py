"""A torch.cuda that computes nothing and knows what may happen at the same time.

Streams, events and tensors with the functions of torch.cuda that order work between threads. Every stream has a vector
clock; work given to it is a tick of its own. One thing comes before another if the clock of the later one has seen it.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

Clock = dict[int, int]


class OrderError(AssertionError):
    """Work was given to the device that may run at the same time as what it depends on."""


@dataclass(frozen=True)
class ClockedIndex:
    index: int


class ClockedStream:
    def __init__(self, number: int, device: int) -> None:
        self.number = number
        self.device_index = device
        self.clock: Clock = {number: 0}

    def tick(self) -> None:
        self.clock[self.number] += 1

    def wait_event(self, event: ClockedEvent) -> None:
        for number, time in event.clock.items():
            self.clock[number] = max(self.clock.get(number, 0), time)

    def has_seen(self, clock: Clock) -> bool:
        return all(self.clock.get(number, 0) >= time for number, time in clock.items())


class ClockedEvent:
    def __init__(self) -> None:
        self.clock: Clock = {}

    def record(self, stream: ClockedStream) -> None:
        self.clock = dict(stream.clock)


@dataclass
class ClockedTensor:
    """A tensor written on one stream; its memory waits for the streams `users` before it is reused."""

    home: ClockedStream
    written: Clock
    value: Any
    users: set[int] = field(default_factory=set)

    @property
    def device(self) -> ClockedIndex:
        return ClockedIndex(self.home.device_index)

    def record_stream(self, stream: ClockedStream) -> None:
        self.users.add(stream.number)


class ClockedCuda:
    """The part of torch.cuda that fastload's ordering uses, and work to give to it."""

    def __init__(self, num_devices: int = 1) -> None:
        self.lock = threading.Lock()
        self.is_in_use = True
        self._num_streams = 0
        self._this_thread = threading.local()
        self.defaults = [self._new_stream(device) for device in range(num_devices)]

    def _new_stream(self, device: int) -> ClockedStream:
        with self.lock:
            self._num_streams += 1
            return ClockedStream(self._num_streams, device)

    # ---- as torch.cuda ---------------------------------------------------------------------------------------------

    def is_initialized(self) -> bool:
        return self.is_in_use

    def current_device(self) -> int:
        return getattr(self._this_thread, "device", 0)

    def set_device(self, device: int) -> None:
        self._this_thread.device = device

    def _streams(self) -> dict[int, ClockedStream]:
        if not hasattr(self._this_thread, "streams"):
            self._this_thread.streams = dict(enumerate(self.defaults))
        streams: dict[int, ClockedStream] = self._this_thread.streams
        return streams

    def current_stream(self, device: int | None = None) -> ClockedStream:
        return self._streams()[self.current_device() if device is None else device]

    def set_stream(self, stream: ClockedStream) -> None:
        self._streams()[stream.device_index] = stream

    def Stream(self) -> ClockedStream:
        return self._new_stream(self.current_device())

    def Event(self) -> ClockedEvent:
        return ClockedEvent()

    # ---- work ------------------------------------------------------------------------------------------------------

    def write(self, value: Any, device: int | None = None) -> ClockedTensor:
        """Runs a kernel on the current stream that makes a tensor."""
        stream = self.current_stream(device)
        stream.tick()
        return ClockedTensor(stream, {stream.number: stream.clock[stream.number]}, value)

    def read(self, tensor: ClockedTensor) -> Any:
        """Runs a kernel that reads the tensor, on the current stream of its device.

        Raises:
            OrderError: The kernel may begin before the tensor is written, or the memory may be reused meanwhile.
        """
        stream = self.current_stream(tensor.home.device_index)
        if not stream.has_seen(tensor.written):
            raise OrderError(f"stream {stream.number} reads what stream {tensor.home.number} may not have written")
        if stream is not tensor.home and stream.number not in tensor.users:
            raise OrderError(f"stream {stream.number} reads memory that stream {tensor.home.number} may use anew")
        stream.tick()
        return tensor.value
