"""Fails the n-th call of a kind while batches go through an arena; in a child that has the library of failing_calls.py.

After each n: batches have their bytes, wherever they went, or the arena could not be made; nothing is left over.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from arena_batches import copied, is_filled, make_batch, sent
from failing_calls import FOREVER, Shim
from held import held_now

from fastload import _native

# More than a slot keeps memory that it does not need.
NUM_BATCHES = 70
SIZES = (300_000, 5_000, 0)


def run_batches() -> str:
    """Makes an arena and sends batches through it; returns how it went."""
    try:
        arena = _native.Arena(3, 1 << 24)
        slots = _native.ArenaSlots(arena)
        way = "smaller" if arena.slot_bytes < 1 << 24 else "anonymous" if arena.descriptor is None else "memfd"
        is_inline = False
        for number in range(NUM_BATCHES):
            slots.begin_batch()
            batch = make_batch(slots, SIZES[min(number, len(SIZES) - 1)], number)
            place = sent(slots, batch)
            if place is not None:
                assert is_filled(copied(arena, place), number)
                slots.set_free([place[0]])
            is_inline |= place is None and batch.nbytes > 0
            assert is_filled(batch, number)
            del batch
        slots.release()
        arena.release()
    except OSError:
        return "OSError"
    except MemoryError:
        return "MemoryError"
    return f"{way}, inline" if is_inline else way


def mappings() -> int:
    lines = Path("/proc/self/maps").read_text().splitlines()
    return sum("memfd:fastload" in line or "/dev/zero" in line for line in lines)


def run(call: str) -> None:
    """Fails each n-th call, and all from the n-th on; prints how often it went which way."""
    shim = Shim()
    shim.watch(Path("/memfd:fastload"), "/_core.")
    assert run_batches() == "memfd"
    held = held_now()
    ways: Counter[str] = Counter()
    for times in (1, FOREVER):
        n, is_over = 0, False
        while not is_over:
            n += 1
            with shim.failing(call, n, times):
                way = run_batches()
            is_over = shim.seen < n
            assert held_now() == held
            assert mappings() == 0
            ways.update([] if is_over else [way])
            assert not is_over or way == "memfd"
            assert run_batches() == "memfd"
    print(call, dict(ways), flush=True)
