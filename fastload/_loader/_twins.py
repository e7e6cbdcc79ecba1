"""The same loader as torch's class and as fastload's."""

from __future__ import annotations

from typing import Any

from torch.utils.data import IterableDataset

from fastload._loader._loader import DataLoader
from fastload._process._config import TorchDataLoader, torch_loader_has


def torch_twin(loader: TorchDataLoader[Any]) -> TorchDataLoader[Any]:
    """torch's DataLoader with the arguments of `loader` that torch has."""
    return TorchDataLoader(**_arguments(loader))


def fastload_twin(loader: TorchDataLoader[Any], rng: str | None = None, **changes: Any) -> DataLoader[Any]:
    """fastload's DataLoader with the arguments of `loader`; of a fastload loader all but the device and the steps.

    torch's loader delivers to none and has whole epochs, and batches can be compared only where they are in the same
    place.

    Args:
        loader: torch's or fastload's.
        rng: "torch": draw as torch's loader does, also where `loader` does not.
        changes: arguments that take the place of the loader's.
    """
    arguments = _arguments(loader)
    if isinstance(loader, DataLoader):
        arguments |= {**vars(loader._settings), **_OF_TORCH}
    if rng is not None:
        arguments |= {"rng": rng, "seed": None}
    return DataLoader(**{**arguments, **changes})


# What torch's loader does in the place of these.
_OF_TORCH: dict[str, Any] = dict.fromkeys(("device", "device_prefetch", "device_transform", "steps"))


def _arguments(loader: TorchDataLoader[Any]) -> dict[str, Any]:
    arguments: dict[str, Any] = {
        name: getattr(loader, name)
        for name in (
            *("dataset", "num_workers", "collate_fn", "pin_memory", "timeout", "worker_init_fn", "generator"),
            *("persistent_workers", "pin_memory_device"),
        )
    }
    if loader.num_workers > 0:
        arguments["prefetch_factor"] = loader.prefetch_factor
        arguments["multiprocessing_context"] = loader.multiprocessing_context
    if torch_loader_has("in_order"):
        arguments["in_order"] = loader.in_order
    if loader.batch_size is None and loader.batch_sampler is not None:
        return {**arguments, "batch_sampler": loader.batch_sampler}
    arguments |= {"batch_size": loader.batch_size, "drop_last": loader.drop_last}
    if not isinstance(loader.dataset, IterableDataset):
        arguments["sampler"] = loader.sampler
    return arguments
