"""Batches taken apart into samples, samples into named values, and values compared bit by bit."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

# The place of a value in a sample: keys and positions from the outside in, for example (0,) or ("image",).
Where = tuple[Any, ...]
Sample = dict[Where, Any]

_LABEL_NAMES = {"label", "labels", "target", "targets", "y", "class", "classes"}


@dataclasses.dataclass(frozen=True)
class ValueDifference:
    """How two values differ: in type, shape, dtype or device, as `structure` says, or else in elements.

    `max_abs` is the largest difference of two elements, at `index`: inf if one is not a number, None if it has no
    meaning. If the structure differs, all bytes of the longer value do.
    """

    differing_bytes: int
    max_abs: float | None = None
    structure: str | None = None
    index: tuple[int, ...] | None = None


def split_batch(batch: Any, num_samples: int | None) -> list[Sample] | None:
    """Splits a collated batch into its samples; None if it is unclear which part belongs to which sample.

    The batch is nested lists, tuples and mappings of columns: tensors and arrays whose first dimension counts the
    samples, and below the top level also lists with an entry per sample. By default there are as many samples as the
    first tensor has rows.
    """
    if num_samples is None:
        num_samples = _first_length(batch)
    columns: dict[Where, Sequence[Any]] = {}
    if num_samples is None or not _collect_columns(batch, num_samples, (), columns):
        return None
    return [{where: column[position] for where, column in columns.items()} for position in range(num_samples)]


def fields(batch: Any) -> Sample:
    """Returns `batch` as one sample: its entries if it is a list, tuple or mapping."""
    parts = parts_of(batch)
    return {(): batch} if parts is None else {(key,): part for key, part in parts}


def parts_of(value: Any) -> list[tuple[Any, Any]] | None:
    """Returns (key or position, part) for each part of a mapping, list or tuple; None for anything else."""
    if isinstance(value, Mapping):
        return list(value.items())
    return list(enumerate(value)) if isinstance(value, (list, tuple)) else None


def fingerprint(value: Any) -> bytes:
    """Returns a digest that is equal for equal values; other objects than tensors and containers count by repr."""
    digest = hashlib.sha1()
    _update(digest, value)
    return digest.digest()


def _update(digest: Any, value: Any) -> None:
    if isinstance(value, torch.Tensor) and value.is_nested:
        value = value.unbind()
    if isinstance(value, torch.Tensor):
        digest.update(_tensor_name(value).encode())
        digest.update(_raw_bytes(_plain(value)).numpy().tobytes())
    elif isinstance(value, np.ndarray) and value.dtype != object:
        digest.update(f"{value.dtype} {value.shape}".encode())
        digest.update(value.tobytes())
    elif (parts := parts_of(value)) is not None:
        digest.update(f"{_type_name(value)} {len(parts)}".encode())
        for key, part in parts:
            digest.update(repr(key).encode())
            _update(digest, part)
    else:
        digest.update(repr(value).encode())


def _first_length(batch: Any) -> int | None:
    if isinstance(batch, (torch.Tensor, np.ndarray)):
        return len(batch) if _is_sliceable(batch) else None
    parts = parts_of(batch) or []
    return next((length for _, part in parts if (length := _first_length(part)) is not None), None)


def _collect_columns(part: Any, length: int, where: Where, columns: dict[Where, Sequence[Any]]) -> bool:
    """Adds the columns of `part` to `columns`. Returns whether all of it is columns of `length` entries."""
    is_list = isinstance(part, (list, tuple)) and len(part) == length
    if (
        _is_column(part, length)
        or (is_list and where and not all(_is_column(inner, length) for inner in part))
        or (is_list and part and all(isinstance(inner, (str, bytes)) for inner in part))
    ):
        columns[where] = part
        return True
    parts = parts_of(part)
    return parts is not None and all(_collect_columns(inner, length, (*where, key), columns) for key, inner in parts)


def _is_column(part: Any, length: int) -> bool:
    return isinstance(part, (torch.Tensor, np.ndarray)) and _is_sliceable(part) and len(part) == length


def _is_sliceable(part: Any) -> bool:
    return bool(part.ndim) and not getattr(part, "is_nested", False)


def is_label(where: Where, sample: Sample) -> bool:
    """Returns whether a value is a label by its place: the second of two, or one with a label's name."""
    if not where:
        return False
    if isinstance(where[0], str):
        return where[0].lower() in _LABEL_NAMES
    return where[0] == 1 and {place[0] for place in sample} == {0, 1}


def structure_difference(old: Any, new: Any) -> str | None:
    """Describes the first difference in the containers of two batches; None if there is none."""
    if (unlike := _unlike_kinds(old, new)) is not None:
        return unlike
    pairs = zip(parts_of(old) or [], parts_of(new) or [], strict=True)
    return next((f"in [{key!r}]: {found}" for (key, a), (_, b) in pairs if (found := structure_difference(a, b))), None)


def _unlike_kinds(old: Any, new: Any) -> str | None:
    """Describes how type, keys or length of two values differ; None if they do not."""
    if type(old) is not type(new):
        return f"{_type_name(old)} against {_type_name(new)}"
    if isinstance(old, Mapping) and list(old) != list(new):
        return f"keys {list(old)} against {list(new)}"
    if isinstance(old, (list, tuple)) and len(old) != len(new):
        return f"{_type_name(old)} of {len(old)} against {len(new)}"
    return None


def count_bytes(value: Any) -> int:
    """Counts the bytes of all tensors, arrays, strings and numbers in `value`."""
    if isinstance(value, torch.Tensor):
        return value.numel() * value.element_size()
    if isinstance(value, np.ndarray):
        return value.nbytes
    if (parts := parts_of(value)) is not None:
        return sum(count_bytes(part) for _, part in parts)
    return len(value) if isinstance(value, (str, bytes)) else 8


def difference(old: Any, new: Any) -> ValueDifference | None:
    """Compares `old` and `new` bit by bit; None if they are equal. NaN equals NaN of the same bits; 0.0 is not -0.0."""
    if (unlike := _unlike_kinds(old, new)) is not None:
        return _unlike(old, new, unlike)
    if isinstance(old, torch.Tensor):
        return _tensor_difference(old, new)
    if isinstance(old, np.ndarray):
        return _array_difference(old, new)
    if (parts := parts_of(old)) is not None:
        return _combined(difference(a, b) for (_, a), (_, b) in zip(parts, parts_of(new) or [], strict=True))
    return _object_difference(old, new)


def _combined(differences: Iterable[ValueDifference | None]) -> ValueDifference | None:
    """Combines the differences of the parts of a whole: the sum of the bytes, structure and place of the worst part."""
    found = [entry for entry in differences if entry is not None]
    if not found:
        return None
    worst = max(found, key=lambda entry: (entry.structure is not None, entry.max_abs or 0.0))
    return dataclasses.replace(worst, differing_bytes=sum(entry.differing_bytes for entry in found))


def _unlike(old: Any, new: Any, structure: str) -> ValueDifference:
    return ValueDifference(max(count_bytes(old), count_bytes(new)), None, structure)


def _tensor_difference(old: torch.Tensor, new: torch.Tensor) -> ValueDifference | None:
    if old.is_nested or new.is_nested:
        return difference(*(part.unbind() if part.is_nested else [part] for part in (old, new)))
    if old.shape != new.shape or old.dtype != new.dtype or old.device.type != new.device.type:
        return _unlike(old, new, f"{_tensor_name(old)} against {_tensor_name(new)}")
    left, right = _plain(old), _plain(new)
    bits = _raw_bytes(left), _raw_bytes(right)
    if torch.equal(*bits):
        return None
    unequal = bits[0] != bits[1]
    differing_bytes = int(unequal.sum())
    if left.is_complex():
        return ValueDifference(differing_bytes, float((left - right).abs().max()))
    gap = (left.double() - right.double()).abs().nan_to_num(nan=float("inf"), posinf=float("inf"))
    gap = torch.where(left == right, 0.0, gap).reshape(-1)
    # 0.0 and -0.0, and NaN of different bits, differ in bytes only.
    position = int((gap if bool(gap.any()) else unequal.view(left.numel(), -1).any(dim=1).int()).argmax())
    index = tuple(int(part) for part in np.unravel_index(position, left.shape)) if left.ndim else ()
    return ValueDifference(differing_bytes, float(gap[position]), None, index)


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    """Returns the dense values of `tensor` on the CPU, as an ordinary tensor."""
    dense = tensor.detach().to_dense() if tensor.layout is not torch.strided else tensor.detach()
    return (dense.dequantize() if dense.is_quantized else dense).cpu().as_subclass(torch.Tensor)


def _raw_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """Returns the elements of a CPU tensor, in the order of its dimensions whatever its strides, as uint8 [bytes]."""
    return tensor.contiguous().reshape(-1).view(torch.uint8)


def _array_difference(old: Any, new: Any) -> ValueDifference | None:
    if old.shape != new.shape or old.dtype != new.dtype:
        return _unlike(old, new, f"{old.dtype} {list(old.shape)} against {new.dtype} {list(new.shape)}")
    try:
        # Copies: an array may be read-only, or have strides that a tensor cannot have.
        return _tensor_difference(torch.from_numpy(np.array(old)), torch.from_numpy(np.array(new)))
    except TypeError:  # strings and objects are no tensors
        is_same = old.tobytes() == new.tobytes() if old.dtype != object else bool(np.array_equal(old, new))
        return None if is_same else ValueDifference(int(old.nbytes))


def _object_difference(old: Any, new: Any) -> ValueDifference | None:
    if old is new:
        return None
    if all(hasattr(old, name) for name in ("tobytes", "size", "mode")):  # a PIL image
        if (old.mode, old.size) != (new.mode, new.size):
            return _unlike(old, new, f"{old.mode} {old.size} against {new.mode} {new.size}")
        return _array_difference(np.asarray(old), np.asarray(new))
    kind: Any = type(old)
    if not isinstance(old, type) and (dataclasses.is_dataclass(old) or kind.__eq__ is object.__eq__):
        return _state_difference(old, new)
    if isinstance(old, float) and isinstance(new, float):
        return _array_difference(np.float64(old).reshape(1), np.float64(new).reshape(1))
    try:
        is_same = bool(old == new)
    except Exception:  # noqa: BLE001 - values that cannot be compared are not known to be equal
        is_same = False
    if is_same:
        return None
    gap = float(abs(old - new)) if isinstance(old, int) and isinstance(new, int) else None
    return ValueDifference(count_bytes(old), gap)


def _state_difference(old: Any, new: Any) -> ValueDifference | None:
    """Compares what would be pickled: attributes, slots and the contents of built-in types."""
    try:
        states = [value.__reduce_ex__(2)[1:] for value in (old, new)]
    except Exception:  # noqa: BLE001 - objects without a state to compare are not known to be equal
        return ValueDifference(count_bytes(old), None, f"{_type_name(old)} cannot be compared")
    # The last two, if there are any, are iterators over items.
    return difference(*[[*state[:2], *map(list, filter(None, state[2:]))] for state in states])


def _tensor_name(tensor: torch.Tensor) -> str:
    place = "" if tensor.device.type == "cpu" else f" on {tensor.device}"
    return f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}{place}"


def _type_name(value: object) -> str:
    return type(value).__qualname__
