"""The memory of batches, on the host and on a device: the only place that decides where a batch lies.

Note [device order]
Copies to a device, and the work there on a batch, run on a stream of fastload's own, one per device. Memory on the
device is allocated while that stream is current, so torch's allocator reuses it only after the work queued there. At
hand-over the consumer's current stream waits for an event after all of that work (the host does not wait), and
record_stream tells the allocator that the stream uses the memory from then on.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import warnings
from collections.abc import Callable, Iterator, Mapping, MutableMapping, MutableSequence, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.data._utils.pin_memory import pin_memory

from fastload import _native
from fastload._delivery._convert import convert, is_fused
from fastload._errors import DeviceError


@dataclass(frozen=True)
class BatchLayout:
    """The layout of a batch of images."""

    height: int
    width: int
    dtype: torch.dtype
    memory_format: torch.memory_format

    @property
    def sample_bytes(self) -> int:
        """The size of one image of three channels."""
        return 3 * self.height * self.width * self.dtype.itemsize

    def shape(self, batch_size: int) -> tuple[int, int, int, int]:
        """Returns the shape of a batch: [batch, 3, height, width]."""
        return batch_size, 3, self.height, self.width

    def allocate(self, empty: Callable[..., torch.Tensor], batch_size: int) -> torch.Tensor:
        """Returns a batch from `empty`, which is called like torch.empty."""
        return empty(*self.shape(batch_size), dtype=self.dtype, memory_format=self.memory_format)


class PinnedMemory:
    """Page-locked memory from torch's pinned caching allocator, or pageable memory if none is left.

    The allocator's events protect the user's own non_blocking copies: released memory is not reused before they end.

    Args:
        empty: torch.empty for page-locked memory.
        pin: torch's pin_memory() for whole batches.
    """

    def __init__(
        self,
        empty: Callable[..., torch.Tensor] | None = None,
        pin: Callable[[Any, str | None], Any] = pin_memory,
    ) -> None:
        self._empty = empty or functools.partial(torch.empty, pin_memory=True)
        self._pin = pin
        self._has_warned = False
        self.num_pageable = 0  # allocations that had to be pageable

    def empty(self, *shape: int, **options: Any) -> torch.Tensor:
        """Allocates like torch.empty. Raises MemoryError or RuntimeError if there is no pageable memory either."""
        try:
            return self._empty(shape, **options)
        except RuntimeError as error:
            self._count_pageable(error)
            return torch.empty(shape, **options)

    def pin(self, batch: Any, device: str | None = None) -> Any:
        """Returns `batch` with its tensors in page-locked memory, copied like torch's own pin_memory()."""
        try:
            return self._pin(batch, device)
        except RuntimeError as error:
            if not any(word in str(error).lower() for word in ("memory", "cuda error")):
                raise  # raised by the user's own pin_memory()
            self._count_pageable(error)
            return batch

    def pin_host_tensors(self, batch: Any) -> Any:
        """Pins the host tensors of a batch for a device; others, and any that cannot be pinned, stay as they are."""
        return moved(batch, self._pin_tensor, self._pin_object)

    def _pin_tensor(self, tensor: torch.Tensor) -> torch.Tensor:
        if tensor.device.type != "cpu" or tensor.layout is not torch.strided:
            return tensor
        pinned: torch.Tensor = self.pin(tensor)
        return pinned

    def _pin_object(self, value: Any) -> Any:
        return self.pin(value) if callable(getattr(value, "pin_memory", None)) else None

    def _count_pageable(self, error: RuntimeError) -> None:
        self.num_pageable += 1
        if self._has_warned:
            return
        self._has_warned = True
        warnings.warn(
            f"no page-locked memory is left for a batch ({first_line(error)}). Such batches are in pageable memory, "
            "from which copies to the device are slower. Lower num_workers, prefetch_factor or the batch size, or "
            "raise the limit of locked memory (ulimit -l)",
            RuntimeWarning,
            stacklevel=2,
        )


class Device:
    """A GPU to which batches are delivered; see Note [device order].

    Args:
        backend: Queues copies in threads that do not run Python.
        stream: fastload's own stream on that GPU.
        pinned: The loader's host memory, from which copies are queued.
        cuda: torch.cuda; tests have their own.

    Attributes:
        name: Name in errors and explain(): "cuda:0".
        copy_stream: The stream, in the form that `backend` takes.
    """

    def __init__(
        self, backend: _native.DeviceBackend, stream: torch.cuda.Stream, pinned: PinnedMemory, cuda: Any = torch.cuda
    ) -> None:
        self.backend = backend
        self._cuda = cuda
        self._stream = stream
        self._device = stream.device
        self.name = str(self._device)
        self.pinned = pinned
        self.copy_stream: int = stream.cuda_stream

    def on_copy_stream(self) -> contextlib.AbstractContextManager[Any]:
        """Returns a context in which the functions below and the user's own operations use the copy stream."""
        stream: contextlib.AbstractContextManager[Any] = self._cuda.stream(self._stream)
        return stream

    def empty(self, *shape: int, **options: Any) -> torch.Tensor:
        """Allocates like torch.empty, on the device."""
        return torch.empty(shape, device=self._device, **options)

    def convert(self, pixels: torch.Tensor, table: torch.Tensor, out: torch.Tensor) -> None:
        """Calls fastload._delivery._convert.convert."""
        convert(pixels, table, out=out)

    def copy(self, host: torch.Tensor) -> torch.Tensor:
        """Copies `host` to the device; from page-locked memory it only queues. A tensor already there is returned."""
        return host.to(self._device, non_blocking=True)

    def copy_object(self, value: Any) -> Any:
        """Copies a user's object to the device; returns None if it is not one that copies itself."""
        return object_to(value, self.name)

    def called(self, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Returns the callable to call with a batch, while the copy stream is current, to have `function` called."""
        return function

    def synchronize(self) -> None:
        """Blocks the host until the caller's current stream is done."""
        self._current_stream().synchronize()

    def recorded_event(self) -> Any:
        """Returns a new event after everything queued on the copy stream."""
        return self._stream.record_event()

    def wait_event(self, event: Any) -> None:
        """Makes the caller's current stream wait for the event. The host does not wait."""
        self._current_stream().wait_event(event)

    def is_on_device(self, tensor: torch.Tensor) -> bool:
        return tensor.device.type == "cuda"

    def is_failure(self, error: RuntimeError) -> bool:
        """Returns whether the device itself has failed, not memory run out or a call been wrong."""
        # torch.AcceleratorError since torch 2.8, a plain RuntimeError before.
        return str(error).startswith(("CUDA error", "CUDA driver error"))

    def error(self, what: str, cause: str) -> DeviceError:
        """Returns an error that says `what` failed on fastload's stream, why, and what to do."""
        return DeviceError(
            f"{what} to {self.name} on stream {self.copy_stream:#x}: {cause}. The cause may be a kernel queued "
            "earlier: run again with CUDA_LAUNCH_BLOCKING=1 to see which. After most such errors a process cannot use "
            "the device any more: start a new one"
        )

    @contextlib.contextmanager
    def naming_batch(self, number: int, num_bytes: Callable[[], int]) -> Iterator[None]:
        """Turns a failure of the device in this block into a DeviceError that names the batch.

        Full memory stays the torch.OutOfMemoryError that programs look for.
        """
        try:
            yield
        except RuntimeError as error:
            if not (isinstance(error, DeviceError) or self.is_failure(error)):
                raise
            what = f"batch {number} ({num_bytes()} bytes) could not be moved"
            raise self.error(what, first_line(error)) from error

    def record_stream(self, holder: Any) -> None:
        """Marks memory of a tensor, or of an object with record_stream(), as used by the caller's current stream."""
        holder.record_stream(self._current_stream())

    def _current_stream(self) -> Any:
        return self._cuda.current_stream(self._device)


@functools.cache
def _stream_of_process(index: int) -> torch.cuda.Stream:
    """Returns the process's stream, which loaders share: torch has only 32 per device and priority, and reuses them.

    It has high priority because few programs have streams of that pool. On a stream with which a program captures a
    graph, or trains, copies would become part of the graph, or wait for the training.
    """
    return torch.cuda.Stream(index, priority=-1)  # type: ignore[no-untyped-call]


def leave_captures_alone(index: int) -> None:
    """Lets the calling thread, one of fastload's own, use GPU `index` while the program captures a graph.

    Locking memory, or checking whether a copy is done, breaks a capture in another thread, unless this thread has
    chosen the relaxed mode of cudaThreadExchangeStreamCaptureMode.
    """
    if torch.version.cuda is None:
        return
    with contextlib.suppress(RuntimeError):  # the runtime is unknown: then captures are not safe
        _native.open_cuda_device(_runtime_major(torch.version.cuda), index).stay_in_thread()


def open_device(device: Any, pinned: PinnedMemory) -> Device | None:
    """Returns the device that `device` names, in torch.device's form; None for the host. A Device is returned as it is.

    Raises:
        ValueError: It is neither a GPU nor the host.
        RuntimeError: There is no such device, or it cannot be used.
    """
    if is_host(device):
        return None
    return device if isinstance(device, Device) else _opened(_named(device), pinned)


def _opened(device: torch.device, pinned: PinnedMemory) -> Device:
    if torch.version.cuda is None:
        raise RuntimeError(
            f"device={str(device)!r} needs a torch built with CUDA, and this one ({torch.__version__}) is not: "
            "install one, or leave device out"
        )
    # This comes first: torch then loads the runtime that copies use.
    if not torch.cuda.is_available():
        raise RuntimeError(
            f"device={str(device)!r} needs a GPU, and torch.cuda.is_available() is False: nvidia-smi shows whether "
            "there are a GPU and a driver, and CUDA_VISIBLE_DEVICES may hide it: make one visible, or leave device out"
        )
    torch.cuda.init()  # type: ignore[no-untyped-call]
    index = torch.cuda.current_device() if device.index is None else device.index
    if index >= torch.cuda.device_count():
        raise RuntimeError(
            f"device={str(device)!r}: there are {torch.cuda.device_count()} GPUs, numbered from 0; "
            "CUDA_VISIBLE_DEVICES may hide others"
        )
    backend = _native.open_cuda_device(_runtime_major(torch.version.cuda), index)
    opened = Device(backend, _stream_of_process(index), pinned)
    is_fused(f"cuda:{index}")  # loads the kernels now, so that no launch does it during an epoch or a capture
    return opened


def _runtime_major(version: str) -> int:
    return int(version.partition(".")[0])


def is_host(device: Any) -> bool:
    """Returns whether `device`, in open_device()'s form, names the host."""
    return device is None or (not isinstance(device, Device) and _named(device).type == "cpu")


def check_device(device: Any) -> None:
    """Raises ValueError if open_device() would; looks for no device."""
    if device is not None and not isinstance(device, Device):
        _named(device)


def _named(device: Any) -> torch.device:
    allowed = "device must be a GPU ('cuda', 'cuda:1', 1) or the host ('cpu' or None)"
    try:
        if isinstance(device, bool):
            raise TypeError("a bool is not a device")
        named = torch.device("cuda", device) if isinstance(device, int) else torch.device(device)
        if isinstance(device, int) and named.index != device:  # torch uses only some of its bits
            raise TypeError("there is no such device")
    except (RuntimeError, TypeError) as error:
        raise ValueError(f"{allowed}, got {device!r}: {first_line(error)}") from None
    except ValueError:
        raise ValueError(f"{allowed}, got {device!r}") from None
    if named.type not in ("cuda", "cpu"):
        raise ValueError(f"{allowed}, got {device!r}")
    return named


def moved(value: Any, copy: Callable[[torch.Tensor], torch.Tensor], copy_object: Callable[[Any], Any]) -> Any:
    """Returns `value` with its tensors and other objects in another place; it looks where torch's pin_memory() does.

    Args:
        copy: Returns a tensor there.
        copy_object: Returns a user's object there; None if it is not one that copies itself.
    """
    if isinstance(value, torch.Tensor):
        return copy(value)
    if isinstance(value, (str, bytes)):
        return value
    if isinstance(value, Mapping):
        return _mapping_like(value, {key: moved(item, copy, copy_object) for key, item in value.items()})
    # Before tuples: a PackedSequence is a tuple, and knows which part of it stays on the host.
    if (copied := copy_object(value)) is not None:
        return copied
    if isinstance(value, Sequence):
        return _sequence_like(value, [moved(item, copy, copy_object) for item in value])
    return value


def object_to(value: Any, name: str) -> Any:
    """Returns ``value.to(name)``; None if there is no such method."""
    return value.to(name, non_blocking=True) if callable(getattr(value, "to", None)) else None


def _mapping_like(value: Mapping[Any, Any], items: dict[Any, Any]) -> Any:
    """Returns `items` in a mapping of the type of `value`, like torch's pin_memory()."""
    try:
        if not isinstance(value, MutableMapping):
            return type(value)(items)  # type: ignore[call-arg]
        clone = copy.copy(value)  # keeps its other state, such as a default factory
        clone.update(items)
    except TypeError:
        return items
    return clone


def _sequence_like(value: Sequence[Any], items: list[Any]) -> Any:
    """Returns `items` in a sequence of the type of `value`, like torch's pin_memory()."""
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*items)
    try:
        if not isinstance(value, MutableSequence):
            return type(value)(items)  # type: ignore[call-arg]
        clone = copy.copy(value)
        for position, item in enumerate(items):
            clone[position] = item
    except TypeError:
        return tuple(items) if isinstance(value, tuple) else items
    return clone


def first_line(error: BaseException) -> str:
    """Returns the first line of the message; torch adds pages of advice."""
    return str(error).partition("\n")[0] or type(error).__name__
