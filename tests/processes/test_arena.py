"""The memory of worker processes: nobody's bytes change, memory is bounded, and limits of the system are kept."""

from __future__ import annotations

import collections
import functools
import os
import random
import resource
import subprocess
import sys
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
import torch
from arena_batches import answer_requests, copied, is_filled, make_batch, sent, value_of
from children import RunChild
from forked import forked, in_fork
from process_faults import forking_thread

from fastload import _native

MIB = 1 << 20


@pytest.fixture(params=["memfd", "anonymous"])
def arena(request: pytest.FixtureRequest) -> _native.Arena:
    """Makes an arena; an anonymous one where the system gives no descriptor."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    if request.param == "anonymous":
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, limits[1]))
    try:
        arena = _native.Arena(16, 8 * MIB)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert (arena.descriptor is None) == (request.param == "anonymous")
    return arena


def test_an_arena_says_what_it_is_and_what_it_cannot_be() -> None:
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


def test_copies_of_any_size_and_place_have_all_bytes_and_no_others() -> None:
    arena = _native.Arena(2, 64 * MIB)
    slots = _native.ArenaSlots(arena)
    source = make_batch(slots, 40 * MIB, 0)
    source.copy_(torch.arange(40 * MIB) % 253)
    for offset, nbytes in [(0, 1), (7, 1000), (3, 16 * MIB - 1), (64, 16 * MIB), (1, 16 * MIB + 77), (0, 40 * MIB)]:
        target = torch.zeros(nbytes + 12, dtype=torch.uint8)
        arena.copy_out(0, offset, target.data_ptr() + 5, nbytes)
        assert torch.equal(target[5:-7], source[offset : offset + nbytes])
        assert not target[:5].any()
        assert not target[-7:].any()
    for slot, offset, nbytes in [(2, 0, 1), (1, 64 * MIB, 1), (0, 2**64 - 1, 2), (0, 64 * MIB + 1, 0)]:
        with pytest.raises(ValueError, match=f"of 67108864 bytes, got {nbytes} bytes at {offset} of slot {slot}"):
            arena.copy_out(slot, offset, source.data_ptr(), nbytes)


def test_only_slots_with_an_answer_can_be_set_free() -> None:
    slots = _native.ArenaSlots(_native.Arena(3, MIB))
    assert sent(slots, make_batch(slots, 100, 1)) == (0, 0, 100)
    for wrong in ([1], [3], [2**40], [0, 0]):
        with pytest.raises(ValueError, match=f"^there is no answer in slot {wrong[-1]}$"):
            slots.set_free(wrong)


def test_copies_do_not_change_while_the_worker_writes_into_every_slot(arena: _native.Arena) -> None:
    rng = random.Random(0)
    held: list[tuple[torch.Tensor, int]] = []
    in_flight: collections.deque[tuple[tuple[int, int, int], int]] = collections.deque()
    seen, most_in_flight = set(), 18
    end = functools.partial(os._exit, 7)
    work = forked(lambda connection: answer_requests(arena, connection, lambda *_: None))
    with forking_thread(end), forking_thread(end), work as connection:
        free_slots: list[int] = []
        for number in range(600):
            connection.send((free_slots, rng.choice([1, 1000, 70_000, 300_000])))
            place = connection.recv()
            seen.add(place and place[0])
            free_slots = []
            if place is not None:
                in_flight.append((place, value_of(number)))
            if number % 40 == 39:
                most_in_flight = rng.choice([1, 5, 18])
            while len(in_flight) > most_in_flight:
                place, value = in_flight.popleft()
                held.append((copied(arena, place), value))
                free_slots.append(place[0])
        connection.send(None)
    assert all(is_filled(batch, value) for batch, value in held)
    assert seen == {*range(16), None}


def keep_batches(arena: _native.Arena, connection: Connection) -> None:
    """Works as a collate_fn that keeps batches, for a while all."""
    rng = random.Random(1)
    kept: list[tuple[torch.Tensor, int]] = []

    def keep(slots: _native.ArenaSlots, number: int, batch: torch.Tensor) -> None:
        kept.append((batch, value_of(number)))
        while len(kept) > 8 and not 500 < number < 530:
            assert is_filled(*kept.pop(rng.randrange(len(kept))))

    answer_requests(arena, connection, keep)
    assert all(is_filled(*pair) for pair in kept)


def fork_with_batches(arena: _native.Arena, connection: Connection) -> None:
    """Works as a data set that forks; batches live on in its children."""
    reader, writer = os.pipe()
    pids = []

    def keep(slots: _native.ArenaSlots, number: int, batch: torch.Tensor) -> None:
        if number % 40 != 3 or number > 300:
            return
        pid = os.fork()
        if pid == 0:
            os.close(writer)
            os.read(reader, 1)  # until the worker has made all its batches
            os._exit(0 if is_filled(batch, value_of(number)) and slots.allocate(1) is None else 1)
        pids.append(pid)

    answer_requests(arena, connection, keep)
    os.close(writer)
    assert [os.waitpid(pid, 0)[1] for pid in pids] == [0] * 8


@pytest.mark.parametrize("work", [keep_batches, fork_with_batches])
def test_batches_that_live_on_in_the_worker_do_not_change(work: object, arena: _native.Arena) -> None:
    rng = random.Random(2)
    with forked(lambda connection: work(arena, connection)) as connection:  # type: ignore[operator]
        place = None
        for number in range(800):
            connection.send(([] if place is None else [place[0]], rng.randrange(1, 200_000)))
            place = connection.recv()
            assert place is None or is_filled(copied(arena, place), value_of(number))
        connection.send(None)


def test_number_of_slots_and_memory_are_bounded(arena: _native.Arena) -> None:
    slots = _native.ArenaSlots(arena)
    rng = random.Random(3)
    in_flight: collections.deque[int] = collections.deque()
    used, most = set(), 0
    for number in range(100_000):
        slots.begin_batch()
        size = rng.randrange(MIB) if rng.random() < 0.9 else 0
        buffer = slots.allocate(size)
        assert (buffer is None) == (size == 0)
        if buffer is not None:
            slots.find(buffer.address, size)
        buffer = None
        if (slot := slots.end_batch()) is not None:
            used.add(slot)
            in_flight.append(slot)
        if len(in_flight) > 3:
            slots.set_free([in_flight.popleft()])
        if number % 5000 == 0:
            most = max(most, arena.resident_bytes())
    assert used == {0, 1, 2, 3}
    assert MIB < most <= 4 * MIB


def test_released_memory_is_free_in_every_process(arena: _native.Arena) -> None:
    def shared_kib() -> int:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("RssShmem:"))

    with forked(lambda connection: connection.recv()) as other:  # maps it, and does nothing
        before = shared_kib()
        for does_worker_release in (True, False):
            work = forked(lambda connection: answer_requests(arena, connection, lambda *_: None))
            with work as connection:
                connection.send(([], 4 * MIB))
                assert is_filled(copied(arena, connection.recv()), value_of(0))
                assert arena.resident_bytes() == 4 * MIB
                assert shared_kib() >= before + 4096
                if not does_worker_release:
                    arena.release()
                    assert arena.resident_bytes() == 0
                connection.send(None)
            assert arena.resident_bytes() == 0
            assert shared_kib() <= before + 64  # so unmapping has nothing to do
        other.send(None)


def test_a_spawned_process_maps_the_same_memory() -> None:
    arena = _native.Arena(4, 2 * MIB)
    assert arena.descriptor is not None
    code = """if True:
        import sys
        from arena_batches import make_batch, sent
        from fastload import _native

        arena = _native.Arena.from_descriptor(*map(int, sys.argv[1:]))
        slots = _native.ArenaSlots(arena)
        print(arena.descriptor, sent(slots, make_batch(slots, 100_000, 9)))
    """
    arguments = map(str, (arena.descriptor, arena.num_slots, arena.slot_bytes))
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, "-c", code, *arguments]
    output = subprocess.check_output(command, env=env, pass_fds=[arena.descriptor], text=True)
    assert output == "None (0, 0, 100000)\n"
    assert is_filled(copied(arena, (0, 0, 100_000)), 9)
    for descriptor, num_slots, slot_bytes, error in [
        (arena.descriptor, 5, 2 * MIB, "Invalid argument"),
        (arena.descriptor, 0, 2 * MIB, "Invalid argument"),
        (arena.descriptor, 2**63, 2 * MIB, "Invalid argument"),
        (arena.descriptor, 4, MIB + 1, "Invalid argument"),
        (-1, 4, 2 * MIB, "Bad file descriptor"),
    ]:
        with pytest.raises(OSError, match=error):
            _native.Arena.from_descriptor(descriptor, num_slots, slot_bytes)


@pytest.mark.parametrize(("spare", "expected"), [(1000 * MIB, {3}), (8 * MIB, {"[Errno 12] Cannot allocate memory"})])
def test_slots_are_smaller_where_the_address_space_is_limited(spare: int, expected: set[int | str]) -> None:
    def make() -> int | str:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + spare,) * 2)
        try:
            return _native.Arena().slot_bytes // MIB
        except OSError as error:
            return str(error)

    assert in_fork(make) in expected


def test_locking_future_memory_gives_an_arena_none(run_child: RunChild) -> None:
    code = """
        import ctypes
        from arena_batches import make_batch, sent
        from fastload import _native

        if ctypes.CDLL(None).mlockall(2) != 0:  # MCL_FUTURE
            raise SystemExit
        try:
            arena = _native.Arena()
        except OSError as error:
            print(error.strerror)
        else:
            slots = _native.ArenaSlots(arena)
            print(arena.resident_bytes(), sent(slots, make_batch(slots, 1 << 20, 1)), arena.resident_bytes())
    """
    output = run_child(code, warm=True).stdout
    if output in ("", "Resource temporarily unavailable\n"):
        pytest.skip("this user may lock no memory, or too little")
    assert output == f"0 (0, 0, {MIB}) {MIB}\n"


def test_a_limited_address_space_is_left_to_the_program(run_child: RunChild) -> None:
    result = run_child(
        """
        import mmap, resource
        from pathlib import Path
        import fastload
        from numbered import Numbered

        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + (4 << 30), resource.getrlimit(resource.RLIMIT_AS)[1]))
        iterator = iter(fastload.DataLoader(Numbered(), 2, num_workers=4, workers="processes"))
        of_program = mmap.mmap(-1, 2 << 30)
        print(len(list(iterator)))
        """
    )
    assert result.stdout == "12\n"
