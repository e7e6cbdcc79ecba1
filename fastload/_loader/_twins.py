"""The same loader as torch's class and as fastload's."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

from fastload._loader._arguments import arguments_of
from fastload._loader._current import CurrentLoader
from fastload._loader._loader import DataLoader
from fastload._process._config import TorchDataLoader


def torch_twin(loader: TorchDataLoader[Any]) -> TorchDataLoader[Any]:
    """torch's DataLoader with the arguments of `loader` that torch has."""
    return TorchDataLoader(**arguments_of(loader))


def fastload_twin(loader: TorchDataLoader[Any], rng: str | None = None, **changes: Any) -> DataLoader[Any]:
    """fastload's DataLoader with the arguments of `loader`; of a fastload loader all but the device and steps.

    torch's loader delivers to none and has whole epochs, and batches can be compared only where they are in the same
    place.

    Args:
        loader: torch's or fastload's.
        rng: "torch": draw as torch's loader does, also where `loader` does not.
        changes: arguments that take the place of the loader's.
    """
    arguments = arguments_of(loader)
    if isinstance(loader, DataLoader):
        arguments |= {**vars(CurrentLoader(loader).settings), **_OF_TORCH}
    if rng is not None:
        arguments |= {"rng": rng, "seed": None}
    return DataLoader(**{**arguments, **changes})


def as_fastload(loader: TorchDataLoader[Any]) -> DataLoader[Any]:
    """The loader itself, or fastload's with the arguments of torch's."""
    return loader if isinstance(loader, DataLoader) else fastload_twin(loader)


def twin_without_cache(loader: DataLoader[Any]) -> DataLoader[Any]:
    """A copy of the same class, at the same epoch, that keeps nothing of images and notes no bad samples."""
    twin = copy.copy(loader)
    nothing: dict[str, Any] = {"cache": None, "ledger": None}
    now = CurrentLoader(loader)
    vars(twin).update(_fastload=now.kept.with_settings(dataclasses.replace(now.settings, **nothing)))
    if type(loader) is DataLoader:
        vars(twin).update(nothing)
    return twin


# What torch's loader does in the place of these.
_OF_TORCH: dict[str, Any] = dict.fromkeys(("device", "device_prefetch", "device_transform", "steps"))
