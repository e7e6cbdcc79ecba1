"""The arenas of workers: memory of a process that its parent maps, too, and copies batches out of."""

from __future__ import annotations

import os
from collections.abc import Callable
from multiprocessing import reduction
from typing import Any, NamedTuple

import torch

from fastload import _native
from fastload._delivery._hand_over import Pinning
from fastload._iteration.processes._packing import Part
from fastload._process._exit import LiveObjects
from fastload._workers._collate_memory import CollateMemory, WorkerMemory

# Smaller memory is sent with its message.
_MIN_BYTES = 1 << 16

# The arenas of this process. A forked child needs their mappings alone.
_arenas: LiveObjects[_native.Arena] = LiveObjects()


def _close_descriptors() -> None:
    for arena in _arenas.all():
        arena.close_descriptor()


os.register_at_fork(after_in_child=_close_descriptors)


def new_arena(*, is_forked: bool) -> _native.Arena | None:
    """Returns an arena for a process that is forked, or spawned.

    None means that there is no memory to map, and batches go through the connection.
    """
    return _noted(lambda: _native.Arena(is_forked=is_forked))


def shortage_of(arena: _native.Arena | None) -> str | None:
    """Returns why batches may go through the connection, as a clause; None: it needs no mention."""
    if arena is None:
        return "the system gives them no memory to share with this process"
    if not arena.is_limited:
        return None
    free = os.statvfs("/dev/shm")
    return f"memfd_create is refused here, and /dev/shm has {free.f_bavail * free.f_frsize >> 20} MiB for all of them"


def _noted(make: Callable[[], _native.Arena]) -> _native.Arena | None:
    try:
        arena = make()
    except OSError:
        return None
    _arenas.add(arena)
    return arena


def _reduced(arena: _native.Arena) -> tuple[Any, ...]:
    assert arena.descriptor is not None, "forked processes inherit the memory"
    duplicate = reduction.DupFd(arena.descriptor)
    return _from_duplicate, (duplicate, arena.num_slots, arena.slot_bytes, arena.is_limited)


def _from_duplicate(duplicate: Any, *arguments: Any) -> _native.Arena | None:
    descriptor = duplicate.detach()
    try:
        return _noted(lambda: _native.Arena.from_descriptor(descriptor, *arguments))
    finally:
        os.close(descriptor)


reduction.register(_native.Arena, _reduced)


class Span(NamedTuple):
    """A part of a batch: `nbytes` from byte `offset` on of a slot in the arena; None: of the message's data.

    `is_of_one`: see Part.
    """

    slot: int | None
    offset: int
    nbytes: int
    is_of_one: bool = False


class SlotMemory(WorkerMemory):
    """The memory of a worker's batches: the slot of the batch, and `memory` for what lies in no slot."""

    def __init__(self, arena: _native.Arena | None, memory: CollateMemory) -> None:
        super().__init__(memory)
        self._slots = None if arena is None else _native.ArenaSlots(arena)
        self._slot_of: dict[int, int] = {}  # by the key of the answer that lies in it

    def set_free(self, keys: list[int]) -> None:
        """Frees the slots of answers that the parent has copied; `keys` may have some of them twice."""
        slots = [self._slot_of.pop(key) for key in keys if key in self._slot_of]
        if self._slots is not None and slots:
            self._slots.set_free(slots)

    def begin_batch(self) -> None:
        super().begin_batch()
        if self._slots is not None:
            self._slots.begin_batch()

    def end_batch(self, key: int) -> None:
        """Ends the batch of request `key`, whose answer may lie in a slot."""
        if self._slots is not None and (slot := self._slots.end_batch()) is not None:
            self._slot_of[key] = slot

    def buffer(self, size: int) -> _native.HostBuffer | None:
        in_slot = None if self._slots is None or size < _MIN_BYTES else self._slots.allocate(size)
        return super().buffer(size) if in_slot is None else in_slot

    def placed(self, part: Part) -> Span | None:
        """Returns where memory that is sent lies; None: it goes with the message."""
        if self._slots is None or part.nbytes < _MIN_BYTES:
            return None
        place = self._slots.find(part.address, part.nbytes) or self._slots.append(part.address, part.nbytes)
        return None if place is None else Span(*place, part.nbytes, part.is_of_one)

    def release(self) -> None:
        """Frees the memory at the worker's end."""
        if self._slots is not None:
            self._slots.release()


def storage_of(
    part: Span, number: int, arena: _native.Arena | None, memory: CollateMemory, pinning: Pinning | None
) -> torch.UntypedStorage:
    """Returns part `number` of a batch, which lies in a slot, in memory of its own.

    If the batch is pinned, a span of one tensor comes into page-locked memory, so that pin_memory() copies nothing.
    torch gives tensors that share memory a copy each.
    """
    if pinning is not None and part.is_of_one:
        storage = pinning.memory.empty(part.nbytes, dtype=torch.uint8).untyped_storage()
    else:
        storage = memory.storage(number, part.nbytes)
    assert arena is not None, "a part lies in it"
    assert part.slot is not None
    arena.copy_out(part.slot, part.offset, storage.data_ptr(), part.nbytes)
    return storage


def storage_of_bytes(part: Any) -> torch.UntypedStorage:
    """Returns a copy of the bytes of a part."""
    copy = bytearray(part)
    if not copy:
        return torch.UntypedStorage(0)  # type: ignore[no-untyped-call]
    return torch.frombuffer(copy, dtype=torch.uint8).untyped_storage()
