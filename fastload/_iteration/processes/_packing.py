"""Batches as messages: a pickle, and the memory of tensors and arrays apart from it.

Note [parts]
The span of a storage that a batch's tensors use is sent once; strides stay, and tensors that share memory share it
again at the other end. Tensors that torch has to send in another way go by torch's own reductions: they are in shared
memory already, on another device, not strided, of a class of their own, or need gradients.
"""

from __future__ import annotations

import io
import pickle
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from multiprocessing.reduction import ForkingPickler
from typing import Any, NamedTuple

import torch
import torch.multiprocessing  # registers torch's reductions

# Spans of several tensors begin at multiples of this, the size of the largest element.
_ALIGNMENT = 16


class Part(NamedTuple):
    """Memory of the sending process that is sent apart from the pickle, and the object that keeps it alive.

    Attributes:
        is_of_one: Whether one tensor alone uses it, from its first byte to its last.
    """

    address: int
    nbytes: int
    owner: Any
    is_of_one: bool = False


@dataclass
class _Span:
    """The bytes of a storage that the tensors of a batch use, and the number of the part that they become."""

    number: int
    storage: torch.UntypedStorage
    begin: int
    end: int
    is_of_one: bool = True

    def add(self, begin: int, end: int) -> None:
        self.begin, self.end = min(self.begin, begin), max(self.end, end)
        self.is_of_one = False


@dataclass
class Packed:
    """A value as it is sent: a pickle, the memory beside it, and where each part begins in its storage, in bytes."""

    data: bytes = b""
    begins: list[int] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)


class _Pickler(ForkingPickler):
    def __init__(self, file: Any) -> None:
        super().__init__(file)  # the default protocol, as torch: others keep NumPy's arrays read-only
        self.spans: dict[int, _Span] = {}  # by the storage's implementation

    def reducer_override(self, thing: Any) -> Any:
        kind = type(thing)
        if kind is torch.Tensor and _is_plain(thing):
            return _tensor_of, (self._number_of(thing), thing.dtype, _first_byte(thing), thing.size(), thing.stride())
        return NotImplemented

    def _number_of(self, tensor: torch.Tensor) -> int:
        storage = tensor.untyped_storage()
        begin, end = _bytes_used(tensor)
        span = self.spans.get(storage._cdata)
        if span is None:
            span = self.spans[storage._cdata] = _Span(len(self.spans), storage, begin, end)
        else:
            span.add(begin, end)
        return span.number


def pack(value: Any) -> Packed:
    """Returns `value` as it is sent. Raises what pickling it raises."""
    file = io.BytesIO()
    pickler = _Pickler(file)
    pickler.dump(value)
    packed = Packed(file.getvalue())
    for span in pickler.spans.values():
        begin = span.begin if span.is_of_one else span.begin - span.begin % _ALIGNMENT
        packed.begins.append(begin)
        packed.parts.append(Part(span.storage.data_ptr() + begin, span.end - begin, span.storage, span.is_of_one))
    return packed


def unpack(data: Any, begins: Sequence[int], memory: Sequence[torch.UntypedStorage]) -> Any:
    """Returns the value of the pickle that `data` begins with. Its tensors keep `memory`, one storage a part.

    `begins` is Packed.begins.
    """
    outer = _this_thread.parts
    _this_thread.parts = begins, memory
    try:
        return pickle.loads(data)
    finally:
        _this_thread.parts = outer


def bytes_of(storage: torch.UntypedStorage) -> Any:
    """Returns the bytes of a storage, as an array."""
    return torch.empty(0, dtype=torch.uint8).set_(storage).numpy()


class _ThisThread(threading.local):
    parts: tuple[Sequence[int], Sequence[torch.UntypedStorage]] = (), ()


_this_thread = _ThisThread()


def _tensor_of(
    number: int, dtype: torch.dtype, first_byte: int, size: Sequence[int], stride: Sequence[int]
) -> torch.Tensor:
    begins, memory = _this_thread.parts
    tensor = torch.empty(0, dtype=dtype, device="cpu")
    offset = (first_byte - begins[number]) // dtype.itemsize
    return tensor.set_(memory[number], offset, size, stride)


def _is_plain(tensor: torch.Tensor) -> bool:
    return (
        tensor.layout is torch.strided
        and tensor.device.type == "cpu"
        and not tensor.requires_grad
        and not (tensor.is_quantized or tensor.is_conj() or tensor.is_neg() or tensor.is_nested)
        and not vars(tensor)
        and not tensor.is_shared()  # type: ignore[no-untyped-call]
    )


def _first_byte(tensor: torch.Tensor) -> int:
    return int(tensor.storage_offset()) * tensor.element_size()


def _bytes_used(tensor: torch.Tensor) -> tuple[int, int]:
    """Returns the position of the tensor's first byte in its storage, and of the one after its last."""
    begin = _first_byte(tensor)
    if tensor.numel() == 0:
        return begin, begin
    last = sum((size - 1) * stride for size, stride in zip(tensor.size(), tensor.stride(), strict=True))
    return begin, begin + (int(last) + 1) * tensor.element_size()
