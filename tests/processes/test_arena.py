"""The memory of worker processes: nobody's bytes change, memory is bounded, and any limit of the system is answered."""

from __future__ import annotations

import collections
import os
import random
import resource
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
import torch
from arena_batches import Place, Worker, copied, is_filled, make_batch, sent, value_of
from children import RunChild
from forked import forked, in_fork

import fastload
from fastload import _native

MIB = 1 << 20
PAGE = resource.getpagesize()


def without_descriptor() -> _native.Arena:
    """Makes an arena in a process to which the system gives no memfd."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, limits[1]))
    try:
        return _native.Arena(16, 8 * MIB)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@pytest.fixture(params=["memfd", "anonymous"])
def arena(request: pytest.FixtureRequest) -> _native.Arena:
    return _native.Arena(16, 8 * MIB) if request.param == "memfd" else without_descriptor()


@pytest.fixture
def forking_threads() -> Iterator[None]:
    """Forks in two threads again and again."""
    is_over = threading.Event()

    def fork() -> None:
        while not is_over.wait(0.02):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons' about forks in threads
                pid = os.fork()
            if pid == 0:
                os._exit(0)
            os.waitpid(pid, 0)

    threads = [threading.Thread(target=fork) for _ in range(2)]
    for thread in threads:
        thread.start()
    yield
    is_over.set()
    for thread in threads:
        thread.join()


def test_an_arena_says_what_it_is() -> None:
    arena = _native.Arena()
    assert (arena.num_slots, arena.slot_bytes, arena.resident_bytes()) == (16, 1 << 32, 0)
    assert arena.descriptor is not None
    assert not os.get_inheritable(arena.descriptor)
    arena.close_descriptor()
    assert arena.descriptor is None
    with pytest.raises(ValueError, match=r"^num_slots must be at least 2, got 1$"):
        _native.Arena(1)
    with pytest.raises(ValueError, match=r"^max_slot_bytes must be at least 1048576, got 1000$"):
        _native.Arena(2, 1000)


def test_bytes_outside_of_a_slot_are_not_copied() -> None:
    arena = _native.Arena(2, MIB)
    target = torch.zeros(2 * MIB, dtype=torch.uint8)
    for slot, offset, nbytes in [(2, 0, 1), (1, MIB, 1), (0, 0, MIB + 1), (0, 2**64 - 1, 2), (0, MIB + 1, 0)]:
        message = f"the arena has 2 slots of 1048576 bytes, got {nbytes} bytes at {offset} of slot {slot}"
        with pytest.raises(ValueError, match=f"^{message}$"):
            arena.copy_out(slot, offset, target.data_ptr(), nbytes)
    arena.copy_out(1, MIB, 0, 0)


def test_copies_of_any_size_and_place_have_all_bytes() -> None:
    arena = _native.Arena(2, 64 * MIB)
    slots = _native.ArenaSlots(arena)
    slots.begin_batch()
    buffer = slots.allocate(40 * MIB)
    assert buffer is not None
    source = torch.frombuffer(buffer, dtype=torch.uint8)
    source.copy_(torch.randint(256, source.shape, dtype=torch.uint8, generator=torch.Generator().manual_seed(0)))
    for offset, nbytes in [(0, 1), (7, 1000), (3, 16 * MIB - 1), (64, 16 * MIB), (1, 16 * MIB + 77), (0, 40 * MIB)]:
        target = torch.zeros(nbytes + 12, dtype=torch.uint8)
        arena.copy_out(0, offset, target.data_ptr() + 5, nbytes)
        assert torch.equal(target[5:-7], source[offset : offset + nbytes])
        assert not target[:5].any()
        assert not target[-7:].any()


def test_only_slots_with_an_answer_can_be_set_free() -> None:
    slots = _native.ArenaSlots(_native.Arena(3, MIB))
    slots.begin_batch()
    assert sent(slots, make_batch(slots, 100, 1)) == (0, 0, 100)
    for wrong in ([1], [3], [2**40], [0, 0]):
        with pytest.raises(ValueError, match=f"^there is no answer in slot {wrong[-1]}$"):
            slots.set_free(wrong)


@pytest.mark.usefixtures("forking_threads")
def test_copies_do_not_change_while_the_worker_writes_into_every_slot(arena: _native.Arena) -> None:
    rng = random.Random(0)
    held: list[tuple[torch.Tensor, int]] = []
    in_flight: collections.deque[tuple[Place, int]] = collections.deque()
    seen = set()
    most_in_flight = 18
    with forked(Worker(arena)) as connection:
        free_slots: list[int] = []
        for number in range(600):
            connection.send((free_slots, rng.choice([1, 1000, 70_000, 300_000])))
            place = connection.recv()
            seen.add(place and place[0])
            free_slots = []
            if place is not None:
                in_flight.append((place, value_of(number)))
            if number % 40 == 0:
                most_in_flight = rng.choice([1, 5, 18])
            while len(in_flight) > most_in_flight:
                place, value = in_flight.popleft()
                held.append((copied(arena, place), value))
                free_slots.append(place[0])
            if len(held) > 40:
                batch, value = held.pop(rng.randrange(len(held)))
                assert is_filled(batch, value)
    assert all(is_filled(batch, value) for batch, value in held)
    assert seen == {*range(16), None}


class KeepingWorker(Worker):
    """A worker whose collate_fn keeps batches for a while, and once all."""

    def __init__(self, arena: _native.Arena) -> None:
        super().__init__(arena)
        self.rng = random.Random(1)
        self.kept: list[tuple[torch.Tensor, int]] = []

    def keep(self, batch: torch.Tensor) -> None:
        if self.rng.random() < 0.5 or 500 < self.number < 530:
            self.kept.append((batch, value_of(self.number)))
        while len(self.kept) > 8 and not 500 < self.number < 530:
            kept, value = self.kept.pop(self.rng.randrange(len(self.kept)))
            assert is_filled(kept, value)


class ForkingWorker(Worker):
    """A worker whose data set forks, and in whose children batches live on."""

    def __init__(self, arena: _native.Arena) -> None:
        super().__init__(arena)
        self.pids: list[int] = []

    def keep(self, batch: torch.Tensor) -> None:
        if self.number % 40 != 3 or self.number > 300:
            return
        value, pid = value_of(self.number), os.fork()
        if pid > 0:
            self.pids.append(pid)
            return
        os.close(self.writer)
        os.read(self.reader, 1)  # until the worker has made all its batches
        is_right = is_filled(batch, value) and self.slots.allocate(1) is None
        os._exit(0 if is_right else 1)

    def __call__(self, connection: Connection) -> None:
        self.reader, self.writer = os.pipe()
        super().__call__(connection)
        self.slots.release()
        os.close(self.writer)
        assert [os.waitpid(pid, 0)[1] for pid in self.pids] == [0] * 8


@pytest.mark.parametrize("worker", [KeepingWorker, ForkingWorker])
def test_batches_that_live_on_in_the_worker_are_not_overwritten(worker: type[Worker], arena: _native.Arena) -> None:
    rng = random.Random(2)
    with forked(worker(arena)) as connection:
        free_slots: list[int] = []
        for number in range(1000):
            connection.send((free_slots, rng.randrange(1, 200_000)))
            place = connection.recv()
            free_slots = []
            if place is not None:
                assert is_filled(copied(arena, place), value_of(number))
                free_slots = [place[0]]


def test_number_of_slots_and_memory_are_bounded(arena: _native.Arena) -> None:
    slots = _native.ArenaSlots(arena)
    rng = random.Random(3)
    in_flight: collections.deque[int] = collections.deque()
    used = set()
    most = 0
    for number in range(100_000):
        slots.begin_batch()
        size = rng.randrange(MIB) if rng.random() < 0.9 else 0
        buffer = slots.allocate(size)
        assert (buffer is None) == (size == 0)
        if buffer is not None:
            assert slots.find(buffer.address, size) is not None
        buffer = None
        slot = slots.end_batch()
        if slot is not None:
            used.add(slot)
            in_flight.append(slot)
        if len(in_flight) > 3:
            slots.set_free([in_flight.popleft()])
        if number % 5000 == 0:
            most = max(most, arena.resident_bytes())
    assert used <= {0, 1, 2, 3}
    assert MIB < most <= 4 * MIB


def shared_kib() -> int:
    """Returns the shared memory in this process's page tables."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssShmem:"))


def test_memory_that_the_worker_releases_is_free_in_every_process(arena: _native.Arena) -> None:
    def work(connection: Connection) -> None:
        slots = _native.ArenaSlots(arena)
        slots.begin_batch()
        connection.send(sent(slots, make_batch(slots, 4 * MIB, 7)))
        assert connection.recv() == "copied"
        slots.release()
        connection.send("released")

    def map_only(connection: Connection) -> None:
        connection.recv()

    before = shared_kib()
    with forked(map_only) as other, forked(work) as connection:
        assert is_filled(copied(arena, connection.recv()), 7)
        assert arena.resident_bytes() == 4 * MIB
        assert shared_kib() >= before + 4096
        connection.send("copied")
        assert connection.recv() == "released"
        assert arena.resident_bytes() == 0
        assert shared_kib() <= before + 64
        other.send(None)


def test_the_parent_releases_the_memory_of_a_dead_worker(arena: _native.Arena) -> None:
    with forked(Worker(arena)) as connection:
        connection.send(([], MIB))
        place = connection.recv()
    assert is_filled(copied(arena, place), value_of(0))
    arena.release()
    assert arena.resident_bytes() == 0


def test_a_spawned_process_maps_the_same_memory() -> None:
    arena = _native.Arena(4, 2 * MIB)
    assert arena.descriptor is not None
    code = (
        "import sys\n"
        "from arena_batches import make_batch, sent\n"
        "from fastload import _native\n"
        "arena = _native.Arena.from_descriptor(*map(int, sys.argv[1:]))\n"
        "assert arena.descriptor is None\n"
        "slots = _native.ArenaSlots(arena)\n"
        "slots.begin_batch()\n"
        "print(sent(slots, make_batch(slots, 100_000, 9)))\n"
    )
    arguments = map(str, (arena.descriptor, arena.num_slots, arena.slot_bytes))
    paths = [str(Path(fastload.__file__).parents[1]), str(Path(__file__).parents[1] / "helpers")]
    result = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        pass_fds=[arena.descriptor],
        capture_output=True,
        text=True,
    )
    assert result.stdout == "(0, 0, 100000)\n", result.stderr
    assert is_filled(copied(arena, (0, 0, 100_000)), 9)
    with pytest.raises(OSError, match="Invalid argument"):
        _native.Arena.from_descriptor(arena.descriptor, 5, 2 * MIB)
    with pytest.raises(OSError, match="Bad file descriptor"):
        _native.Arena.from_descriptor(-1, 4, 2 * MIB)


def test_the_system_refuses_a_memfd() -> None:
    arena = without_descriptor()
    assert arena.descriptor is None
    assert arena.slot_bytes == 8 * MIB


def test_slots_are_smaller_where_the_address_space_is_limited() -> None:
    def make(spare: int) -> int | str:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        resource.setrlimit(resource.RLIMIT_AS, (pages * PAGE + spare,) * 2)
        try:
            return _native.Arena().slot_bytes
        except OSError as error:
            return str(error)

    slot_bytes = in_fork(lambda: make(1024 * MIB))
    assert 16 * MIB <= slot_bytes <= 64 * MIB
    assert in_fork(lambda: make(8 * MIB)) == "[Errno 12] Cannot allocate memory"


def test_locking_future_memory_gives_an_arena_none(run_child: RunChild) -> None:
    result = run_child(
        """
        import ctypes
        from arena_batches import make_batch, sent
        from fastload import _native

        if ctypes.CDLL(None).mlockall(2) != 0:  # MCL_FUTURE
            print("refused")
            raise SystemExit
        try:
            arena = _native.Arena()
        except OSError as error:
            print(error.strerror)  # the limit of locked memory
        else:
            assert arena.resident_bytes() == 0
            slots = _native.ArenaSlots(arena)
            slots.begin_batch()
            assert sent(slots, make_batch(slots, 1 << 20, 1)) == (0, 0, 1 << 20)
            assert arena.resident_bytes() == 1 << 20
            slots.release()
            assert arena.resident_bytes() == 0
            print("mapped")
        """,
        warm=True,
    )
    if result.stdout == "refused\n":
        pytest.skip("this user may lock no memory")
    assert result.stdout in ("mapped\n", "Resource temporarily unavailable\n")
