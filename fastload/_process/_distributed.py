"""Loaders of a process group whose ranks all load the same samples, or together only a part of them."""

from __future__ import annotations

import functools
import os
import warnings
from typing import Any

import torch.distributed
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    Subset,
)

from fastload._process import _config


def warn_of_unsharded(loader: DataLoader[Any]) -> None:
    """Warns, once in a process, where each rank of the process group will load every sample of `loader`; and where the
    ranks together will load a part of them only.

    Only a loader whose sampler is torch's own random or sequential one is known to do so. A batch_sampler that was
    given, any other sampler and an iterable dataset may well know their rank, and nothing is said of them.
    """
    if (dealt_again := _dealt_again(loader.batch_sampler)) is not None:
        _warn_of_two_deals(os.getpid(), type(dealt_again).__name__, dealt_again.num_replicas)
    _, world_size = rank_and_world_size()
    if world_size > 1 and _takes_all(loader) and not _is_share(loader.dataset, world_size):
        _warn(os.getpid(), world_size)


def rank_and_world_size() -> tuple[int, int]:
    """Of this process in the default process group; (0, 1) where there is none."""
    if not torch.distributed.is_available() or not torch.distributed.is_initialized():
        return 0, 1
    return torch.distributed.get_rank(), torch.distributed.get_world_size()


def rank_on_machine() -> tuple[int, int]:
    """Returns the rank of this process on its machine, and how many there are: as its launcher says, or else as in the
    default process group."""
    rank, number = _config.told_local_rank(), _config.num_local_ranks()
    return rank_and_world_size() if rank is None else (rank % number, number)


def _takes_all(loader: DataLoader[Any]) -> bool:
    takes_all = type(loader.sampler) in (RandomSampler, SequentialSampler) or hasattr(loader.sampler, "takes_all")
    if isinstance(loader.dataset, IterableDataset) or not takes_all:
        return False
    # torch sets batch_size to None where a batch_sampler was given; without batches there is none.
    has_own_batches = loader.batch_size is not None and type(loader.batch_sampler) is BatchSampler
    return has_own_batches or loader.batch_sampler is None


def _dealt_again(batch_sampler: Any) -> DistributedSampler[Any] | None:
    """The sampler that has dealt out the samples to the ranks, where Accelerate deals out its batches again."""
    sampler = getattr(getattr(batch_sampler, "batch_sampler", None), "sampler", None)
    if type(batch_sampler).__name__ != "BatchSamplerShard" or not isinstance(sampler, DistributedSampler):
        return None
    return sampler if sampler.num_replicas > 1 else None


# What data sets and samplers call the rank they are made for, or how many there are.
_RANK_NAMES = {"rank", "num_replicas", "process_index", "num_processes", "world_size", "shard_index", "num_shards"}


def _is_share(dataset: Any, world_size: int) -> bool:
    """Whether `dataset` may be one rank's part: it knows of ranks, or is a Subset of the size that a part has."""
    if _RANK_NAMES & getattr(dataset, "__dict__", {}).keys():
        return True
    if not isinstance(dataset, Subset):
        return False
    try:
        total = len(dataset.dataset)  # type: ignore[arg-type]
    except TypeError:
        return True
    return total // world_size <= len(dataset) <= -(-total // world_size)


@functools.cache  # once for each process; a forked child is another one
def _warn(process_id: int, world_size: int) -> None:
    warnings.warn(
        f"The process group has {world_size} ranks, and this DataLoader gives each of them every sample: its sampler "
        "does not know the rank. To load each sample on one rank, pass sampler=fastload.ShardedSampler(dataset, "
        "shuffle=...) instead of shuffle=..., and call loader.sampler.set_epoch(epoch) before each epoch. If the "
        "dataset is this rank's part already, or every rank shall see all samples, ignore this.",
        stacklevel=4,
    )


@functools.cache
def _warn_of_two_deals(process_id: int, sampler: str, num_replicas: int) -> None:
    warnings.warn(
        "The samples of this DataLoader are dealt out to the ranks twice: Accelerate deals out the batches of a "
        f"{sampler} that has dealt out the samples already, so that about one of {num_replicas} is loaded. Give "
        "Accelerator.prepare() a loader with shuffle=... and no such sampler, or leave the loader out of prepare()",
        stacklevel=4,
    )
