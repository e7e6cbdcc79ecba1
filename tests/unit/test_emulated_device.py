"""The emulated device as Python sees it; tests/cpp/emulated_device_test.cpp has more of its order of work."""

from __future__ import annotations

import gc
import threading
import weakref

import numpy as np
import pytest
from children import RunChild

from fastload import _native

POISON = 0xCC
Device = _native.EmulatedDevice


class Buffer:
    """Bytes with an address."""

    def __init__(self, value: int, nbytes: int = 32) -> None:
        self.array = np.full(nbytes, value, np.uint8)
        self.address = self.array.ctypes.data

    def is_filled_with(self, value: int) -> bool:
        return bool((self.array == value).all())


def copy(device: Device, to: Buffer, source: Buffer, stream: int) -> None:
    device.copy_to_device(to.address, source.address, source.array.nbytes, stream)


def record(device: Device, stream: int) -> int:
    event = device.create_event()
    device.record_event(event, stream)
    return event


def test_copy_poisons_at_once_and_reads_late() -> None:
    device = Device()
    source, to = Buffer(1), Buffer(9)
    copy(device, to, source, 0)
    assert to.is_filled_with(POISON)
    source.array[:] = 2
    assert device.step(0)
    assert to.is_filled_with(2)
    assert not device.step(0)


def test_consumer_that_waits_sees_the_data_and_one_that_does_not_sees_poison() -> None:
    device = Device()
    copies, compute, careless = (device.create_stream() for _ in range(3))
    to, seen = Buffer(9), []
    copy(device, to, Buffer(5), copies)
    device.wait_event(compute, record(device, copies))
    for stream in (careless, compute):
        device.enqueue(stream, lambda: seen.append(int(to.array[0])))
    assert not device.step(compute)
    device.synchronize(careless)
    device.synchronize(compute)
    assert seen == [POISON, 5]


def test_event_is_done_when_it_was_stepped() -> None:
    device = Device()
    event = record(device, 0)
    assert not device.query_event(event)
    device.run_until(event)
    assert device.query_event(event)


@pytest.mark.parametrize("run", [lambda d: d.step(0), lambda d: d.synchronize(0), lambda d: d.synchronize_all(3)])
def test_exception_of_a_kernel_is_raised_by_the_call_that_ran_it_and_the_stream_goes_on(run) -> None:
    device = Device()
    seen = []

    def fail() -> None:
        raise LookupError("of the kernel")

    device.enqueue(0, fail)
    device.enqueue(0, lambda: seen.append(1))
    with pytest.raises(LookupError, match="of the kernel"):
        run(device)
    device.synchronize_all()
    assert seen == [1]


def test_kernel_may_use_the_device_but_not_wait_for_itself() -> None:
    device = Device()
    events = []
    device.enqueue(0, lambda: events.append(record(device, 0)))
    device.synchronize(0)
    device.synchronize(0)
    assert device.query_event(events[0])
    device.enqueue(0, lambda: device.synchronize(0))
    with pytest.raises(RuntimeError, match="cannot go on: an operation waits for itself to end"):
        device.step(0)


def test_stepping_threads_run_each_kernel_once_and_in_order() -> None:
    device = Device()
    streams = [device.create_stream() for _ in range(3)]
    seen: dict[int, list[int]] = {stream: [] for stream in streams}
    for i in range(100):
        for stream in streams:
            device.enqueue(stream, lambda stream=stream, i=i: seen[stream].append(i))
    threads = [threading.Thread(target=device.synchronize_all, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(order == list(range(100)) for order in seen.values())


def test_waiting_for_another_threads_kernel_lets_go_of_the_interpreter() -> None:
    device = Device()
    is_inside, may_end, done = threading.Event(), threading.Event(), []

    def kernel() -> None:
        is_inside.set()
        assert may_end.wait(30)

    device.enqueue(0, kernel)
    stepping = threading.Thread(target=device.step, args=(0,))
    stepping.start()
    assert is_inside.wait(30)
    waiting = threading.Thread(target=lambda: done.append(device.synchronize(0)))
    waiting.start()
    assert not device.step(0)  # another thread runs the operation
    may_end.set()
    stepping.join(30)
    waiting.join(30)
    assert done == [None]
    assert device.pending(0) == 0


def test_thread_that_plays_the_device_is_woken_by_work() -> None:
    device = Device()
    assert not device.wait_for_work(0.0)
    seen: list[int] = []

    def play() -> None:
        if device.wait_for_work(30):
            device.step_any(0)

    player = threading.Thread(target=play)
    player.start()
    device.enqueue(0, lambda: seen.append(threading.get_ident()))
    player.join(30)
    assert seen == [player.ident]


def test_seed_decides_the_order_of_streams() -> None:
    def order(seed: int) -> list[int]:
        device = Device()
        seen: list[int] = []
        for stream in [device.create_stream() for _ in range(4)] * 4:
            device.enqueue(stream, lambda stream=stream: seen.append(stream))
        device.synchronize_all(seed)
        return seen

    assert order(1) == order(1)
    assert len({tuple(order(seed)) for seed in range(5)}) > 1


def test_kernel_is_released_when_it_is_over() -> None:
    class Kernel:
        def __call__(self) -> None:
            pass

    device, kernel = Device(), Kernel()
    is_alive = weakref.ref(kernel)
    device.enqueue(0, kernel)
    del kernel
    gc.collect()
    assert is_alive() is not None
    device.step(0)
    assert is_alive() is None


def test_nth_call_fails_with_the_runtimes_words() -> None:
    device = Device()
    device.fail_call("copy_to_device", 2, 2)
    to, source = Buffer(9), Buffer(1)
    copy(device, to, source, 0)
    with pytest.raises(RuntimeError, match=r"^cudaMemcpyAsync failed: cudaErrorMemoryAllocation \(out of memory\)$"):
        copy(device, to, source, 0)
    copy(device, to, source, 0)
    counts = device.call_counts()
    assert counts["copy_to_device"] == 3
    assert counts["enter_thread"] == counts["leave_thread"] == 3
    assert device.num_threads_inside == 0


def test_thread_that_stays_is_inside_for_good() -> None:
    device = Device()
    device.stay_in_thread()
    record(device, 0)
    counts = device.call_counts()
    assert (counts["enter_thread"], counts["leave_thread"], device.num_threads_inside) == (3, 2, 1)
    device.fail_call("enter_thread", 1, 100)
    with pytest.raises(RuntimeError, match=r"^cudaSetDevice failed: "):
        device.stay_in_thread()


def test_sticky_error_ends_every_later_call() -> None:
    device = Device()
    event = record(device, 0)
    device.fail_call("query_event", 1, 700, is_sticky=True)
    for call in (lambda: device.query_event(event), device.create_event, lambda: device.record_event(event, 0)):
        with pytest.raises(RuntimeError, match="cudaErrorIllegalAddress"):
            call()


def test_faulty_work_shows_after_it_ran() -> None:
    device = Device()
    event = record(device, 0)
    device.enqueue_fault(device.create_stream(), 719)
    assert not device.query_event(event)
    device.synchronize_all()
    with pytest.raises(RuntimeError, match="cudaErrorLaunchFailure"):
        device.query_event(event)


def test_what_does_not_exist_is_named() -> None:
    device = Device()
    for call in (device.step, device.synchronize, device.pending):
        with pytest.raises(ValueError, match=r"^no stream 5$"):
            call(5)
    with pytest.raises(ValueError, match=r"^no event 5$"):
        device.wait_event(0, 5)
    with pytest.raises(RuntimeError, match="cudaErrorInvalidResourceHandle"):
        device.query_event(5)
    with pytest.raises(ValueError, match="'cudaFree' is none of enter_thread"):
        device.fail_call("cudaFree", 1, 2)


def test_destroyed_events_are_gone() -> None:
    device = Device()
    event = record(device, 0)
    assert device.num_events == 1
    device.destroy_event(event)
    assert device.num_events == 0


def test_interpreter_ends_while_threads_play_the_device(run_child: RunChild) -> None:
    child = run_child(
        """
        import random, threading
        from fastload import _native

        device = _native.EmulatedDevice()
        streams = [device.create_stream() for _ in range(3)]

        def play():
            while True:
                if device.wait_for_work(1):
                    device.step_any(random.getrandbits(32))

        for _ in range(2):
            threading.Thread(target=play, daemon=True).start()
        for i in range(5000):
            device.enqueue(streams[i % 3], lambda: sum(range(100)))
        print("the main thread ends")
        """
    )
    assert (child.stdout, child.stderr) == ("the main thread ends\n", "")
