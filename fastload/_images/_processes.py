"""torch's worker processes with native decoding of the JPEG files that the user's code opens with Pillow."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable
from typing import Any

import torch.multiprocessing
from torch.utils.data import DataLoader

from fastload._images._opener import decode_natively
from fastload._images._tally import ImageTally

# Counters of each process, in its own row of memory that it shares with the parent.
_COUNTED = ("images_opened", "images_native")


class ProcessImages:
    """The counters of the worker processes of a loader's iterations."""

    def __init__(self) -> None:
        self._ended = dict.fromkeys(_COUNTED, 0)
        self._running: list[tuple[weakref.ref[Any], Any]] = []  # iterators, and their processes' memory

    def start(self, loader: DataLoader[Any], make_iterator: Callable[[Any], Any]) -> Any:
        """Returns the iterator that `make_iterator` makes for `loader`, with processes of this kind."""
        context = loader.multiprocessing_context or torch.multiprocessing
        counts = context.RawArray("q", len(_COUNTED) * loader.num_workers)
        iterator = make_iterator(_LoaderView(loader, _Context(context, counts)))
        known, self._running = self._running, [(weakref.ref(iterator), counts)]
        for of_iterator, its_counts in known:
            if of_iterator() is None:
                self._ended = _sums(self._ended, [its_counts])
            else:
                self._running.append((of_iterator, its_counts))
        return iterator

    def stats(self) -> dict[str, int]:
        """Returns the counters by their names in LoaderStats."""
        return _sums(self._ended, [counts for _, counts in self._running])


def _sums(begin: dict[str, int], arrays: list[Any]) -> dict[str, int]:
    step = len(_COUNTED)
    return {
        name: begin[name] + sum(sum(counts[position::step]) for counts in arrays)
        for position, name in enumerate(_COUNTED)
    }


class _LoaderView:
    """A loader as torch's iterator sees it: with another context, otherwise with its own attributes."""

    def __init__(self, loader: DataLoader[Any], context: _Context) -> None:
        self._loader = loader
        self.multiprocessing_context = context

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)


class _Context:
    """A multiprocessing context whose processes decode natively.

    It replaces the target of the process, not worker_init_fn: no traceback that torch sends has a frame of it, and the
    loader's attributes stay the user's.
    """

    def __init__(self, context: Any, counts: Any) -> None:
        self._context = context
        self._counts = counts
        self._numbers = itertools.count()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    def Process(self, target: Callable[..., None], args: tuple[Any, ...]) -> Any:
        begin = len(_COUNTED) * next(self._numbers)
        return self._context.Process(target=_run, args=(self._counts, begin, target, args))


def _run(counts: Any, begin: int, target: Callable[..., None], args: tuple[Any, ...]) -> None:
    """Runs in a worker process."""
    decode_natively(_SharedTally(counts, begin))
    target(*args)


class _SharedTally(ImageTally):
    """Counters in the memory of `counts`, from `begin` on; the reasons stay in this process."""

    def __init__(self, counts: Any, begin: int) -> None:
        self._counts = counts
        self._begin = begin
        super().__init__()

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _COUNTED:
            self._counts[self._begin + _COUNTED.index(name)] = value
        super().__setattr__(name, value)
