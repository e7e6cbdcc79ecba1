"""A GPU of the fake runtime, to step and to make faults in."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import itertools
import threading
from collections.abc import Callable, Iterator
from typing import Any

from fake_cuda.library import library

POISON = 0xCC

# The library returns it instead of a result.
_INVALID_ARGUMENT = -1
_KERNEL_FAILED = -2

_CAPTURE_MODE_RELAXED = 2
_NOT_READY = 600
_EVENT_WITHOUT_TIMING = 2
_STREAM_NON_BLOCKING = 1

_Kernel = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_size_t)
_tokens = itertools.count(1)


class FakeGpu:
    """A GPU of its own, in this process until it ends. Streams and events are numbers, as the runtime's handles.

    Not for a forked child of the process that made it.

    Attributes:
        number: The runtime's, for cudaSetDevice.
    """

    def __init__(self) -> None:
        self._library = library()
        self.number: int = self._library.fake_add_gpu()
        self._kernels: dict[int, Callable[[], object]] = {}
        self._raised = threading.local()
        self._run_kernel = _Kernel(functools.partial(_run, self._kernels, self._raised))

    # ---- as torch calls the runtime --------------------------------------------------------------------------------

    def create_stream(self) -> int:
        stream = ctypes.c_size_t()
        self._call("cudaStreamCreateWithFlags", ctypes.byref(stream), _STREAM_NON_BLOCKING)
        return stream.value

    def recorded_event(self, stream: int) -> int:
        """Returns a new event after the work queued on `stream`."""
        event = ctypes.c_size_t()
        self._call("cudaEventCreateWithFlags", ctypes.byref(event), _EVENT_WITHOUT_TIMING)
        self.record_event(event.value, stream)
        return event.value

    def record_event(self, event: int, stream: int) -> None:
        self._call("cudaEventRecord", event, stream)

    def is_done(self, event: int) -> bool:
        return self._call("cudaEventQuery", event) != _NOT_READY

    def wait_event(self, stream: int, event: int) -> None:
        self._call("cudaStreamWaitEvent", stream, event, 0)

    def destroy_event(self, event: int) -> None:
        self._call("cudaEventDestroy", event)

    def _call(self, function: str, *arguments: Any) -> int:
        """Raises RuntimeError with torch's words where the runtime does not do it."""
        with self._chosen():
            error: int = getattr(self._library, function)(*arguments)
            self._library.cudaGetLastError()  # takes it
            self._check_error(error if error != _NOT_READY else 0)
            return error

    @contextlib.contextmanager
    def _chosen(self) -> Iterator[None]:
        """Puts the calling thread at this GPU and lets it make calls that break captures, as torch's guards do."""
        device, mode = ctypes.c_int(), ctypes.c_int(_CAPTURE_MODE_RELAXED)
        self._library.cudaGetDevice(ctypes.byref(device))
        self._check_error(self._library.cudaSetDevice(self.number))
        try:
            self._check_error(self._library.cudaThreadExchangeStreamCaptureMode(ctypes.byref(mode)))
            try:
                yield
            finally:
                self._library.cudaThreadExchangeStreamCaptureMode(ctypes.byref(mode))
        finally:
            self._library.cudaSetDevice(device)

    def _check_error(self, error: int) -> None:
        if error != 0:
            raise RuntimeError(f"CUDA error: {self._library.cudaGetErrorString(error).decode()}\nand torch's advice")

    # ---- queues ----------------------------------------------------------------------------------------------------

    def enqueue(self, stream: int, kernel: Callable[[], object]) -> None:
        """Queues a kernel. The function below that runs it raises its exceptions."""
        token = next(_tokens)
        self._kernels[token] = kernel
        self._do("fake_enqueue", stream, self._run_kernel, token)

    def step(self, stream: int) -> bool:
        """Runs the next operation of a stream; false where there is none, it has to wait, or another thread runs it."""
        return self._do("fake_step", stream) == 1

    def step_any(self, random: int) -> bool:
        """Steps one of the streams that can be stepped, chosen by `random`; returns False if there is none."""
        return self._do("fake_step_any", self.number, random) == 1

    def wait_for_work(self, timeout_seconds: float) -> bool:
        """Waits until a stream can be stepped: for threads that play the device."""
        return self._do("fake_wait_for_work", self.number, timeout_seconds) == 1

    def synchronize(self, stream: int) -> None:
        """Runs what has to run for all work of the stream, and nothing else."""
        self._do("fake_synchronize", stream)

    def synchronize_all(self) -> None:
        """Runs everything, the streams in turns."""
        self._do("fake_synchronize_all", self.number)

    def num_pending(self, stream: int) -> int:
        """Operations not over yet, waits that hold the stream up included."""
        return self._do("fake_num_pending", stream)

    @property
    def num_events(self) -> int:
        """The number of events."""
        return self._do("fake_num_events", self.number)

    def fail_call(self, function: str, n: int, error: int, is_sticky: bool = False) -> None:
        """Makes the n-th call from now (from 1) of this function of the runtime at this GPU do nothing and fail.

        With `is_sticky` every later call that works at this GPU fails, too.
        """
        self._do("fake_fail_call", self.number, function.encode(), n, error, is_sticky)

    def call_count(self, function: str) -> int:
        """Calls of a function of the runtime at this GPU so far; those that failed count."""
        return self._do("fake_call_count", self.number, function.encode())

    def _do(self, function: str, first: int, *arguments: Any) -> int:
        result: int = getattr(self._library, function)(first, *arguments)
        if result == _KERNEL_FAILED:
            raise vars(self._raised).pop("error")
        if result == _INVALID_ARGUMENT:
            raise ValueError(self._library.fake_problem().decode())
        return result


def _run(kernels: dict[int, Callable[[], object]], raised: threading.local, token: int) -> bool:
    """Calls a kernel. Not a method: a GPU would never be collected."""
    try:
        kernels.pop(token)()
    except BaseException as error:  # noqa: BLE001 - it is raised by the call that ran the kernel
        raised.error = error
        return False
    return True
