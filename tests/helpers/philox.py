"""Philox4x32-10 after its paper, independently of the C++ one."""

from __future__ import annotations


def philox(counter: list[int], key: list[int]) -> list[int]:
    mask = 0xFFFFFFFF
    c, k = list(counter), list(key)
    for _ in range(10):
        left, right = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [right >> 32 ^ c[1] ^ k[0], right & mask, left >> 32 ^ c[3] ^ k[1], left & mask]
        k = [(k[0] + 0x9E3779B9) & mask, (k[1] + 0xBB67AE85) & mask]
    return c
