"""A fake GPU as Python sees it; tests/cpp/fake_gpu_test.cpp tests its order of work and its errors."""

from __future__ import annotations

import ctypes
import gc
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from children import RunChild
from fake_cuda import FakeGpu
from fake_cuda.library import MAJOR, library

from fastload import _native


class Buffer:
    """Bytes with an address."""

    def __init__(self, value: int, nbytes: int = 32) -> None:
        self.array = np.full(nbytes, value, np.uint8)
        self.address = self.array.ctypes.data


def copy(gpu: FakeGpu, to: Buffer, source: Buffer, stream: int) -> _native.DeviceFailure | None:
    """Copies like the product copies a batch: `source` is a slot of a ring."""
    nbytes = source.array.nbytes
    backend = _native.open_cuda_device(MAJOR, gpu.number)
    ring = _native.StagingRing(backend, address=source.address, slot_bytes=nbytes, num_slots=1, owner=source)
    batch = _native.BatchCopy(ring.take(), [(0, nbytes)], stream)
    batch.set_destinations([to.address])
    batch.set_written()
    return batch.failure


def state_of_thread() -> tuple[int, int]:
    """Returns the device and the capture mode of the calling thread; changes the mode."""
    device, mode = ctypes.c_int(), ctypes.c_int()
    library().cudaGetDevice(ctypes.byref(device))
    library().cudaThreadExchangeStreamCaptureMode(ctypes.byref(mode))
    return device.value, mode.value


def in_new_thread(function: Callable[[], object]) -> object:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function).result(30)


@pytest.fixture
def gpu() -> FakeGpu:
    return FakeGpu()


@pytest.fixture
def stream(gpu: FakeGpu) -> int:
    return gpu.create_stream()


@pytest.mark.parametrize(
    "run",
    [
        lambda gpu, stream: gpu.step(stream),
        lambda gpu, stream: gpu.synchronize(stream),
        lambda gpu, stream: gpu.synchronize_all(3),
    ],
)
def test_exception_of_a_kernel_is_raised_by_the_call_that_ran_it_and_the_stream_goes_on(
    gpu: FakeGpu, stream: int, run: Callable[[FakeGpu, int], object]
) -> None:
    seen = []

    def fail() -> None:
        raise LookupError("of the kernel")

    gpu.enqueue(stream, fail)
    gpu.enqueue(stream, lambda: seen.append(1))
    with pytest.raises(LookupError, match="of the kernel"):
        run(gpu, stream)
    gpu.synchronize_all()
    assert seen == [1]


def test_waiting_for_another_threads_kernel_lets_go_of_the_interpreter(gpu: FakeGpu, stream: int) -> None:
    is_inside, may_end, done = threading.Event(), threading.Event(), []

    def kernel() -> None:
        is_inside.set()
        assert may_end.wait(30)

    gpu.enqueue(stream, kernel)
    stepping = threading.Thread(target=gpu.step, args=(stream,))
    stepping.start()
    assert is_inside.wait(30)
    waiting = threading.Thread(target=lambda: done.append(gpu.synchronize(stream)))
    waiting.start()
    assert not gpu.step(stream)  # another thread runs the operation
    may_end.set()
    stepping.join(30)
    waiting.join(30)
    assert done == [None]
    assert gpu.num_pending(stream) == 0


def test_kernel_is_released_when_it_is_over(gpu: FakeGpu, stream: int) -> None:
    class Kernel:
        def __call__(self) -> None:
            pass

    kernel = Kernel()
    is_alive = weakref.ref(kernel)
    gpu.enqueue(stream, kernel)
    del kernel
    gc.collect()
    assert is_alive() is not None
    gpu.step(stream)
    assert is_alive() is None


def test_kernels_that_never_ran_are_released_with_their_gpu() -> None:
    gpu = FakeGpu()
    stream = gpu.create_stream()
    kept = Buffer(1)
    is_alive = weakref.ref(kept)
    gpu.enqueue(stream, lambda kept=kept: None)
    del kept, gpu
    gc.collect()
    assert is_alive() is None


def test_nth_call_fails_with_the_runtimes_words(gpu: FakeGpu, stream: int) -> None:
    gpu.fail_call("cudaMemcpyAsync", 2, 2)
    to, source = Buffer(9), Buffer(1)
    assert copy(gpu, to, source, stream) is None
    before = gpu.call_count("cudaSetDevice")
    assert copy(gpu, to, source, stream) == {
        "call": "cudaMemcpyAsync",
        "error": 2,
        "name": "cudaErrorMemoryAllocation",
        "text": "out of memory",
    }
    assert gpu.call_count("cudaSetDevice") > before
    assert copy(gpu, to, source, stream) is None
    assert gpu.call_count("cudaMemcpyAsync") == 3
    assert gpu.call_count("cudaThreadExchangeStreamCaptureMode") == 2 * gpu.call_count("cudaSetDevice")
    assert in_new_thread(lambda: (copy(gpu, to, source, stream), state_of_thread())) == (None, (0, 0))
    gpu.fail_call("cudaEventRecord", 1, 719)
    with pytest.raises(RuntimeError, match=r"^CUDA error: unspecified launch failure\n"):
        gpu.recorded_event(stream)


def test_thread_that_stays_is_inside_for_good(gpu: FakeGpu, stream: int) -> None:
    backend = _native.open_cuda_device(MAJOR, gpu.number)

    def stay() -> object:
        backend.stay_in_thread()
        gpu.recorded_event(stream)
        return state_of_thread()

    relaxed = 2
    assert in_new_thread(stay) == (gpu.number, relaxed)
    gpu.fail_call("cudaSetDevice", 1, 100)
    with pytest.raises(RuntimeError, match=r"^cudaSetDevice failed: "):
        backend.stay_in_thread()


def test_what_does_not_exist_is_named(gpu: FakeGpu, stream: int) -> None:
    event = gpu.recorded_event(stream)
    for call in (gpu.step, gpu.synchronize, gpu.num_pending):
        with pytest.raises(ValueError, match=r"^no stream or event 5$"):
            call(5)
        with pytest.raises(ValueError, match=rf"^no stream {event}$"):
            call(event)
    with pytest.raises(ValueError, match=rf"^no event {stream}$"):
        gpu.run_until(stream)
    for call in (
        gpu.is_done,
        lambda event: gpu.wait_event(stream, event),
        lambda stream: gpu.record_event(event, stream),
    ):
        with pytest.raises(RuntimeError, match="invalid resource handle"):
            call(5)
    with pytest.raises(ValueError, match="'cudaFree' is none of cudaDriverGetVersion"):
        gpu.fail_call("cudaFree", 1, 2)


def test_interpreter_ends_while_threads_play_the_device(run_child: RunChild) -> None:
    child = run_child(
        """
        import random, threading
        from fake_cuda import FakeGpu

        gpu = FakeGpu()
        streams = [gpu.create_stream() for _ in range(3)]

        def play():
            while True:
                if gpu.wait_for_work(1):
                    gpu.step_any(random.getrandbits(32))

        for _ in range(2):
            threading.Thread(target=play, daemon=True).start()
        for i in range(5000):
            gpu.enqueue(streams[i % 3], lambda: sum(range(100)))
        print("the main thread ends")
        """
    )
    assert (child.stdout, child.stderr) == ("the main thread ends\n", "")
