"""Imported by children of tests: Ctrl-C while iterators are dropped."""

from __future__ import annotations

import itertools
import multiprocessing
import random
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

import recipes
import torch
from child_loader import make_python_part_loader, repeated_images, wait_for
from flat_values import flat
from line_interrupts import InterruptAt
from numbered import Numbered
from torch.utils.data import IterableDataset

import fastload


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Any:
        return iter(torch.arange(64.0))


class ClosingStream(Stream):
    """A stream with code that runs when an iterator over it is dropped."""

    num_closed = 0

    def __iter__(self) -> Any:
        try:
            yield from range(64)
        finally:
            ClosingStream.num_closed += 1


class ResumableStream(Stream):
    """A stream that saves its position."""

    def __init__(self) -> None:
        self.position = 0

    def __iter__(self) -> Any:
        while self.position < 64:
            self.position += 1
            yield torch.tensor(self.position)

    def state_dict(self) -> dict[str, int]:
        return {"position": self.position}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.position = state["position"]


def _own(dataset: Any, num_workers: int, **arguments: Any) -> Any:
    return fastload.DataLoader(dataset, batch_size=4, num_workers=num_workers, **{"workers": "threads", **arguments})


def _native(num_workers: int, **arguments: Any) -> Any:
    return _own(repeated_images(recipes.training(32), 2), num_workers, **arguments)


def _preloaded_server() -> Any:
    """Returns the context of a fork server that starts workers fast."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    return context


# Makes a loader in each form.
LOADERS: dict[str, Callable[[], Any]] = {
    "native": lambda: _native(2, shuffle=True),
    "native, no workers": lambda: _native(0),
    "native, persistent": lambda: _native(2, persistent_workers=True),
    "native, rng=sample": lambda: _native(1, rng="sample"),
    "native, cached": lambda: _native(1, cache=fastload.Cache("kept")),
    "partly native": lambda: make_python_part_loader(2, repeats=2, batch_size=4),
    "own": lambda: _own(Numbered(64), 2, shuffle=True),
    "own, no workers": lambda: _own(Numbered(64), 0),
    "own, persistent": lambda: _own(Numbered(64), 2, persistent_workers=True),
    "own, device_transform": lambda: _own(list(torch.arange(64.0)), 1, device_transform=torch.neg),
    "stream": lambda: _own(Stream(), 2),
    "stream, no workers": lambda: _own(Stream(), 0),
    "stream, closing": lambda: _own(ClosingStream(), 0),
    "resumable stream": lambda: _own(ResumableStream(), 1),
    "resumable stream, no workers": lambda: _own(ResumableStream(), 0),
    "processes": lambda: _own(Numbered(64), 2, workers="processes"),
    "processes, forkserver": lambda: _own(
        Numbered(64), 1, workers="processes", multiprocessing_context=_preloaded_server()
    ),
}


class _Presses:
    """Ctrl-C's handler, which knows how often it has raised, and what Python has ignored."""

    def __init__(self) -> None:
        self.num_raised = 0
        self.ignored: list[Any] = []
        signal.signal(signal.SIGINT, self._handle)
        signal.signal(signal.SIGALRM, self._handle)
        sys.unraisablehook = self.ignored.append

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self.num_raised += 1
        raise KeyboardInterrupt


def _next_line() -> None:
    """Does nothing: a handler's exception is raised here at the latest."""


def _is_of_others(file: str) -> bool:
    return file != __file__


def press_at_every_line(
    make: Callable[[], Any],
    has_lines: Callable[[str], bool] = _is_of_others,
    *,
    with_loader: bool,
    is_at_end: bool = False,
) -> int:
    """Drops iterators after a batch, each with a press in front of a later line of the Python code that runs then.

    Args:
        make: Makes a loader.
        has_lines: Returns whether the lines of a file count.
        with_loader: Drop the loader, too; else its state is compared with one without a press.
        is_at_end: Drop the iterator after all batches.

    Returns:
        The number of presses.

    Raises:
        AssertionError: A press has not reached the program, or the loader's state is another one.
    """
    presses, expected = _Presses(), None
    for number in itertools.count():
        torch.manual_seed(1)
        loader = make()
        dropped = [iter(loader)]
        next(dropped[0])
        if is_at_end:
            assert sum(1 for _ in dropped[0]) == 15
        is_raised = False
        press = InterruptAt(number, has_lines)
        sys.settrace(press)
        try:
            if with_loader:
                del loader
            dropped.clear()
            _next_line()
            if press.where is not None:  # a worker's thread holds its worker, and lets it go in a moment
                wait_for(lambda: False, 10)
        except KeyboardInterrupt:
            is_raised = True
        finally:
            sys.settrace(None)
        assert not presses.ignored, (number, presses.ignored)
        assert is_raised == (press.where is not None), (number, press.where)
        if not with_loader:
            state = flat(loader.state_dict())
            expected = expected or state
            assert state == expected, number
        if number and not is_raised:
            break
    return number - 1


def lost_presses(make: Callable[[], Any], num_presses: int) -> list[Any]:
    """Makes loaders and takes a batch of each, with presses at random moments.

    Returns:
        The object that Python reports for each press that has not reached the program.
    """
    choose, presses, lost = random.Random(1), _Presses(), []
    # Takes signals that the main thread blocks, as a notebook's threads do.
    threading.Thread(target=threading.Event().wait, daemon=True).start()
    begin = time.monotonic()
    for _ in range(10):
        for _ in itertools.islice(make(), 1):
            pass
    seconds = (time.monotonic() - begin) / 10
    for number in range(1, num_presses + 1):
        try:
            signal.setitimer(signal.ITIMER_REAL, choose.uniform(seconds / 10, 3 * seconds))
            while presses.num_raised < number:
                for _ in itertools.islice(make(), 1):
                    pass
            _next_line()
            lost.append(presses.ignored.pop() if presses.ignored else "nothing was ignored")
        except KeyboardInterrupt:
            assert presses.num_raised == number
    return lost
