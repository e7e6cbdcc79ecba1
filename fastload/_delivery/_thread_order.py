"""Orders the device work of the user's own Python code in a loader's threads before the consumer's work.

Note [streams of threads]
Each thread has its own stream, so a data set that computes on the device waits neither for the training nor for other
threads. Three rules make that safe. Work that the program queued before iter() runs before the threads' work. A
thread's work runs before any use of its samples: the stream of the collating thread waits for an event after each
sample, and the stream that is current when next() returns waits for an event after the batch; the host waits for
neither. And a tensor's memory is not reused before the stream that received it is done with it (record_stream).
"""

from __future__ import annotations

import collections
import contextlib
import itertools
import logging
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import FunctionType, MemberDescriptorType, ModuleType
from typing import Any

import torch
import torch.utils.data

# The device work for a sample or batch: an event on each stream that has some, by device.
Mark = dict[int, Any]


class _ThreadState(threading.local):
    start: Mark | None = None  # this thread's stream has waited for it


class DeviceOrder:
    """The rules of Note [streams of threads] for the threads of one iterator.

    It does nothing until the program has begun to use the device.

    Args:
        api: torch.cuda; tests have their own.
    """

    def __init__(self, api: Any = torch.cuda) -> None:
        self._api = api
        self._start: Mark | None = None
        self._device: int | None = None
        self._thread_state = _ThreadState()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles as an order that has not begun, for a worker process."""
        return DeviceOrder, ()

    def begin(self) -> None:
        """Begins an epoch: the calling thread's device work so far comes before other threads' later work."""
        if self._api.is_initialized():
            self._device = self._api.current_device()
            self._start = self.mark(None)

    def enter(self) -> None:
        """Prepares a thread before each piece of its work.

        The thread gets its own stream on the device that was current at `begin`. If the program began to use the device
        later, it stays on the default stream until the next epoch.
        """
        if self._start is None or self._thread_state.start is self._start:
            return
        if self._thread_state.start is None:
            assert self._device is not None, "set before _start"
            self._api.set_device(self._device)
            self._api.set_stream(self._api.Stream())
        self._thread_state.start = self._start
        self.take_over(None, self._start)

    def mark(self, value: Any) -> Mark | None:
        """Returns a mark after all device work of the calling thread for `value`."""
        if not self._api.is_initialized():
            return None
        devices = {self._api.current_device(), *map(self._device_of, holders(value))}
        return {device: self._recorded(device) for device in devices}

    def take_over(self, value: Any, mark: Mark | None) -> None:
        """Makes later device work of the calling thread wait for `mark`, and lets it use `value`."""
        if mark is None:
            return
        for device, event in mark.items():
            self._api.current_stream(device).wait_event(event)
        for holder in holders(value):
            holder.record_stream(self._api.current_stream(self._device_of(holder)))

    def _device_of(self, holder: Any) -> int:
        index = getattr(getattr(holder, "device", None), "index", None)
        return index if isinstance(index, int) else self._api.current_device()

    def _recorded(self, device: int) -> Any:
        event = self._api.Event()
        event.record(self._api.current_stream(device))
        return event


def _is_on_gpu(tensor: torch.Tensor) -> bool:
    return tensor.device.type == "cuda"


# These hold no tensors of a batch, though some refer to a model's or to all samples' tensors.
_LEAVES = (
    *(str, bytes, int, float, type(None), type, range, collections.UserString, FunctionType, ModuleType),
    *(torch.utils.data.Dataset, torch.nn.Module, logging.Logger, threading.Thread),
)
# A sample may refer to all others, so the search covers this many objects, nearest first, and this many items in each.
_MAX_OBJECTS = 1000
_MAX_IN_OBJECT = 1000


def holders(value: Any, is_on_device: Callable[[torch.Tensor], bool] = _is_on_gpu) -> Iterator[Any]:
    """Yields the device tensors in `value`, in its mappings and sequences, and then in the attributes of its objects.

    A user's object that has ``record_stream`` stands for its tensors.
    """
    objects: collections.deque[Any] = collections.deque()
    seen: dict[int, Any] = {}  # holds the objects, so that no other object gets the id of one meanwhile
    yield from _search([value], is_on_device, objects, seen, sys.maxsize)
    for _ in range(_MAX_OBJECTS):
        if not objects:
            return
        with contextlib.suppress(Exception):  # raised, say, by a proxy of a dead object
            yield from _search(_attributes(objects.popleft()), is_on_device, objects, seen, _MAX_IN_OBJECT)


def _search(
    items: Iterable[Any],
    is_on_device: Callable[[torch.Tensor], bool],
    objects: collections.deque[Any],
    seen: dict[int, Any],
    limit: int,
) -> Iterator[Any]:
    """Yields holders among `limit` of the items and their contents; other objects not in `seen` go to `objects`."""
    left = collections.deque(items)
    while left and limit > 0:
        limit -= 1
        item = left.popleft()
        if isinstance(item, torch.Tensor):
            if is_on_device(item):
                yield item
            continue
        if isinstance(item, _LEAVES) or id(item) in seen:
            continue
        seen[id(item)] = item
        if isinstance(item, Mapping):
            left.extend(itertools.islice(item.values(), limit))
        elif isinstance(item, Sequence):
            left.extend(itertools.islice(item, limit))
        elif callable(getattr(item, "record_stream", None)):
            yield item
        else:
            objects.append(item)


def _attributes(item: Any) -> Iterator[Any]:
    yield from getattr(item, "__dict__", {}).values()
    for base in type(item).__mro__:
        for slot in vars(base).values():
            if isinstance(slot, MemberDescriptorType):
                with contextlib.suppress(AttributeError):
                    yield slot.__get__(item)
