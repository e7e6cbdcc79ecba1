"""Copies of a loader as an object of torch's class or of fastload's, and a description of either."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

from fastload._loader._current import CurrentLoader, arguments_of
from fastload._loader._explanation import describe
from fastload._loader._loader import DataLoader
from fastload._process._config import TorchDataLoader


def torch_counterpart(loader: TorchDataLoader[Any]) -> TorchDataLoader[Any]:
    """Makes torch's DataLoader from the arguments of `loader` that torch has."""
    return TorchDataLoader(**arguments_of(loader))


def fastload_counterpart(loader: TorchDataLoader[Any], rng: str | None = None, **changes: Any) -> DataLoader[Any]:
    """Makes fastload's DataLoader from the arguments of `loader`, without the device and steps of a fastload loader.

    torch's loader has no device and only whole epochs. Batches can be compared only if both have the same device and
    the same position in the epoch. With rng="torch" it draws as torch's loader does, even if `loader` does not;
    `changes` replace arguments of the loader.
    """
    arguments = arguments_of(loader)
    if isinstance(loader, DataLoader):
        arguments |= {**vars(CurrentLoader(loader).settings), **_ONLY_FASTLOAD}
    if rng is not None:
        arguments |= {"rng": rng, "seed": None}
    return DataLoader(**{**arguments, **changes})


def as_fastload(loader: TorchDataLoader[Any]) -> DataLoader[Any]:
    """Returns the loader itself, or fastload's DataLoader with the arguments of torch's."""
    return loader if isinstance(loader, DataLoader) else fastload_counterpart(loader)


def described(loader: TorchDataLoader[Any]) -> str:
    """Describes a loader of either class in one line, as repr() does for fastload's."""
    return repr(loader) if isinstance(loader, DataLoader) else describe(loader, None)


def without_cache(now: CurrentLoader) -> TorchDataLoader[Any]:
    """Copies a loader, with its class and epoch; the copy has no cache and no ledger of bad samples."""
    detached = copy.copy(now.loader)
    nothing: dict[str, Any] = {"cache": None, "ledger": None}
    vars(detached).update(_fastload=now.kept.with_settings(dataclasses.replace(now.settings, **nothing)))
    if type(detached) is DataLoader:
        vars(detached).update(nothing)
    return detached


# Arguments that torch's loader does not have, with the values that match what it does.
_ONLY_FASTLOAD: dict[str, Any] = dict.fromkeys(("device", "device_prefetch", "device_transform", "steps"))
