"""The arguments that a loader was made with, from which another one can be made."""

from __future__ import annotations

import copy
from typing import Any

from torch.utils.data import IterableDataset

from fastload._process._config import TorchDataLoader, torch_loader_has
from fastload.samplers._seeded_shuffle import SeededShuffle


def arguments_of(loader: TorchDataLoader[Any]) -> dict[str, Any]:
    """Returns the arguments that torch's class has, from the attributes of a loader."""
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
        is_counted = isinstance(loader.sampler, SeededShuffle)  # a copy, because each loader sets its epoch
        arguments["sampler"] = copy.copy(loader.sampler) if is_counted else loader.sampler
    return arguments
