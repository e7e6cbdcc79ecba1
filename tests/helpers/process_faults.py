"""Imported by children of the fault tests: worker processes that are killed, and calls that fail while they work."""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import os
import random
import signal
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from child_loader import wait_for
from failing_calls import FOREVER, Shim
from held import Held, held_now, settle, settled
from numbered import Numbered
from torch.utils.data import default_collate

import fastload

NUM_SAMPLES = 24
BATCH_SIZE = 2
NUM_WORKERS = 2


class Places(Numbered):
    """Samples of 90 KB, so that a batch lies in an arena. A worker kills itself once, at a place that is set."""

    def __init__(self) -> None:
        super().__init__(NUM_SAMPLES)
        self.place = ""
        self.is_over = torch.zeros(1).share_memory_()

    def reach(self, place: str) -> None:
        if place == self.place and self.is_over[0] == 0:
            self.is_over[0] = 1
            os.kill(os.getpid(), signal.SIGKILL)

    def sample(self, index: int) -> Any:
        self.reach(f"sample {index}")
        return torch.full((150, 150), float(index)), Sent(self, index)

    def collate(self, samples: Any) -> Any:
        self.reach(f"collation {samples[0][1].index}")
        images = default_collate([image for image, _ in samples])
        self.reach(f"collated {samples[0][1].index}")
        return images, [sent for _, sent in samples]

    def begin(self, number: int) -> None:
        self.reach(f"worker {number}")


class Sent:
    """An object that may kill the worker while it is pickled."""

    def __init__(self, places: Places, index: int) -> None:
        self.places, self.index = places, index

    def __reduce__(self) -> Any:
        self.places.reach(f"pickling {self.index}")
        return _index_of, (self.index,)


def _index_of(index: int) -> int:
    return index


IN_WORKER = (
    "worker 0", "worker 1", "sample 0", "sample 2", "sample 7", "sample 13", "sample 22", "collation 4",
    "collation 12", "collated 4", "collated 16", "collated 22", "pickling 0", "pickling 9", "pickling 23",
)  # fmt: skip


def make_loader(dataset: Any = None, **arguments: Any) -> fastload.DataLoader[Any]:
    dataset = dataset or Places()
    return fastload.DataLoader(
        dataset, BATCH_SIZE, num_workers=NUM_WORKERS, worker_init_fn=dataset.begin, collate_fn=dataset.collate,
        **{"workers": "processes", **arguments},
    )  # fmt: skip


def check(batch: Any, number: int) -> None:
    """Raises AssertionError unless it is batch `number`."""
    images, sent = batch
    indices = [one.index if isinstance(one, Sent) else one for one in sent]  # threads pickle nothing
    assert indices == [BATCH_SIZE * number, BATCH_SIZE * number + 1], (indices, number)
    for image, index in zip(images, indices, strict=True):
        assert (image == index).all(), index


def outcome(iterator: Any, first: int = 0) -> list[str]:
    """Returns what became of each batch of an epoch from the first on: "right" or "lost"."""
    found: list[str] = []
    for number in range(first, NUM_SAMPLES // BATCH_SIZE):
        try:
            check(next(iterator), number)
            found.append("right")
        except RuntimeError as error:
            check_loss(error)
            found.append("lost")
    return found


def check_loss(error: RuntimeError) -> None:
    """Raises `error` unless it tells of a dead worker, which ends with status 0 if its parent terminates it."""
    if "exited unexpectedly" not in str(error):
        raise error


def num_mappings() -> int:
    return Path("/proc/self/maps").read_text().count("memfd:fastload")


def expect_held(before: Held) -> None:
    """Waits until nothing more is held than before. Workers of dropped iterators are reaped, as by the next iter()."""
    gc.collect()
    assert wait_for(lambda: not multiprocessing.active_children(), 10), multiprocessing.active_children()
    assert settle(before) == before, (held_now(), before)
    assert num_mappings() == 0


def all_lost(found: list[str], worker: int) -> bool:
    """Returns whether the worker's batches are right up to one and lost from then on, and all others are right."""
    theirs, others = found[worker::NUM_WORKERS], found[1 - worker :: NUM_WORKERS]
    first = theirs.index("lost")
    return set(theirs[first:]) == {"lost"} and set(theirs[:first]) <= {"right"} and set(others) == {"right"}


def kill_in_worker() -> None:
    """Kills a worker at each place that it passes."""
    check_epoch(make_loader())
    before = settled()
    for place in IN_WORKER:
        loader = make_loader()
        loader.dataset.place = place
        number = int(place.split()[1])
        worker = number if place.startswith("worker") else number // BATCH_SIZE % NUM_WORKERS
        assert all_lost(found := outcome(iter(loader)), worker), (place, found)
        check_epoch(loader)
        del loader
        expect_held(before)
        print("place", place)


def kill_from_outside(signal_number: int = signal.SIGKILL) -> None:
    """Kills a worker after each second batch, and one that is idle between two epochs."""
    check_epoch(make_loader())
    before = settled()
    for after in range(0, NUM_SAMPLES // BATCH_SIZE - 4, 2):
        worker = after // 2 % NUM_WORKERS
        iterator = iter(make_loader())
        held = [next(iterator) for _ in range(after)]
        os.kill(iterator._workers[worker].pid, signal_number)
        found = ["right"] * after + outcome(iterator, after)
        assert all_lost(found, worker), (after, found)
        for number in range(after):
            check(held[number], number)
        del iterator, held
        expect_held(before)
        print("place", after)
    loader = make_loader(persistent_workers=True)
    check_epoch(loader)
    idle = loader._iterator._workers[0]
    os.kill(idle.pid, signal_number)
    idle.join(10)
    found = outcome(iter(loader))
    assert found == ["lost", "right"] * (len(found) // 2), found
    del idle, loader
    expect_held(before)
    print("place idle")


def check_epoch(loader: Any) -> None:
    number = -1
    for number, batch in enumerate(loader):
        check(batch, number)
    assert number == NUM_SAMPLES // BATCH_SIZE - 1, number


def fail_calls(call: str, workers: str) -> None:
    """Fails each n-th call, and all from the n-th on, until no call is left; prints how it went."""
    shim = Shim()
    shim.watch(Path("/memfd:fastload"), "/_core.")
    for _ in range(2):
        check_epoch(make_loader(workers=workers))
    before, ways = settled(), set()
    for times in (1, FOREVER):
        n = 1
        while True:
            print(call, n, times, flush=True)
            with shim.failing(call, n, times), warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                way = _way_of_epoch(workers)
            ways.update(type(one.message).__name__ for one in caught)
            expect_held(before)
            seen = shim.seen
            check_epoch(make_loader(workers=workers))
            expect_held(before)
            if seen < n:
                break
            ways.add(way)
            n += 1
        assert way == "right"
    print("ways", *sorted(ways), flush=True)


def _way_of_epoch(workers: str) -> str:
    try:
        check_epoch(make_loader(workers=workers))
    except (OSError, MemoryError) as error:
        return type(error).__name__
    return "right"


@contextlib.contextmanager
def forking_thread(end: Any) -> Iterator[None]:
    """Forks in a thread again and again; each child calls `end`."""
    is_over = threading.Event()
    statuses: set[int] = set()

    def fork() -> None:
        while not is_over.wait(0.01):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons' about forks in threads
                if (pid := os.fork()) == 0:
                    try:
                        end()
                    finally:
                        os._exit(7)
            statuses.add(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))

    thread = threading.Thread(target=fork)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
    assert statuses == {7}, statuses


def signal_at_random(num_signals: int) -> None:
    """Sends SIGINT to this process and SIGTERM to workers, at random moments of epochs."""
    check_epoch(make_loader())
    before, choose = settled(), random.Random(4)
    for _ in range(num_signals):
        loader = make_loader(persistent_workers=choose.random() < 0.5)
        signal.setitimer(signal.ITIMER_REAL, choose.uniform(0.001, 0.3))
        signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGINT))
        try:
            for _ in range(3):
                check_epoch(loader)
            time.sleep(1)
        except KeyboardInterrupt:
            pass
        signal.setitimer(signal.ITIMER_REAL, 0)
        check_epoch(loader)
        iterator = iter(loader)
        delay = choose.uniform(0, 0.05)
        for worker in iterator._workers:
            threading.Timer(delay, worker.terminate).start()
        assert set(outcome(iterator)) <= {"right", "lost"}
        del iterator, loader, worker
    expect_held(before)
