"""The arguments of fastload.DataLoader that torch's does not have, and whether they make sense."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch.utils.data import IterableDataset

from fastload._delivery._device import check_device


@dataclass(frozen=True)
class LoaderSettings:
    """The arguments that torch's DataLoader does not have; fastload.DataLoader says what they are."""

    workers: Literal["threads", "processes"]
    thread_safe: bool
    copy: bool
    native_images: bool
    num_streams: int | None
    rng: Literal["torch", "sample"]
    seed: int | None
    memory_format: torch.memory_format
    device: Any
    device_prefetch: int | None
    device_transform: Callable[[Any], Any] | None

    def __reduce__(self) -> tuple[Any, ...]:
        # By name, because torch's formats cannot be pickled before protocol 4; torch.save uses 2.
        return _unpickled, ({**vars(self), "memory_format": str(self.memory_format).removeprefix("torch.")},)


def _unpickled(values: dict[str, Any]) -> LoaderSettings:
    return LoaderSettings(**{**values, "memory_format": getattr(torch, values["memory_format"])})


def check_settings(settings: LoaderSettings, dataset: object) -> None:
    """Raises ValueError or TypeError that names the first argument which makes no sense for a loader of `dataset`."""
    check_workers(settings)
    rng, seed, memory_format = settings.rng, settings.seed, settings.memory_format
    if rng not in ("torch", "sample"):
        raise ValueError(f"rng must be 'torch' or 'sample', got {rng!r}")
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**64):
        raise ValueError(f"seed must be None or an int in [0, 2**64), got {seed!r}")
    if seed is not None and rng != "sample":
        raise ValueError(
            f"seed={seed} needs rng='sample'; torch's random numbers (rng='torch') are seeded by "
            "torch.manual_seed() or by generator="
        )
    if memory_format not in (torch.contiguous_format, torch.channels_last):
        raise ValueError(f"memory_format must be torch.contiguous_format or torch.channels_last, got {memory_format!r}")
    _check_count("num_streams", settings.num_streams)
    if settings.num_streams is not None and not isinstance(dataset, IterableDataset):
        raise ValueError(
            f"num_streams={settings.num_streams} is of an IterableDataset, and {type(dataset).__qualname__} is none; "
            "leave it out"
        )
    _check_count("device_prefetch", settings.device_prefetch)
    if settings.device_prefetch is not None and settings.device is None:
        raise ValueError(
            f"device_prefetch={settings.device_prefetch} needs a device: add device='cuda' or leave it out"
        )
    if settings.device_transform is not None and not callable(settings.device_transform):
        raise TypeError(f"device_transform must be callable, got {settings.device_transform!r}")
    check_device(settings.device)


def check_workers(settings: LoaderSettings) -> None:
    """Raises ValueError for an unknown `workers`, and for an argument that processes do not have."""
    if settings.workers not in ("threads", "processes"):
        raise ValueError(f"workers must be 'threads' or 'processes', got {settings.workers!r}")
    if settings.workers == "threads":
        return
    for name, allowed in _OF_PROCESSES.items():
        value = getattr(settings, name)
        if value is not allowed and value != allowed:
            raise ValueError(
                f"{name}={value!r} needs workers='threads': torch's worker processes take {name}={allowed!r} alone; "
                f"leave out {name} or workers='processes'"
            )


# What these arguments are where torch's worker processes run.
_OF_PROCESSES = {
    "copy": True,
    "thread_safe": True,
    "num_streams": None,
    "rng": "torch",
    "memory_format": torch.contiguous_format,
}


def _check_count(name: str, value: object) -> None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
        raise ValueError(f"{name} must be None or an int >= 1, got {value!r}")
