"""Every argument with invalid values: torch's error, or one that names argument and value."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
import torch.utils.data
from image_folders import make_clean_folder
from torchvision import transforms as T
from torchvision.datasets import ImageFolder

import fastload

_ODD: dict[str, Any] = {
    "-1": -1,
    "0": 0,
    "2.0": 2.0,
    "2.5": 2.5,
    "True": True,
    "False": False,
    "int64": np.int64(3),
    "float64": np.float64(2),
    "text": "2",
    "bytes": b"2",
    "None": None,
    "10**10": 10**10,
    "2**31": 2**31,
    "2**64": 2**64,
    "below 64 bits": -(2**63) - 1,
    "infinity": float("inf"),
    "nan": float("nan"),
    "list": [1],
    "dict": {},
    "complex": 1j,
    "object": object(),
}
_NOT_FOR_USERS = (
    *("incompatible", "std::", "bad_alloc", "vector::", "SupportsInt", "fastload._core", "C long", "unpacking"),
    "codec can't",
)
# Argument -> the other arguments that it needs.
_TORCHS: dict[str, dict[str, Any]] = {
    "batch_size": {},
    "shuffle": {},
    "sampler": {},
    "batch_sampler": {},
    "num_workers": {},
    "collate_fn": {},
    "pin_memory": {},
    "drop_last": {},
    "timeout": {"num_workers": 1},
    "worker_init_fn": {"num_workers": 1},
    "multiprocessing_context": {"num_workers": 1},
    "generator": {},
    "prefetch_factor": {"num_workers": 1},
    "persistent_workers": {"num_workers": 1},
    "pin_memory_device": {},
    "in_order": {"num_workers": 1},
}
_OURS: dict[str, dict[str, Any]] = {
    "workers": {},
    "native_images": {},
    "num_streams": {"num_workers": 1},
    "steps": {},
    "rng": {},
    "seed": {"rng": "sample"},
    "memory_format": {},
    "device": {},
    "device_prefetch": {"device": "cpu", "num_workers": 1},
    "device_transform": {},
}
_SENSIBLE = {
    "workers": {"threads"},
    "num_streams": {"None"},
    "steps": {"None"},
    "seed": {"0", "10**10", "2**31", "None"},
    "device": {"None"},
    "device_prefetch": {"None"},
    "device_transform": {"None"},
    "native_images": {"True", "False"},
}


_COUNTS = ("batch_size", "num_workers", "prefetch_factor", "timeout")


class _Streamed(torch.utils.data.IterableDataset[torch.Tensor]):
    def __iter__(self) -> Iterator[torch.Tensor]:
        return iter(torch.zeros(12, 2))


class _Outcome(NamedTuple):
    """The outcome of a loader: the number of its batches, or an error."""

    error: Exception | None
    num_batches: int = 0

    @property
    def text(self) -> str:
        """The error's text; of a worker's error the last line."""
        text = str(self.error)
        return text.rstrip().rpartition("\n")[2] if text.startswith("Caught") else text


_Make = Callable[..., "torch.utils.data.DataLoader[Any]"]


def _outcome(make: _Make, dataset: Any, arguments: dict[str, Any]) -> _Outcome:
    try:
        loader = make(dataset, **arguments)
        num_batches = sum(1 for _ in loader)
    except Exception as error:  # noqa: BLE001 - which one it is, is what is asked
        return _Outcome(error)
    if isinstance(loader, fastload.DataLoader):
        loader.close()
    return _Outcome(None, num_batches)


def _names(outcome: _Outcome, argument: str, value: Any) -> bool:
    """Returns whether it is an error that names them."""
    name = "sampler" if argument == "batch_sampler" else argument
    return outcome.error is not None and name in outcome.text and repr(value) in outcome.text


@pytest.fixture(scope="module")
def datasets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Makes data sets, by the way they are loaded."""
    folder = make_clean_folder(tmp_path_factory.mktemp("absurd"), 12)
    native = ImageFolder(str(folder), T.Compose([T.CenterCrop(8), T.ToTensor()]))
    return {"native": native, "python": list(torch.zeros(12, 2)), "stream": _Streamed()}


def _assert_torchs(ours: _Outcome, dataset: Any, arguments: dict[str, Any], what: str) -> None:
    theirs = _outcome(torch.utils.data.DataLoader, dataset, arguments)
    if theirs.error is None:
        assert ours.error is None, what
        assert ours.num_batches == theirs.num_batches, what
        return
    assert isinstance(ours.error, type(theirs.error)), what
    assert ours.text.startswith(theirs.text), f"{what}; torch: {theirs.text}"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("argument", "kind"),
    [
        # torch starts a process to answer each of these.
        *(
            pytest.param(name, "native", marks=[pytest.mark.slow] if others and name not in _COUNTS else [])
            for name, others in _TORCHS.items()
        ),
        *itertools.product(_COUNTS, ("python", "stream")),
    ],
)
def test_torchs_arguments_fail_as_in_torch_or_are_named(datasets: dict[str, Any], argument: str, kind: str) -> None:
    dataset = datasets[kind]
    for name, value in _ODD.items():
        arguments = {**_TORCHS[argument], argument: value}
        ours = _outcome(fastload.DataLoader, dataset, arguments)
        what = f"{argument}={name}: {ours.error!r}"
        assert not any(word in ours.text for word in _NOT_FOR_USERS), what
        if not _names(ours, argument, value):
            _assert_torchs(ours, dataset, arguments, what)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("argument", _OURS)
def test_own_arguments_are_named(datasets: dict[str, Any], argument: str) -> None:
    for name, value in _ODD.items():
        ours = _outcome(fastload.DataLoader, datasets["native"], {**_OURS[argument], argument: value})
        what = f"{argument}={name}: {ours.error!r}"
        if name in _SENSIBLE.get(argument, ()):
            assert ours.error is None, what
        elif argument == "device" and type(value) is int and 0 <= value < 128:
            assert isinstance(ours.error, RuntimeError) or torch.cuda.is_available(), what
        else:
            assert isinstance(ours.error, (TypeError, ValueError)), what
            assert _names(ours, argument, value), what


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("arguments", [{"num_workers": 10**10}, {"num_workers": 1, "prefetch_factor": 10**10}], ids=str)
def test_worker_processes_have_the_same_limits(datasets: dict[str, Any], arguments: dict[str, Any]) -> None:
    """torch would go on starting them, or requesting batches, for hours."""
    ours = _outcome(fastload.DataLoader, datasets["python"], {**arguments, "workers": "processes"})
    assert _names(ours, *list(arguments.items())[-1]), repr(ours.error)


def test_a_setting_that_was_changed_later_is_named(datasets: dict[str, Any]) -> None:
    loader = fastload.DataLoader(datasets["native"], num_workers=1)
    loader.num_workers = 10**10
    with pytest.raises(ValueError, match="num_workers must be at most"):
        iter(loader)
    loader.num_workers = 1
    assert sum(1 for _ in loader) == 12


_Call = Callable[[Any], object]
_OTHER_CALLS: list[tuple[_Call, str, list[Any]]] = [
    (lambda value: fastload.ImageFiles(value, [0]), "paths", [-1, 2.0, None, 1j, "a.jpg", b"a.jpg"]),
    (lambda value: fastload.ImageFiles(["a.jpg", value], [0, 0]), "path", [-1, 2.0, None, [1], 1j]),
    (lambda value: fastload.ImageFiles(["a.jpg"], value), "labels", [-1, 2.0, None, 1j, torch.tensor(1)]),
    (lambda value: fastload.ImageFiles(["a.jpg"], [value]), "label", [2.0, None, "1", True, 2**64, -(2**63) - 1]),
    (fastload.MultiView, "transforms", [-1, None, 1j]),
    (lambda value: fastload.MultiView([T.ToTensor(), value]), "transforms", [-1, None, 1j]),
    (lambda value: fastload.decode_image("a.jpg", output=value), "output", [-1, 2.0, None, [1], 1j]),
    (lambda value: fastload.verify(_LOADER, _LOADER, batches=value), "batches", [0, 2.0]),
    (lambda value: fastload.verify(_LOADER, _LOADER, seed=value), "seed", [-1, 2**64]),
]
_LOADER = torch.utils.data.DataLoader(list(torch.zeros(12, 2)))


@pytest.mark.parametrize(
    ("call", "argument", "value"),
    [
        pytest.param(call, argument, value, id=f"{number} {argument} {value!r}")
        for number, (call, argument, values) in enumerate(_OTHER_CALLS)
        for value in values
    ],
)
def test_arguments_of_other_functions_are_named(call: _Call, argument: str, value: Any) -> None:
    with pytest.raises((OverflowError, TypeError, ValueError)) as raised:
        call(value)
    assert argument in str(raised.value)
    assert repr(value) in str(raised.value)


@pytest.mark.parametrize("value", [-1, 2.0, None, [1], 1j], ids=repr)
def test_the_source_of_a_decode_is_named_by_its_type(value: Any) -> None:
    with pytest.raises(TypeError, match=f"source must be .* got {type(value).__name__}"):
        fastload.decode_image(value)
