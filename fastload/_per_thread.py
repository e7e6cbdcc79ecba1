"""One handle for each thread: files, databases, cursors and tokenizers that threads cannot share."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class PerThread(Generic[T]):
    """What :func:`per_thread` returns: call it for this thread's handle.

    It pickles and copies as its factory alone, so a dataset that has one can be sent to a process, too. A thread's
    handle is let go of when the thread ends.
    """

    def __init__(self, factory: Callable[[], T]) -> None:
        if not callable(factory):
            raise TypeError(
                f"per_thread needs a function that opens the handle, got {factory!r}; for example "
                "per_thread(lambda: sqlite3.connect(path))"
            )
        self._factory = factory
        self._local = threading.local()

    def __call__(self) -> T:
        """This thread's handle, opened at the first call in it. Raises what the factory raises, then tries again."""
        opened: tuple[int, T] | None = getattr(self._local, "opened", None)
        if opened is None or opened[0] != os.getpid():
            self._local.inherited = opened  # of a forked child's parent; kept, because to close it may harm that
            opened = self._local.opened = os.getpid(), self._factory()
        return opened[1]

    def __reduce__(self) -> tuple[Any, ...]:
        return PerThread, (self._factory,)

    def __deepcopy__(self, memo: dict[int, Any]) -> PerThread[T]:
        return PerThread(self._factory)

    def __repr__(self) -> str:
        return f"per_thread({self._factory!r})"


def per_thread(factory: Callable[[], T]) -> PerThread[T]:
    """Give each thread that loads samples a handle of its own.

    Threads share the dataset, so a handle which must not be used by two of them at once (an h5py file, an LMDB
    transaction, an sqlite connection, a cursor, a tokenizer) cannot be an attribute of it. This can.

    Args:
        factory: Opens one; called once in each thread that asks.

    Returns:
        A callable that returns the calling thread's handle.

    Raises:
        TypeError: `factory` is not callable.

    Example:
        >>> class Rows(torch.utils.data.Dataset):
        ...     def __init__(self, path):
        ...         self.database = fastload.per_thread(lambda: sqlite3.connect(path))
        ...     def __getitem__(self, index):
        ...         return self.database().execute("SELECT value FROM rows WHERE id = ?", (index,)).fetchone()
    """
    return PerThread(factory)
