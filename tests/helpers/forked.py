"""Functions called in a forked child."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import signal
import traceback
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from typing import Any

import torch

CHILD_SECONDS = 60


def in_fork(function: Callable[[], Any]) -> Any:
    """Returns the result of `function` in a child.

    Raises AssertionError if it raises, or has not returned after `CHILD_SECONDS`.
    """
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        signal.alarm(CHILD_SECONDS)
        try:
            answer = "returned", function()
        except BaseException:  # noqa: BLE001 - the parent raises it
            answer = "raised", traceback.format_exc()
        try:
            os.write(writer, pickle.dumps(answer))
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        sent = pipe.read()
    os.waitpid(pid, 0)
    assert sent, f"the child has not answered within {CHILD_SECONDS} s"
    how, value = pickle.loads(sent)
    assert how == "returned", value
    return value


@contextlib.contextmanager
def forked(function: Callable[[Connection], None]) -> Iterator[Connection]:
    """Enters a context with the end of a pipe whose other end `function` has in a child.

    Raises AssertionError if the function raises, or has not returned `CHILD_SECONDS` after it was called.
    """
    here, there = multiprocessing.Pipe()
    pid = os.fork()
    if pid == 0:
        signal.alarm(CHILD_SECONDS)
        status = 1
        try:
            here.close()
            torch.set_num_threads(1)  # the parent's threads are not there
            function(there)
            status = 0
        except BaseException:  # noqa: BLE001 - the parent sees the status
            traceback.print_exc()
        finally:
            os._exit(status)
    there.close()
    try:
        yield here
    finally:
        here.close()
        _, status = os.waitpid(pid, 0)
    assert status == 0, f"the child ended with wait status {status}"
