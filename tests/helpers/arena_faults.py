"""Fails the n-th call of a kind while batches go through an arena; in a child that has the library of failing_calls.py.

After each n: batches have their bytes, wherever they went, or the arena could not be made; nothing is left over.
"""

from __future__ import annotations

from pathlib import Path

from arena_batches import copied, is_filled, make_batch, sent
from failing_calls import FOREVER, Shim
from held import held_now

from fastload import _native

SIZES = (300_000, 5_000, *[0] * 70)  # after so many batches without bytes the memory is given back


def run_batches() -> str:
    """Makes an arena and sends batches through it; returns how it went."""
    try:
        arena = _native.Arena(3, 1 << 24)
        slots = _native.ArenaSlots(arena)
        way = "smaller" if arena.slot_bytes < 1 << 24 else "anonymous" if arena.descriptor is None else "memfd"
        for number, size in enumerate(SIZES):
            batch = make_batch(slots, size, number)
            place = sent(slots, batch)
            if place is not None:
                assert is_filled(copied(arena, place), number)
                slots.set_free([place[0]])
            elif size > 0:
                way = "inline"
            assert is_filled(batch, number)
            del batch
        slots.release()
        arena.release()
    except (OSError, MemoryError) as error:
        return type(error).__name__
    return way


def num_mappings() -> int:
    lines = Path("/proc/self/maps").read_text().splitlines()
    return sum("memfd:fastload" in line or "/dev/zero" in line for line in lines)


def run(call: str) -> None:
    """Fails each n-th call, and all from the n-th on; prints the ways that it went."""
    shim = Shim()
    shim.watch(Path("/memfd:fastload"), "/_core.")
    assert run_batches() == "memfd"
    held = held_now()
    ways = set()
    for times in (1, FOREVER):
        n = 1
        while True:
            with shim.failing(call, n, times):
                way = run_batches()
            assert (held_now(), num_mappings()) == (held, 0)
            if shim.seen < n:
                break
            ways.add(way)
            n += 1
        assert way == run_batches() == "memfd"
    print(call, *sorted(ways), flush=True)
