"""One handle for each thread: files, databases, cursors and tokenizers that threads cannot share."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from fastload._process._exit import LiveObjects

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class _Opened(Generic[T]):
    handle: T
    owner_pid: int


class PerThread(Generic[T]):
    """What :func:`per_thread` returns: call it for this thread's handle.

    It pickles and copies as its factory alone, so a dataset that has one can be sent to a process, too. A thread's
    handle is let go of when the thread ends. A call raises what the factory raises; the next one tries again.

    Args:
        factory: Opens a handle; called once in each thread that asks, and once in each process.

    Raises:
        TypeError: `factory` is not callable.

    Example:
        >>> handle = fastload.per_thread(list)
        >>> handle() is handle()
        True
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
        """This thread's handle, opened at the first call in it."""
        opened: _Opened[T] | None = getattr(self._local, "opened", None)
        if opened is None or opened.owner_pid != os.getpid():
            opened = self._local.opened = _Opened(self._factory(), os.getpid())
            _live.add(opened)
        return opened.handle

    def __reduce__(self) -> tuple[Any, ...]:
        return PerThread, (self._factory,)

    def __deepcopy__(self, memo: dict[int, Any]) -> PerThread[T]:
        return PerThread(self._factory)

    def __repr__(self) -> str:
        return f"per_thread({self._factory!r})"


def per_thread(factory: Callable[[], T]) -> PerThread[T]:
    """Gives each thread that loads samples a handle of its own.

    Threads share the dataset, so a handle which must not be used by two of them at once (an h5py file, an LMDB
    transaction, an sqlite connection, a cursor, a tokenizer) cannot be an attribute of it. This can.

    Args:
        factory: Opens one; called once in each thread that asks.

    Returns:
        A callable that returns the calling thread's handle.

    Raises:
        TypeError: `factory` is not callable.

    Example:
        >>> import sqlite3
        >>> class Rows(torch.utils.data.Dataset):
        ...     def __init__(self, path):
        ...         self.database = fastload.per_thread(lambda: sqlite3.connect(path))
        ...     def __getitem__(self, index):
        ...         return self.database().execute("SELECT value FROM rows WHERE id = ?", (index,)).fetchone()
    """
    return PerThread(factory)


# Note [handles in forked children]
# Python takes a child's other threads apart, and what they alone have with them. To close a handle there may harm the
# parent (a temporary file is removed, a lock is let go of), so all that are open at a fork are kept in the child. The
# parent keeps them for the moment of the fork: one whose thread ends within it is closed by the thread that forks.
_live: LiveObjects[_Opened[Any]] = LiveObjects()
_kept: dict[int, list[_Opened[Any]]] = {}  # by each thread that forks just now
_inherited: list[_Opened[Any]] = []


def _keep() -> None:
    _kept[threading.get_ident()] = _live.all()


def _let_go() -> None:
    _kept.pop(threading.get_ident(), None)


def _inherit() -> None:
    for handles in _kept.values():
        _inherited.extend(handles)
    _kept.clear()


os.register_at_fork(before=_keep, after_in_parent=_let_go, after_in_child=_inherit)
