"""Damaged JPEG files."""

from __future__ import annotations

import random


def mutated(data: bytes, rng: random.Random) -> bytes:
    """Makes one to four hostile edits: flips, inserted, removed or repeated pieces, cuts, markers."""
    out = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(out))
        if rng.random() < 0.5:
            at = min(at, rng.randrange(800))
        match rng.randrange(7):
            case 0:
                out[at % len(out)] ^= 1 << rng.randrange(8)
            case 1:
                out[at % len(out)] = rng.choice([0, 1, 0xFF, 0xD0, 0xD9, 0xDA, rng.randrange(256)])
            case 2:
                del out[at : at + rng.randint(1, 4)]
            case 3:
                out[at:at] = bytes(rng.randrange(256) for _ in range(rng.randint(1, 4)))
            case 4:
                out[at:at] = out[at : at + rng.randint(1, 200)]
            case 5:
                out[at:at] = bytes([0xFF, rng.choice([0xD0, 0xD1, 0xD8, 0xD9, 0xDA, 0xC0, 0xC4, 0xDD, 0xE1, 0xFF])])
            case _:
                del out[rng.randrange(len(out) // 2, len(out)) :]
        if len(out) < 50:
            return bytes(data)
    return bytes(out)
