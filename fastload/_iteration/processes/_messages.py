"""The messages between a loader's process and its workers' processes."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from fastload import _native
from fastload._decode_cache._worker_cache import CacheReport
from fastload._delivery._hand_over import Pinning
from fastload._errors import StateError
from fastload._iteration.processes._arenas import SlotMemory, Span, storage_of, storage_of_bytes
from fastload._iteration.processes._packing import Packed, Part, bytes_of, pack, unpack
from fastload._iteration.processes._snapshots import SnapshotMessage
from fastload._process._forked_cuda import is_of_forked_cuda
from fastload._quarantine._failure import Account
from fastload._workers._collate_memory import CollateMemory
from fastload._workers._worker_error import WorkerFailure, worded


class Payload(NamedTuple):
    """A batch, or the error that came instead, as it is sent.

    Attributes:
        is_error: Whether it is an error.
        data: The pickle, and the parts that are sent with it.
        begins: The position of each part's first byte in its storage.
        parts: Where each part lies.
        is_of_forked_cuda: Whether the error is torch's about CUDA in a forked process.
    """

    is_error: bool
    data: bytearray | Span
    begins: list[int]
    parts: list[Span]
    is_of_forked_cuda: bool = False

    @property
    def is_in_slot(self) -> bool:
        """Whether a part of it lies in the worker's arena."""
        return isinstance(self.data, Span) or any(part.slot is not None for part in self.parts)


class WorkerReport(NamedTuple):
    """Everything that a worker says of itself since its last message; `counters` has the names in LoaderStats."""

    counters: dict[str, Any]
    cache: CacheReport
    warnings: list[str]


class Begun(NamedTuple):
    """A worker has begun an epoch.

    Attributes:
        epoch: Number of the iterator's epoch.
        snapshot: The worker's position then; None: no batch depends on others, or there will be none.
        error: The reason why it could not continue at its resume point.
        is_stateful: Whether data set or stream has a state of its own.
    """

    epoch: int
    snapshot: SnapshotMessage | None
    error: StateError | None
    is_stateful: bool
    report: WorkerReport


class Answer(NamedTuple):
    """A worker's answer to a request.

    Attributes:
        key: Number of the request.
        payload: The batch or error; None at the end of a stream.
        account: The account of the batch's bad samples.
        snapshot: The worker's position after it, if a state may begin there.
    """

    key: int
    payload: Payload | None
    is_end_of_stream: bool
    account: Account | None
    snapshot: SnapshotMessage | None
    report: WorkerReport


class Ended(NamedTuple):
    """A worker has ended as it was told."""

    report: WorkerReport


class Lost(NamedTuple):
    """A worker's process ends because of an exception, `reason`."""

    reason: str


def packed_batch(batch: Any, where: str, memory: SlotMemory) -> Payload:
    """Returns a batch as it is sent, or the error that it cannot be; `where` names the worker."""
    try:
        packed = pack(batch)
    except Exception as error:  # noqa: BLE001 - any code of the user's; the error goes instead of the batch
        path, kind = _unpicklable_in(batch, "batch")
        note = RuntimeError(
            f"the batch cannot be sent from its worker process: {path} is a {kind}, which cannot be pickled "
            f'({type(error).__name__}: {error}). Return what can be pickled, or pass workers="threads"'
        )
        note.__cause__ = error
        return packed_failure(WorkerFailure.of(note, where), memory)
    return _with_data_in_slot(_payload(packed, memory.placed, is_error=False), memory)


def _payload(packed: Packed, place: Callable[[Part], Span | None], *, is_error: bool) -> Payload:
    """Returns a payload with its data in the message. `place` brings a part into the arena, or returns None."""
    data, parts = bytearray(packed.data), list[Span]()
    for part in packed.parts:
        span = place(part)
        parts.append(Span(None, len(data), part.nbytes) if span is None else span)
        if span is None:
            data += ctypes.string_at(part.address, part.nbytes)
    return Payload(is_error, data, packed.begins, parts)


def _with_data_in_slot(payload: Payload, memory: SlotMemory) -> Payload:
    """Returns the payload as a short message: the rest of a long one waits until the worker's next sample is made."""
    assert isinstance(payload.data, bytearray), "it is in the message until now"
    data = np.frombuffer(payload.data, np.uint8)
    span = memory.placed(Part(data.ctypes.data, data.nbytes, data))
    return payload if span is None else payload._replace(data=span)


def packed_failure(failure: WorkerFailure, memory: SlotMemory) -> Payload:
    """Returns an error as it is sent: torch's words, and the error and its attributes as far as they can be pickled."""
    is_of_cuda = is_of_forked_cuda(failure.error)
    if is_of_cuda and failure.words is not None:
        failure.words.exc_msg += 'Threads of this process can use CUDA: pass workers="threads"'
    return _with_data_in_slot(_packed(failure)._replace(is_of_forked_cuda=is_of_cuda), memory)


def _packed(failure: WorkerFailure) -> Payload:
    if failure.words is None:
        parts: list[Any] = [failure.error]
        if (payload := _tried(parts)) is not None:
            return payload
        failure = WorkerFailure.of(RuntimeError(str(failure.error)), "in a DataLoader worker process")
    words = failure.words
    if _tried([words.exc_type]) is None:
        words.exc_type = RuntimeError  # the text has the type's name
    for parts in ([words, failure.error, vars(failure.error)], [words, None, vars(failure.error)], [words, None, {}]):
        if (payload := _tried(parts)) is not None:
            return payload
    raise AssertionError("torch's words can be pickled")


def _tried(parts: list[Any]) -> Payload | None:
    try:
        packed = pack(parts)
        if not packed.parts:
            unpack(packed.data, (), ())  # some exceptions can be pickled and not unpickled
    except Exception:  # noqa: BLE001 - any code of the user's
        return None
    return _payload(packed, lambda part: None, is_error=True)


def opened(payload: Payload, arena: _native.Arena | None, memory: CollateMemory, pinning: Pinning | None) -> Any:
    """Returns the batch of a payload, copied out of its worker's arena. Raises the error that came instead.

    The copies lie in `memory`, or for `pinning` in page-locked memory.
    """
    data: Any = payload.data
    if isinstance(data, Span):
        data = bytes_of(storage_of(data, len(payload.parts), arena, memory, None))
    storages = [
        storage_of_bytes(memoryview(data)[part.offset : part.offset + part.nbytes])
        if part.slot is None
        else storage_of(part, number, arena, memory, pinning)
        for number, part in enumerate(payload.parts)
    ]
    value = unpack(data, payload.begins, storages)
    if not payload.is_error:
        return value
    raise value.pop() if len(value) == 1 else worded(*value)


def _unpicklable_in(value: Any, path: str) -> tuple[str, str]:
    """Returns the path of the innermost part of a batch that cannot be pickled, and the name of its type."""
    parts: list[tuple[str, Any]] = []
    if isinstance(value, dict):
        parts = [(f"{path}[{key!r}]", each) for key, each in value.items()]
    elif isinstance(value, (list, tuple)):
        parts = [(f"{path}[{number}]", each) for number, each in enumerate(value)]
    for where, part in parts:
        try:
            pack(part)
        except Exception:  # noqa: BLE001 - any code of the user's
            return _unpicklable_in(part, where)
    return path, type(value).__qualname__
