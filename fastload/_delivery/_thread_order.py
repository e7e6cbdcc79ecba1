"""Work that the user's own Python gives to a device in a loader's threads, ordered before that of who gets the batch.

Note [streams of threads]
Each thread has a stream of its own, so that a data set which computes on the device waits neither for the training nor
for other threads. Three orders make that safe. What the program had given to the device before iter() comes before what
the threads give to it. What a thread has given to it comes before what is done with its samples: an event, recorded
behind a sample, is waited for by the stream of the thread that collates it, and one behind a batch by the stream that
is current where next() returns it; the host waits for neither. And the memory of a tensor is not used anew before the
stream it was handed to is done with it (record_stream).
"""

from __future__ import annotations

import collections
import contextlib
import itertools
import logging
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import FunctionType, MemberDescriptorType, ModuleType
from typing import Any, Protocol

import torch
import torch.utils.data


class DeviceApi(Protocol):
    """The part of torch.cuda that is needed; tests have another."""

    def is_initialized(self) -> bool: ...
    def current_device(self) -> int: ...
    def set_device(self, device: int) -> None: ...
    def current_stream(self, device: int | None = None) -> Any: ...
    def set_stream(self, stream: Any) -> None: ...
    def Stream(self) -> Any: ...
    def Event(self) -> Any: ...


@dataclass(frozen=True)
class Mark:
    """What was given to the device for a sample or batch: an event of each stream it was given to, by device."""

    events: Mapping[int, Any]


class _OfThread(threading.local):
    start: Mark | None = None  # the one that this thread's stream is behind


class DeviceOrder:
    """The orders of Note [streams of threads] for the threads of one iterator.

    Nothing is done as long as the program has not begun to use the device.

    Args:
        api: torch.cuda.
    """

    def __init__(self, api: DeviceApi = torch.cuda) -> None:
        self._api = api
        self._start: Mark | None = None
        self._device: int | None = None
        self._of_thread = _OfThread()

    def begin(self) -> None:
        """An epoch begins: what the calling thread has given to the device comes before what others will."""
        if self._api.is_initialized():
            self._device = self._api.current_device()
            self._start = self.mark(None)

    def enter(self) -> None:
        """Called in a thread before each piece of its work.

        It gets a stream of its own on the device that was current at `begin`. Where the device came into use later it
        stays on the default stream until the next epoch.
        """
        if self._start is None or self._of_thread.start is self._start:
            return
        if self._of_thread.start is None:
            assert self._device is not None, "set before _start"
            self._api.set_device(self._device)
            self._api.set_stream(self._api.Stream())
        self._of_thread.start = self._start
        self.take_over(None, self._start)

    def mark(self, value: Any) -> Mark | None:
        """Marks the place behind all that the calling thread has given to the device for `value`."""
        if not self._api.is_initialized():
            return None
        devices = {self._api.current_device(), *map(self._device_of, holders(value))}
        return Mark({device: self._recorded(device) for device in devices})

    def take_over(self, value: Any, mark: Mark | None) -> None:
        """Orders what the calling thread gives to the device from now on behind `mark`, and lets it have `value`."""
        if mark is None:
            return
        for device, event in mark.events.items():
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


# Hold no tensors of a batch, though some know those of a model or of all samples.
_LEAVES = (
    *(str, bytes, int, float, type(None), type, range, collections.UserString, FunctionType, ModuleType),
    *(torch.utils.data.Dataset, torch.nn.Module, logging.Logger, threading.Thread),
)
# A sample may know all others: so many objects are looked into, the nearest first, and so many things in each.
_MAX_OBJECTS = 1000
_MAX_IN_OBJECT = 1000


def holders(value: Any, is_on_device: Callable[[torch.Tensor], bool] = _is_on_gpu) -> Iterator[Any]:
    """The device tensors in `value`, in its mappings and sequences, and then in the attributes of its objects.

    An object of the user's that has ``record_stream`` stands for its tensors.
    """
    objects: collections.deque[Any] = collections.deque()
    seen: dict[int, Any] = {}  # with the things themselves, so that no other gets the address of one meanwhile
    yield from _search([value], is_on_device, objects, seen, sys.maxsize)
    for _ in range(_MAX_OBJECTS):
        if not objects:
            return
        with contextlib.suppress(Exception):  # of a proxy of what is not there any more, say
            yield from _search(_attributes(objects.popleft()), is_on_device, objects, seen, _MAX_IN_OBJECT)


def _search(
    items: Iterable[Any],
    is_on_device: Callable[[torch.Tensor], bool],
    objects: collections.deque[Any],
    seen: dict[int, Any],
    limit: int,
) -> Iterator[Any]:
    """Holders among `limit` of the items and what they contain; `objects` gets what else is not in `seen`."""
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
