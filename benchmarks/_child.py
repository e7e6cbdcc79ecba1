"""The process that runs one contender: `python -m benchmarks._child NAME DESCRIPTOR CORES`, started by `_children`.

It answers commands from a pipe, one at a time. Output of a loader goes to stderr.
"""

from __future__ import annotations

import gc
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

from benchmarks._process_tree import (
    cpu_seconds,
    process_tree,
    pss_bytes,
    unmapped_shared_bytes,
    wait_until_at_rest,
    wait_until_idle,
)
from benchmarks._protocol import Batch, Hello, LoaderSettings, Memory, Round

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray

    from benchmarks.contenders._base import Batches, Contender


class ChildCommands:
    """The commands of the pipe, by name. One loader is open at a time."""

    def __init__(self, contender: Contender) -> None:
        self._contender = contender
        self._settings: LoaderSettings | None = None
        self._loader: Batches | None = None
        self._iterator: Iterator[Any] | None = None

    def hello(self) -> Hello:
        """Returns whether the contender can run here, and with which versions."""
        reason = self._contender.unavailable_because()
        if reason is not None:
            return Hello(unavailable=reason, versions=self._contender.versions())
        return Hello(
            unavailable=None,
            promises_equal_bytes=self._contender.promises_equal_bytes,
            versions=self._contender.versions(),
            details=self._contender.details(),
        )

    def open(self, settings: LoaderSettings) -> dict[str, Any]:
        """Opens a loader instead of the last one; returns its settings."""
        self.close()
        self._settings = settings
        self._loader = self._contender.open(settings)
        return {name: _plain(value) for name, value in self._contender.options(self._loader).items()}

    def start(self) -> None:
        """Begins an epoch whose batches `next` hands out."""
        assert self._loader is not None
        self._iterator = iter(self._loader)

    def next(self) -> Batch | None:
        """Returns the next batch of the epoch, with the loader's report if it gives one; None at the end."""
        assert self._iterator is not None
        item = next(self._iterator, None)
        if item is None:
            self._iterator = None
            return None
        images, labels = item
        return Batch(_as_array(images), labels.numpy(), self._contender.reports(self._iterator))

    def epoch(self) -> Round:
        """Times one epoch from the call of iter() to the last batch, or until a loader that runs ahead rests."""
        assert self._loader is not None
        gc.collect()
        pid = os.getpid()
        image_count = 0
        first_batch_seconds = 0.0
        cpu_before = cpu_seconds(pid)
        began = time.perf_counter()
        for _images, labels in self._loader:
            if image_count == 0:
                first_batch_seconds = time.perf_counter() - began
            image_count += len(labels)
        ended = time.perf_counter()
        looking_began = time.thread_time()
        if self._contender.runs_ahead_between_epochs:
            ended = wait_until_at_rest(pid)
        looking = time.thread_time() - looking_began
        return Round(image_count, ended - began, cpu_seconds(pid) - cpu_before - looking, first_batch_seconds)

    def first_batch(self) -> float:
        """Returns the seconds from listing the data to a fresh loader's first batch. The open loader stays as it is."""
        assert self._settings is not None
        began = time.perf_counter()
        loader = self._contender.open(self._settings)
        iterator = iter(loader)
        next(iterator)
        seconds = time.perf_counter() - began
        del iterator
        self._contender.close(loader)
        return seconds

    def memory(self, settings: LoaderSettings) -> Memory:
        """Measures memory while the consumer holds one batch and every prefetched batch is waiting."""
        pid = os.getpid()
        # Imports the contender's packages now, so that they do not count as added.
        self._contender.unavailable_because()
        gc.collect()
        idle = pss_bytes(pid)
        self.open(settings)
        assert self._loader is not None
        iterator = iter(self._loader)
        held = next(iterator)
        wait_until_idle(pid)
        figures = Memory(idle, pss_bytes(pid), unmapped_shared_bytes(pid), len(process_tree(pid)))
        del held, iterator
        return figures

    def stats(self) -> dict[str, Any]:
        """Returns the loader's counters since it was opened."""
        assert self._loader is not None
        return {name: _plain(value) for name, value in self._contender.stats(self._loader).items()}

    def close(self) -> None:
        """Closes the open loader, if any."""
        self._iterator = None
        if self._loader is not None:
            loader, self._loader = self._loader, None
            self._contender.close(loader)
            del loader
            gc.collect()


def _as_array(images: torch.Tensor) -> NDArray[Any]:
    import torch

    is_bfloat16 = images.dtype == torch.bfloat16
    array: NDArray[Any] = images.contiguous().view(torch.uint16 if is_bfloat16 else images.dtype).numpy()
    return array


def _plain(value: Any) -> Any:
    """Returns the value as JSON can hold it."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value if isinstance(value, (bool, int, float, str, type(None))) else str(value)


def _answer(command: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[str, Any]:
    try:
        return "ok", command(*arguments)
    except Exception as error:  # noqa: BLE001 - the parent decides; the child must be able to tell it
        headline = " ".join(f"{type(error).__name__}: {error}".split())
        return "error", f"{headline[:300]}\n{traceback.format_exc()}"


def _serve(pipe: Connection, name: str) -> None:
    import torch

    from benchmarks.contenders import load_contender

    # As in torch's workers; it matters if the loader works in the calling thread.
    torch.set_num_threads(1)
    contender = load_contender(name)
    # Before the contender imports anything that reads it.
    os.environ.update(contender.environment)
    commands = ChildCommands(contender)
    while True:
        try:
            command, arguments = pipe.recv()
        except EOFError:
            break
        pipe.send(_answer(getattr(commands, command), arguments))
    commands.close()


def main(name: str, descriptor: str, cores: str) -> None:
    os.sched_setaffinity(0, {int(core) for core in cores.split(",")})
    # `-m` put the repository in front of the path; without it an installed fastload precedes its bare sources here.
    del sys.path[0]
    _serve(Connection(int(descriptor)), name)


if __name__ == "__main__":
    main(*sys.argv[1:])
