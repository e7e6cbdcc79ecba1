"""Workers of earlier tests: while their threads live, Pillow's opener and methods are exchanged."""

from __future__ import annotations

import gc
import threading
import time


def end_workers() -> None:
    """Waits until no worker thread that runs Python is left. Raises AssertionError after 30 seconds."""
    end = time.monotonic() + 30
    while any(thread.name.startswith("fastload-python") for thread in threading.enumerate()):
        gc.collect()  # an iterator may be in a cycle, as with the traceback of an error that it raised
        assert time.monotonic() < end, "the workers of an earlier test do not end"
        time.sleep(0.01)
