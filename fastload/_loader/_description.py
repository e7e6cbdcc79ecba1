"""The description of a loader that repr() returns."""

from __future__ import annotations

from collections.abc import Sized
from typing import Any, cast

from fastload._delivery._device import is_host
from fastload._display._units import counted
from fastload._iteration._settings import LoaderSettings
from fastload._process._config import TorchDataLoader

# len() of their classes is a quick look-up; len() of a user's class may read files, or raise.
_QUICK_PACKAGES = frozenset({"builtins", "fastload", "torch", "torchvision"})


def describe(loader: TorchDataLoader[Any], settings: LoaderSettings | None) -> str:
    """Describes a loader in one line, from its attributes only: it plans nothing and calls no user code.

    Args:
        loader: A loader of fastload's or torch's class.
        settings: The settings of fastload's loader; None for torch's.
    """
    kind = "processes" if settings is None else settings.workers
    parts = [_data(loader.dataset), *_batches(loader), _workers(loader.num_workers, kind)]
    if settings is not None and settings.steps is not None:
        parts.append(f"steps={settings.steps}")
    if settings is not None and not is_host(settings.device):
        parts.append(f"device={str(getattr(settings.device, 'name', settings.device))!r}")
    if settings is not None and settings.rng != "torch":
        parts.append(f"rng={settings.rng!r}" + ("" if settings.seed is None else f", seed={settings.seed}"))
    return f"<{_name(type(loader))}: {', '.join(parts)}>"


def _name(kind: type) -> str:
    package = kind.__module__.partition(".")[0]
    return {"fastload": "fastload.DataLoader", "torch": "torch.utils.data.DataLoader"}.get(package, kind.__qualname__)


def _data(dataset: object) -> str:
    name = type(dataset).__qualname__
    is_quick = getattr(type(dataset), "__len__", None) is not None and _package_of_len(dataset) in _QUICK_PACKAGES
    if not is_quick:
        return name
    try:
        return f"{name} of {counted(len(cast(Sized, dataset)), 'sample')}"
    except Exception:  # noqa: BLE001 - torch's classes call the user's objects inside them
        return name


def _package_of_len(dataset: object) -> str:
    for base in type(dataset).__mro__:
        if "__len__" in vars(base):
            return str(base.__module__).partition(".")[0]
    return ""


def _batches(loader: TorchDataLoader[Any]) -> list[str]:
    if loader.batch_size is not None:
        return [f"batch_size={loader.batch_size}"]
    sampler = loader.batch_sampler
    return ["batch_size=None"] if sampler is None else [f"batch_sampler={type(sampler).__qualname__}"]


def _workers(number: int, kind: str) -> str:
    if number == 0:
        return "no workers"
    if kind == "processes":
        return counted(number, "process", "processes")
    return counted(number, "thread")
