"""Samples kept as objects in the process."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import torch

from fastload._cached._copies import num_bytes, own_copy
from fastload._cached._gpus import finished, on
from fastload._cached._samples import MISSING, Samples
from fastload._cached._turns import Turns
from fastload._display._units import counted, in_bytes


class MemorySamples(Samples):
    """See Samples. A forked child has those that its parent had, and keeps its own for itself.

    Args:
        max_bytes: That they may take; None: any number.
        copies: Whether samples are copied when they are kept and when they are handed out.
        to: Where tensors go that are handed out; None: where they are.
    """

    def __init__(self, max_bytes: int | None, *, copies: bool, to: torch.device | None) -> None:
        self._to = to
        self._max_bytes = max_bytes
        self._copies = copies
        self._samples: dict[bytes, Any] = {}
        self._num_bytes = 0
        self._is_full = False
        self._turns = Turns()

    @property
    def is_full(self) -> bool:
        """See Samples."""
        return self._is_full

    def has(self, key: bytes) -> bool:
        """See Samples."""
        return key in self._samples

    def get(self, key: bytes) -> Any:
        """See Samples."""
        found = self._samples.get(key, MISSING)
        if found is MISSING:
            return MISSING
        return on(own_copy(found) if self._copies else found, self._to)

    def put(self, key: bytes, sample: Any) -> None:
        """See Samples. Raises TypeError: it cannot be copied."""
        if self._is_full:
            return
        kept = finished(own_copy(sample), None) if self._copies else sample
        size = 0 if self._max_bytes is None else num_bytes(kept)
        with self._turns.locked():
            if key in self._samples:  # made twice: see Note [who makes a sample]
                return
            if self._max_bytes is not None and self._num_bytes + size > self._max_bytes:
                self._is_full = True
                return
            self._num_bytes += size
            self._samples[key] = kept

    def turn(self, key: bytes, *, waits: bool = True) -> AbstractContextManager[bool]:
        """See Samples."""
        return self._turns.turn(key, waits=waits)

    def clear(self) -> None:
        """See Samples."""
        with self._turns.locked():
            self._samples = {}
            self._num_bytes = 0
            self._is_full = False

    def describe(self) -> str:
        """See Samples."""
        most = "" if self._max_bytes is None else f" in at most {in_bytes(self._max_bytes)}"
        return f"{counted(len(self._samples), 'sample')} in memory{most}"
