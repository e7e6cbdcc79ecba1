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
    """The result of :func:`per_thread`: call it for this thread's handle.

    Pickles and copies contain only the factory, so a dataset that has one can be sent to a process, too. A thread's
    handle is dropped when the thread ends. A call raises what the factory raises; the next one tries again.

    Args:
        factory: Opens a handle; called once in each thread that asks for one, and once in each process.

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
        """Returns this thread's handle, which the thread's first call opens."""
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

    Threads share the dataset, so a handle that two threads must not use at once (an h5py file, an LMDB transaction, an
    sqlite connection, a cursor, a tokenizer) cannot be one of its attributes. The result of this function can.

    Args:
        factory: Opens a handle; called once in each thread that asks for one.

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
# After a fork, Python clears the child's other threads and whatever only they refer to. Closing a handle there may harm
# the parent (it removes a temporary file, or releases a lock), so the child keeps all handles open at the fork. The
# parent keeps them during the fork: if a handle's thread ends meanwhile, the forking thread closes the handle.
_live: LiveObjects[_Opened[Any]] = LiveObjects()
_kept: dict[int, list[_Opened[Any]]] = {}  # by the thread that is forking
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
