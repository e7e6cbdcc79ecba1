"""The arguments of fastload.DataLoader that torch's DataLoader does not have, and their checks."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

import torch
from torch.utils.data import DataLoader, IterableDataset

from fastload._decode_cache._cache import Cache
from fastload._decode_cache._loader_cache import CacheSetting
from fastload._delivery._device import check_device
from fastload._quarantine._policy import ErrorPolicy

# More than any machine has processors, and than most systems allow threads per process.
_MAX_THREADS = 4096
_MAX_BATCHES = 2**20
_MAX_STREAM_BATCH = 2**24
_MAX_STEPS = 2**31 - 1
# torch's longest wait.
_MAX_SECONDS = (2**31 - 1) // 1000


@dataclass(frozen=True)
class LoaderSettings:
    """The arguments that torch's DataLoader does not have; fastload.DataLoader documents them."""

    workers: Literal["auto", "threads", "processes"]
    native_images: bool
    num_streams: int | None
    steps: int | None
    rng: Literal["torch", "sample"]
    seed: int | None
    memory_format: torch.memory_format
    device: Any
    device_prefetch: int | None
    device_transform: Callable[[Any], Any] | None
    on_error: Literal["raise", "replace", "skip"]
    substitutes: Sequence[int] | Literal["all"] | None
    retries: int
    max_errors: float
    ledger: str | os.PathLike[str] | None
    snapshot_every_n_steps: int
    cache: CacheSetting

    @property
    def error_policy(self) -> ErrorPolicy:
        """The arguments about bad samples. Raises ValueError or TypeError if one makes no sense."""
        return ErrorPolicy(self.on_error, self.substitutes, self.retries, self.max_errors, self.ledger)

    @property
    def is_seeded(self) -> bool:
        """Whether random transforms draw from the loader's seed, the epoch and the sample."""
        return self.rng == "sample" and self.seed is not None

    def __reduce__(self) -> tuple[Any, ...]:
        # The format goes by name, because torch's formats cannot be pickled before protocol 4; torch.save uses 2.
        return _unpickled, ({**vars(self), "memory_format": str(self.memory_format).removeprefix("torch.")},)


def _unpickled(values: dict[str, Any]) -> LoaderSettings:
    return LoaderSettings(**{**values, "memory_format": getattr(torch, values["memory_format"])})


def check_settings(settings: LoaderSettings, dataset: object) -> None:
    """Raises ValueError or TypeError that names the first argument which makes no sense for a loader of `dataset`."""
    if settings.workers not in ("auto", "threads", "processes"):
        raise ValueError(f"workers must be 'auto', 'threads' or 'processes', got {settings.workers!r}")
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
    if not isinstance(settings.native_images, bool):
        raise TypeError(f"native_images must be True or False, got {settings.native_images!r}")
    _check_count("num_streams", settings.num_streams, _MAX_THREADS)
    if settings.num_streams is not None and not isinstance(dataset, IterableDataset):
        raise ValueError(
            f"num_streams={settings.num_streams} needs an IterableDataset, but {type(dataset).__qualname__} is not "
            "one; leave it out"
        )
    _check_count("steps", settings.steps, _MAX_STEPS)
    _check_count("device_prefetch", settings.device_prefetch, _MAX_BATCHES)
    if settings.device_prefetch is not None and settings.device is None:
        raise ValueError(
            f"device_prefetch={settings.device_prefetch} needs a device: add device='cuda' or leave it out"
        )
    if settings.device_transform is not None and not callable(settings.device_transform):
        raise TypeError(f"device_transform must be callable, got {settings.device_transform!r}")
    steps = settings.snapshot_every_n_steps
    if isinstance(steps, bool) or not isinstance(steps, int) or not 0 <= steps < 2**31:
        raise ValueError(f"snapshot_every_n_steps must be an int from 0 to {2**31 - 1}, got {steps!r}")
    if settings.cache not in ("auto", None) and not isinstance(settings.cache, Cache):
        raise ValueError(f"cache must be 'auto', a fastload.Cache or None, got {settings.cache!r}")
    check_device(settings.device)
    settings.error_policy  # noqa: B018 - the property checks its arguments


def _check_count(name: str, value: object, most: int) -> None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most):
        raise ValueError(f"{name} must be None or an int from 1 to {most}, got {value!r}")


def check_epoch(loader: DataLoader[Any], batches_per_worker: Any) -> None:
    """Raises for arguments that torch refuses only when an iterator is made, or accepts and runs on for hours."""
    num_workers, timeout, size = loader.num_workers, loader.timeout, cast(Any, loader.batch_size)
    if _whole("num_workers", num_workers) < 0:
        raise AssertionError(f"num_workers must not be negative, got {num_workers!r}")
    if num_workers > _MAX_THREADS:
        raise ValueError(
            f"num_workers must be at most {_MAX_THREADS}, got {num_workers!r}; 'auto' uses the available processors"
        )
    if num_workers == 0 and timeout != 0:
        raise AssertionError(f"timeout needs num_workers > 0, got timeout={timeout!r} with num_workers=0")
    if num_workers > 0 and _whole("prefetch_factor", batches_per_worker) <= 0:
        raise AssertionError(f"prefetch_factor must be positive if num_workers > 0, got {batches_per_worker!r}")
    if num_workers > 0 and batches_per_worker > _MAX_BATCHES // num_workers:
        raise ValueError(
            f"prefetch_factor must be at most {_MAX_BATCHES // num_workers} with num_workers={num_workers}, got "
            f"{batches_per_worker!r}: num_workers times as many batches may be in memory at once"
        )
    if not timeout <= _MAX_SECONDS:  # also refuses NaN
        raise ValueError(f"timeout must be at most {_MAX_SECONDS} seconds, got {timeout!r}; 0 means no limit")
    # torch asks for each batch with a list of batch_size times None.
    if isinstance(loader.dataset, IterableDataset) and size is not None and size > _MAX_STREAM_BATCH:
        raise ValueError(
            f"batch_size must be at most {_MAX_STREAM_BATCH} for an IterableDataset, got {size!r}; batch_size=None "
            "yields single samples"
        )


def _whole(name: str, value: Any) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an int, got {value!r} of type {type(value).__name__}") from None
