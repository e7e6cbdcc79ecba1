"""Batches of bytes in arenas: made in a worker, copied out in its parent."""

from __future__ import annotations

from multiprocessing.connection import Connection

import torch

from fastload import _native

Place = tuple[int, int, int]


def make_batch(slots: _native.ArenaSlots, size: int, value: int) -> torch.Tensor:
    """Returns `size` bytes of one value, in the batch's slot if it has room."""
    buffer = slots.allocate(size)
    if buffer is None:
        return torch.full((size,), value, dtype=torch.uint8)
    return torch.frombuffer(buffer, dtype=torch.uint8).fill_(value)


def sent(slots: _native.ArenaSlots, batch: torch.Tensor) -> Place | None:
    """Ends a batch and returns where its bytes are; None if they have to be sent otherwise."""
    place = slots.find(batch.data_ptr(), batch.nbytes) or slots.append(batch.data_ptr(), batch.nbytes)
    ended = slots.end_batch()
    assert ended == (None if place is None else place[0])
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


class Worker:
    """Answers requests in a child: a request names free slots and the batch's size; its answer is a place or None."""

    def __init__(self, arena: _native.Arena) -> None:
        self.arena = arena
        self.number = 0

    def __call__(self, connection: Connection) -> None:
        self.slots = _native.ArenaSlots(self.arena)
        while True:
            try:
                free_slots, size = connection.recv()
            except EOFError:
                return
            self.slots.set_free(free_slots)
            self.slots.begin_batch()
            batch = make_batch(self.slots, size, value_of(self.number))
            self.keep(batch)
            connection.send(sent(self.slots, batch))
            self.number += 1

    def keep(self, batch: torch.Tensor) -> None:
        """Does what the user's code does with a batch."""
