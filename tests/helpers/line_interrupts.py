"""Imported by children of tests: interrupts in front of any line of Python code, such as fastload's in next()."""

from __future__ import annotations

import linecache
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import fastload

_PACKAGE = str(Path(fastload.__file__).parent) + "/"


def is_of_fastload(file: str) -> bool:
    return file.startswith(_PACKAGE)


class InterruptAt:
    """Has Ctrl-C's handler called in front of line `number` of those that run while this traces.

    Lines at which Python itself checks for no signal are left out: a with, whose line comes again when its block ends,
    an except, and the line after a try or an except.

    Args:
        number: From 1.
        has_lines: Returns whether the lines of a file count.

    Attributes:
        where: The function that was interrupted; None where there were fewer lines.
    """

    def __init__(self, number: int, has_lines: Callable[[str], bool] = is_of_fastload) -> None:
        self.where: str | None = None
        self._left, self._has_lines = number, has_lines
        self._line = ""

    def __call__(self, frame: FrameType, event: str, argument: Any) -> Any:
        name = frame.f_code.co_filename
        if not self._has_lines(name):
            return None
        before, self._line = self._line, linecache.getline(name, frame.f_lineno).strip()
        is_left_out = self._line.startswith(("with ", "except")) or before.startswith(("try:", "except"))
        if event == "line" and not is_left_out:
            self._left -= 1
            if self._left == 0:
                self.where = frame.f_code.co_name
                signal.raise_signal(signal.SIGINT)
        return self


def next_of(iterator: Any, interrupt: InterruptAt | None) -> Any:
    """Returns the next batch, asked for again after an interrupt. Raises StopIteration at the end."""
    while True:
        sys.settrace(interrupt)
        try:
            return next(iterator)
        except KeyboardInterrupt:
            continue
        finally:
            sys.settrace(None)


def interrupt_at_every_line(epoch: Callable[[InterruptAt | None], list[bytes]]) -> set[str]:
    """Lets `epoch` be interrupted once, at a line further each time, until it ends before.

    Returns:
        The functions in which an interrupt has cost a batch.

    Raises:
        AssertionError: An interrupt has cost more than one batch, or changed any; or there were too few lines.
    """
    expected = epoch(None)
    assert len(expected) >= 3, "one to lose, and one on each side"
    lost = set()
    number = 0
    while True:
        number += 1
        interrupt = InterruptAt(number)
        found = epoch(interrupt)
        if interrupt.where is None:
            assert number > 20 * len(expected), number
            return lost
        if found != expected:
            assert [batch for batch in expected if batch in found] == found, (number, interrupt.where)
            assert len(found) == len(expected) - 1, (number, interrupt.where)
            lost.add(interrupt.where)
