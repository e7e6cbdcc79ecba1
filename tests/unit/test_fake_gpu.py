"""A fake GPU as Python sees it; tests/cpp/fake_gpu_test.cpp tests its order of work and its errors."""

from __future__ import annotations

import ctypes
import gc
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from fake_cuda import FakeGpu
from fake_cuda.library import MAJOR, library

from fastload import _native


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
        lambda gpu, stream: gpu.synchronize_all(),
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


@pytest.mark.parametrize("has_run", [True, False])
def test_a_kernel_is_released_when_it_is_over_or_its_gpu_is(has_run: bool) -> None:
    class Kernel:
        def __call__(self) -> None:
            pass

    gpu = FakeGpu()
    stream = gpu.create_stream()
    kernel = Kernel()
    is_alive = weakref.ref(kernel)
    gpu.enqueue(stream, kernel)
    del kernel
    gc.collect()
    assert is_alive() is not None
    if has_run:
        gpu.step(stream)
    else:
        del gpu
        gc.collect()
    assert is_alive() is None


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
