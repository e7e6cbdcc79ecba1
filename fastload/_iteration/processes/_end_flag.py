"""The byte that tells worker processes to end."""

from __future__ import annotations

import mmap
import os
import tempfile
from multiprocessing import reduction
from typing import Any


class EndFlag:
    """A byte that a process may be given, forked or spawned: not 0 once the workers were told to end.

    Unlike multiprocessing's shared values, it runs no Python code when it is dropped: Note [drops].

    Args:
        is_forked: Whether the processes are forked.

    Attributes:
        byte: Memory of one byte.

    Raises:
        OSError: The system refuses the memory.
    """

    def __init__(self, *, is_forked: bool) -> None:
        self._descriptor: int | None = None
        if not is_forked:
            with tempfile.TemporaryFile(buffering=0) as file:
                file.write(b"\0")  # takes the space now, because writing to a mapping of a full disk ends the process
                self._descriptor = os.dup(file.fileno())
        self.byte = mmap.mmap(-1 if self._descriptor is None else self._descriptor, 1)

    def __reduce__(self) -> tuple[Any, ...]:
        assert self._descriptor is not None, "forked processes inherit the memory"
        return _from_duplicate, (reduction.DupFd(self._descriptor),)

    def close_descriptor(self) -> None:
        """Closes the descriptor once all processes have the flag."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


def _from_duplicate(duplicate: Any) -> EndFlag:
    flag = EndFlag.__new__(EndFlag)
    flag._descriptor = None
    descriptor = duplicate.detach()
    try:
        flag.byte = mmap.mmap(descriptor, 1)
    finally:
        os.close(descriptor)
    return flag
