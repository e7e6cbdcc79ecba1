"""Batches of bytes in arenas: made in a worker, copied out in its parent."""

from __future__ import annotations

from collections.abc import Callable
from multiprocessing.connection import Connection

import torch

from fastload import _native

Place = tuple[int, int, int]


def make_batch(slots: _native.ArenaSlots, size: int, value: int) -> torch.Tensor:
    """Returns a new batch: `size` bytes of one value, in the batch's slot if it has room."""
    slots.begin_batch()
    buffer = slots.allocate(size)
    if buffer is None:
        return torch.full((size,), value, dtype=torch.uint8)
    return torch.frombuffer(buffer, dtype=torch.uint8).fill_(value)


def sent(slots: _native.ArenaSlots, batch: torch.Tensor) -> Place | None:
    """Ends a batch and returns where its bytes are; None if they have to be sent otherwise."""
    place = slots.find(batch.data_ptr(), batch.nbytes) or slots.append(batch.data_ptr(), batch.nbytes)
    assert slots.end_batch() == (None if place is None else place[0])
    return None if place is None else (*place, batch.nbytes)


def copied(arena: _native.Arena, place: Place) -> torch.Tensor:
    """Returns a copy of a batch's bytes."""
    slot, offset, nbytes = place
    batch = torch.empty(nbytes, dtype=torch.uint8)
    arena.copy_out(slot, offset, batch.data_ptr(), nbytes)
    return batch


def is_filled(batch: torch.Tensor, value: int) -> bool:
    return bool((batch == value).all())


def value_of(number: int) -> int:
    """Returns the value of the bytes of a batch."""
    return 1 + number % 251


def answer_requests(
    arena: _native.Arena, connection: Connection, keep: Callable[[_native.ArenaSlots, int, torch.Tensor], None]
) -> None:
    """Works until the parent ends: a request names free slots and the batch's size, its answer is a place or None.

    `keep` does with the slots, the batch's number and the batch what the user's code does.
    """
    slots = _native.ArenaSlots(arena)
    number = 0
    while (request := connection.recv()) is not None:
        free_slots, size = request
        slots.set_free(free_slots)
        batch = make_batch(slots, size, value_of(number))
        keep(slots, number, batch)
        connection.send(sent(slots, batch))
        del batch
        number += 1
    slots.release()
