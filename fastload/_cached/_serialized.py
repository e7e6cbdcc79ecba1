"""Samples as bytes.

Note [plain samples]
torch.save() writes pickles, and torch.load(weights_only=True) reads only tensors, numbers, texts and containers from
them: it runs no code from a file that another user has written. It does not know arrays, bytes, complex numbers and
sets, and its other types depend on torch's version. So a sample is described in types that all versions know: anything
but a tensor, number or text is a list, [name of its type, its parts].
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
import torch

from fastload._cached._copies import compact, on

SerializerName = Literal["torch", "pickle"]
_LEAVES = frozenset({type(None), bool, int, float, str})
_SEQUENCES: dict[str, Callable[[Any], Any]] = {kind.__name__: kind for kind in (list, tuple, set, frozenset)}


class Serializer(NamedTuple):
    """A conversion of samples to bytes and back. `load` takes the device for the tensors; None: where they were.

    `dump` raises TypeError for a sample with something that this serializer does not write.
    """

    dump: Callable[[Any], bytes]
    load: Callable[[bytes, torch.device | None], Any]


def _dump_plain(sample: Any) -> bytes:
    return _saved(_described(sample, "the sample"))


def _load_plain(data: bytes, to: torch.device | None) -> Any:
    # The tensors that represent arrays have to stay on the host.
    place = None if to is None else "cpu"
    return on(_rebuilt(torch.load(io.BytesIO(data), map_location=place, weights_only=True)), to)


def _dump_pickle(sample: Any) -> bytes:
    try:
        return _saved(compact(sample) if type(sample) is torch.Tensor else sample)
    except MemoryError:
        raise
    except Exception as error:
        raise TypeError(
            f"the sample, a {type(sample).__qualname__}, does not pickle ({type(error).__name__}: {error}). Let "
            "the data set return something else, or pass path=None to keep samples in memory"
        ) from error


def _load_pickle(data: bytes, to: torch.device | None) -> Any:
    return torch.load(io.BytesIO(data), map_location=to, weights_only=False)


def _saved(value: Any) -> bytes:
    file = io.BytesIO()
    torch.save(value, file)
    return file.getvalue()


def _described(value: Any, where: str) -> Any:
    kind = type(value)
    if kind in _LEAVES:
        return value
    if kind is torch.Tensor:
        return compact(value)
    if kind in _SEQUENCES.values():
        return [kind.__name__, [_described(item, f"{where}[{at}]") for at, item in enumerate(value)]]
    if kind is dict:
        return ["dict", [_described(part, f"{where}[{key!r}]") for key, item in value.items() for part in (key, item)]]
    if kind is bytes:
        return ["bytes", _as_tensor(value)]
    if kind is complex:
        return ["complex", [value.real, value.imag]]
    if (kind is np.ndarray or isinstance(value, np.generic)) and not value.dtype.hasobject:
        return ["array" if kind is np.ndarray else "number", _as_tensor(_npy(np.asanyarray(value)))]
    raise TypeError(
        f"{where} is a {kind.__module__}.{kind.__qualname__}, and serializer='torch' keeps tensors, arrays, numbers, "
        "texts, bytes, None, and lists, tuples, dicts and sets of these. Return these from the data set, or pass "
        "serializer='pickle', which keeps anything that pickles; reading a file of pickles runs its writer's code"
    )


def _rebuilt(value: Any) -> Any:
    if type(value) is not list:
        return value
    name, content = value
    if name in _SEQUENCES:
        return _SEQUENCES[name](map(_rebuilt, content))
    if name == "dict":
        parts = iter(map(_rebuilt, content))
        return dict(zip(parts, parts, strict=True))
    if name == "bytes":
        return content.numpy().tobytes()
    if name == "complex":
        return complex(*content)
    array = np.load(io.BytesIO(content.numpy()), allow_pickle=False)
    return array[()] if name == "number" else array


def _as_tensor(data: bytes) -> torch.Tensor:
    return torch.frombuffer(bytearray(data), dtype=torch.uint8) if data else torch.empty(0, dtype=torch.uint8)


def _npy(array: np.ndarray[Any, Any]) -> bytes:
    """Returns the array as NumPy writes it to a file, with its type, shape and order."""
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    return file.getvalue()


SERIALIZERS = {"torch": Serializer(_dump_plain, _load_plain), "pickle": Serializer(_dump_pickle, _load_pickle)}
