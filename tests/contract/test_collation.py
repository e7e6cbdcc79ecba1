"""The treatment of every kind of sample: torch's default_collate, default_convert and pinning, in threads."""

from __future__ import annotations

import collections
import dataclasses
import decimal
import types
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
import torch.utils.data
from both_loaders import Threads, assert_same, on_both, steps_of
from flat_values import words
from numbered import Made
from torch.utils.data._utils import collate


class Point(NamedTuple):
    position: torch.Tensor
    name: str


class Pair(collections.namedtuple("Pair", ["left", "right"])):
    """A subclass of a namedtuple."""


class Options(dict[str, Any]):
    """A mapping that can be copied and has attributes besides its items."""

    unit = "none"


class Frozen(Mapping[str, Any]):
    """A mapping that can only be constructed."""

    def __init__(self, items: Mapping[str, Any]) -> None:
        self.items_of = dict(items)

    def __getitem__(self, key: str) -> Any:
        return self.items_of[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.items_of)

    def __len__(self) -> int:
        return len(self.items_of)


class TwoArguments(Frozen):
    """A mapping that cannot even be constructed from another one."""

    def __init__(self, first: Any, second: Any) -> None:
        super().__init__({"first": first, "second": second})


class Row(Sequence[Any]):
    """A sequence that can only be constructed."""

    def __init__(self, items: Any) -> None:
        self.items = list(items)

    def __getitem__(self, index: Any) -> Any:
        return self.items[index]

    def __len__(self) -> int:
        return len(self.items)


class RowOfTwo(Row):
    """A sequence that cannot be constructed from a list."""

    def __init__(self, first: Any, second: Any) -> None:
        super().__init__([first, second])


class Column(list[Any]):
    """A list with attributes besides its items."""

    unit = "none"


@dataclasses.dataclass
class Record:
    value: int


# Samples that torch's workers cannot send to the consuming process, and threads need not send.
CANNOT_LEAVE_A_PROCESS = {"tensor that needs a gradient", "mapping proxy"}


def with_unit(value: Any, unit: str) -> Any:
    value.unit = unit
    return value


SAMPLES: dict[str, Callable[[int], Any]] = {
    "tensor": lambda index: torch.arange(3) + index,
    "tensor without dimensions": lambda index: torch.tensor(float(index)),
    "tensor of bfloat16": lambda index: torch.full((2,), index, dtype=torch.bfloat16),
    "tensor with strides": lambda index: torch.arange(6).view(2, 3).t() + index,
    "tensors of two sizes": lambda index: torch.zeros(2 + index % 2),
    "tensors of two types": lambda index: torch.zeros(2, dtype=torch.int32 if index else torch.float64),
    "tensor that needs a gradient": lambda index: torch.full((2,), float(index), requires_grad=True) * 2,
    "parameter": lambda index: torch.nn.Parameter(torch.full((2,), float(index)), requires_grad=False),
    "empty tensor": lambda index: torch.zeros(0, 3),
    "sparse tensor": lambda index: torch.eye(2).to_sparse(),
    "nested tensor": lambda index: torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)]),
    "array": lambda index: np.full((2, 2), index, np.float32),
    "array of int16": lambda index: np.arange(3, dtype=np.int16) * index,
    "array of bool": lambda index: np.array([index > 2, True]),
    "array without dimensions": lambda index: np.array(index),
    "array of text": lambda index: np.array(["a", "b"]),
    "array of bytes": lambda index: np.array([b"a", b"b"]),
    "array of objects": lambda index: np.array([None, index], dtype=object),
    "array with negative strides": lambda index: np.arange(4)[::-1],
    "arrays of two sizes": lambda index: np.zeros(2 + index % 2),
    "numpy float64": lambda index: np.float64(index),
    "numpy float32": lambda index: np.float32(index),
    "numpy int16": lambda index: np.int16(index),
    "numpy bool": lambda index: np.bool_(index % 2),
    "numpy text": lambda index: np.str_(index),
    "numpy date": lambda index: np.datetime64("2020-01-01"),
    "float": lambda index: index / 3,
    "int": lambda index: index,
    "bool": lambda index: index % 2 == 0,
    "int beyond 64 bits": lambda index: 1 << 70,
    "float and int": lambda index: float(index) if index == 0 else index,
    "int and float": lambda index: float(index) if index else index,
    "text": lambda index: f"sample {index}",
    "bytes": lambda index: bytes([index]),
    "dict": lambda index: {"a": index, "b": [index, {"c": torch.tensor(index)}]},
    "dict with more keys later": lambda index: {"a": index, **({"late": 1} if index else {})},
    "dict with a key missing later": lambda index: {"a": index} if index else {"a": 0, "first": 1},
    "dict in another order later": lambda index: dict([("a", 1), ("b", 2)][:: 1 if index else -1]),
    "OrderedDict": lambda index: collections.OrderedDict(b=index, a=index),
    "defaultdict": lambda index: collections.defaultdict(list, a=index),
    "Counter": lambda index: collections.Counter("aab"),
    "dict of one's own": lambda index: with_unit(Options(a=index), f"unit {index}"),
    "mapping proxy": lambda index: types.MappingProxyType({"a": index}),
    "mapping that is constructed": lambda index: Frozen({"a": index}),
    "mapping that is not": lambda index: TwoArguments(index, str(index)),
    "namedtuple": lambda index: Point(torch.tensor([index]), "here"),
    "subclass of a namedtuple": lambda index: Pair(index, [index]),
    "tuple": lambda index: (index, str(index), (float(index),)),
    "empty tuple": lambda index: (),
    "list": lambda index: [index, [index, index]],
    "list of one's own": lambda index: with_unit(Column([index, index]), f"unit {index}"),
    "sequence that is constructed": lambda index: Row([index, float(index)]),
    "sequence that is not": lambda index: RowOfTwo(index, index),
    "range": lambda index: range(index, index + 3),
    "ragged lists": lambda index: [0] * (1 + index % 3),
    "ragged within": lambda index: {"a": ([0] * (1 + index), 1)},
    "list and tuple": lambda index: [index, 1] if index == 0 else (index, 1),
    "None": lambda index: None,
    "None later": lambda index: None if index else 0,
    "None within": lambda index: {"a": (1, None)},
    "set": lambda index: {index},
    "dataclass": lambda index: Record(index),
    "complex": lambda index: complex(index, 1),
    "decimal": lambda index: decimal.Decimal(index),
    "function": lambda index: len,
    "object": lambda index: object,
    "bytearray": lambda index: bytearray([index, 1]),
    "deque": lambda index: collections.deque([index, 1]),
}


def described(value: Any) -> Any:
    """Returns types, bytes and other attributes of a container, so that == compares everything."""
    if isinstance(value, torch.Tensor):
        bits = value.detach().contiguous().view(torch.uint8) if value.dim() else value.detach().reshape(1)
        return type(value), value.dtype, tuple(value.shape), value.stride(), value.requires_grad, bits.tolist()
    if isinstance(value, np.ndarray):
        return type(value), value.dtype, value.shape, value.tolist()
    if isinstance(value, Pinnable):
        return type(value), value.is_pinned, value.value
    if isinstance(value, Mapping):
        return type(value), getattr(value, "unit", None), [(key, described(value[key])) for key in value]
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        return type(value), getattr(value, "unit", None), [described(item) for item in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return type(value), dataclasses.astuple(value)
    return type(value), value


def ends(loader: Any) -> list[Any]:
    """Returns each step of an epoch: the batch, or the type and the words of the error."""
    return steps_of(loader, described, words)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors", "ignore:.*[Ss]parse")
@pytest.mark.parametrize(
    ("arguments", "num_workers"),
    [
        ({"batch_size": 2}, 0),
        ({"batch_size": 2}, 1),
        ({"batch_size": None}, 0),
        pytest.param({"batch_size": None}, 1, marks=pytest.mark.slow),
    ],
)
def test_every_kind_of_sample_becomes_what_torch_makes_of_it(arguments: dict[str, Any], num_workers: int) -> None:
    failed: list[str] = []
    for name, make in SAMPLES.items():
        if num_workers and name in CANNOT_LEAVE_A_PROCESS:
            continue
        theirs, mine = on_both(lambda kind, make=make: ends(kind(Made(make, 5), num_workers=num_workers, **arguments)))
        if mine != theirs:
            failed.append(f"{name}: {mine} is not {theirs}")
    assert failed == []


MIXED = {
    "float16 then float32": [torch.ones(2, dtype=torch.float16), torch.full((2,), 0.1)],
    "float32 then float16": [torch.full((2,), 0.1), torch.ones(2, dtype=torch.float16)],
    "uint8 then int64": [torch.ones(2, dtype=torch.uint8), torch.full((2,), 3000)],
    "uint8 then float32": [torch.ones(2, dtype=torch.uint8), torch.full((2,), 1.5)],
    "bool then int64": [torch.ones(2, dtype=torch.bool), torch.full((2,), 3000)],
    "arrays": [np.ones(2, np.float16), np.full(2, 0.1)],
}


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("name", MIXED)
def test_mixed_dtypes_become_what_torchs_workers_make_of_them(name: str, num_workers: int) -> None:
    samples = MIXED[name]
    assert_same(lambda kind: ends(kind(samples * 2, batch_size=2, num_workers=num_workers)))


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("mapping proxy", {"batch_size": 2}),
        ("mapping proxy", {"batch_size": None}),
        ("tensor that needs a gradient", {"batch_size": None}),
    ],
)
def test_what_workers_cannot_send_comes_from_threads_as_without_workers(name: str, arguments: dict[str, Any]) -> None:
    """The batch that torch's worker cannot send is the one that torch makes without workers."""
    dataset = Made(SAMPLES[name], 5)
    alone = ends(torch.utils.data.DataLoader(dataset, **arguments))
    assert ends(Threads(dataset, num_workers=2, **arguments)) == alone


def test_tensors_that_need_a_gradient_are_not_stacked_by_workers() -> None:
    dataset = Made(SAMPLES["tensor that needs a gradient"], 5)
    mine = assert_same(lambda kind: ends(kind(dataset, batch_size=2, num_workers=1)))
    assert mine[0][0] == "RuntimeError"


# ---- the registry of collate functions -----------------------------------------------------------------------------


def collate_records(batch: list[Record], *, collate_fn_map: Any = None) -> torch.Tensor:
    return torch.tensor([record.value for record in batch])


def collate_reversed(batch: list[Any], *, collate_fn_map: Any = None) -> list[Any]:
    return list(batch)[::-1]


@pytest.mark.parametrize("num_workers", [0, 1])
@pytest.mark.parametrize(
    ("kind_of_element", "function", "name"),
    [
        (Record, collate_records, "dataclass"),
        (torch.Tensor, collate_reversed, "tensor"),
        (str, collate_reversed, "dict"),
        ((set, frozenset), collate_reversed, "set"),
        (tuple, collate_reversed, "namedtuple"),
        (int, collate_reversed, "bool"),
    ],
)
def test_functions_in_the_registry_are_called(
    kind_of_element: Any, function: Any, name: str, num_workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = ends(torch.utils.data.DataLoader(Made(SAMPLES[name], 5), batch_size=3))
    monkeypatch.setitem(collate.default_collate_fn_map, kind_of_element, function)
    mine = assert_same(lambda kind: ends(kind(Made(SAMPLES[name], 5), batch_size=3, num_workers=num_workers)))
    assert mine != before or name == "dict"


# ---- pinning, on a simulated accelerator -----------------------------------------------------------------------------


class Pinnable:
    def __init__(self, value: Any) -> None:
        self.value = value
        self.is_pinned = False

    def pin_memory(self) -> Pinnable:
        pinned = Pinnable(self.value)
        pinned.is_pinned = True
        return pinned


class PinningFails(Pinnable):
    def pin_memory(self) -> Pinnable:
        raise ZeroDivisionError("no memory to lock")


@pytest.fixture
def accelerator(monkeypatch: pytest.MonkeyPatch, believed_accelerator: None) -> None:
    """Makes torch believe in a device; pinning a tensor adds a thousand."""
    monkeypatch.setattr(torch.accelerator, "set_device_index", lambda index: None)
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor, *device: tensor + 1000)


PINNED: dict[str, Callable[[list[Any]], Any]] = {
    "a tensor": lambda samples: torch.tensor(samples),
    "a dict": lambda samples: {"a": torch.tensor(samples), "b": "text", "c": b"bytes", "d": 3},
    "a dict of one's own": lambda samples: with_unit(Options(a=torch.tensor(samples)), "kept"),
    "a mapping that is constructed": lambda samples: Frozen({"a": torch.tensor(samples)}),
    "a mapping that is not": lambda samples: TwoArguments(torch.tensor(samples), 1),
    "a tuple": lambda samples: (torch.tensor(samples), [torch.tensor(samples)]),
    "a namedtuple": lambda samples: Point(torch.tensor(samples), "name"),
    "a list of one's own": lambda samples: with_unit(Column([torch.tensor(samples)]), "kept"),
    "a sequence that is constructed": lambda samples: Row([torch.tensor(samples)]),
    "a sequence that is not": lambda samples: RowOfTwo(torch.tensor(samples), 1),
    "unknown objects": lambda samples: [None, Record(1), 2.5, {3}],
    "an object that pins itself": lambda samples: Pinnable(samples),
    "objects that pin themselves": lambda samples: {"a": [Pinnable(samples), torch.tensor(samples)]},
    "an object that cannot": lambda samples: PinningFails(samples) if 2 in samples else torch.tensor(samples),
}


@pytest.mark.usefixtures("accelerator")
@pytest.mark.parametrize("num_workers", [0, 1])
@pytest.mark.parametrize("name", PINNED)
def test_batches_are_pinned_as_torch_pins_them(name: str, num_workers: int) -> None:
    def run(kind: Any) -> list[Any]:
        loader = kind(list(range(5)), 2, collate_fn=PINNED[name], num_workers=num_workers, pin_memory=True)
        # The first line of an error names the thread that pins.
        return steps_of(loader, described, lambda error: words(error)[2])

    mine = assert_same(run)
    assert len(mine) == 3


@pytest.mark.usefixtures("accelerator")
@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("is_pinned", [False, True])
def test_images_that_python_ends_are_pinned_where_that_is_asked_for(
    images_with_python_part: Any, num_workers: int, is_pinned: bool
) -> None:
    def run(kind: Any) -> list[Any]:
        loader = kind(images_with_python_part, 4, num_workers=num_workers, pin_memory=is_pinned)
        return [described(batch) for batch in loader]

    assert_same(run)


@pytest.mark.usefixtures("accelerator")
def test_a_device_for_pinning_is_deprecated_in_torchs_words() -> None:
    def run(kind: Any) -> list[str]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            list(kind([1, 2], pin_memory=True, pin_memory_device="cuda", num_workers=1))
        return [str(warning.message) for warning in caught if "pin_memory" in str(warning.message)]

    assert_same(run)


def test_mps_is_not_pinned_for(monkeypatch: pytest.MonkeyPatch, accelerator: None) -> None:
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device("mps"))

    def run(kind: Any) -> Any:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = [described(batch) for batch in kind([1, 2], pin_memory=True)]
        return found, [str(warning.message) for warning in caught if "pin" in str(warning.message)]

    assert_same(run)
