"""A function called in a forked child."""

from __future__ import annotations

import os
import pickle
import signal
import traceback
from collections.abc import Callable
from typing import Any

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
