"""Warnings about process groups whose ranks all load the same samples, or together load only a part of them."""

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
    """Warns, once per process, if each rank of the process group loads every sample, or if all ranks together load
    only a part of them.

    Only torch's own random and sequential samplers are known to give each rank every sample. A batch_sampler argument,
    any other sampler and an iterable dataset may know their rank, so they cause no warning.
    """
    if (dealt_again := _dealt_again(loader.batch_sampler)) is not None:
        _warn(
            os.getpid(),
            "The samples of this DataLoader are sharded twice: Accelerate shards the batches of a "
            f"{type(dealt_again).__name__} that has sharded the samples already, so only about one of "
            f"{dealt_again.num_replicas} is loaded. Give Accelerator.prepare() a loader with shuffle=... instead of "
            "this sampler, or do not pass the loader to prepare()",
        )
    _, world_size = rank_and_world_size()
    if world_size > 1 and _takes_all(loader) and not _is_share(loader.dataset, world_size):
        _warn(
            os.getpid(),
            f"The process group has {world_size} ranks, and this DataLoader gives every sample to each of them: its "
            "sampler does not know the rank. To load each sample on one rank, pass sampler=fastload.ShardedSampler("
            "dataset, shuffle=...) instead of shuffle=..., and call loader.sampler.set_epoch(epoch) before each "
            "epoch. If the dataset is this rank's part already, or every rank is to see all samples, ignore this.",
        )


def rank_and_world_size() -> tuple[int, int]:
    """Returns rank and world size of this process in the default process group; (0, 1) without one."""
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
    # torch sets batch_size to None for a batch_sampler argument; without batches there is no batch_sampler.
    has_own_batches = loader.batch_size is not None and type(loader.batch_sampler) is BatchSampler
    return has_own_batches or loader.batch_sampler is None


def _dealt_again(batch_sampler: Any) -> DistributedSampler[Any] | None:
    """Returns the DistributedSampler whose batches Accelerate shards a second time, if there is one."""
    sampler = getattr(getattr(batch_sampler, "batch_sampler", None), "sampler", None)
    if type(batch_sampler).__name__ != "BatchSamplerShard" or not isinstance(sampler, DistributedSampler):
        return None
    return sampler if sampler.num_replicas > 1 else None


# Attribute names by which data sets and samplers know their rank or the number of ranks.
_RANK_NAMES = {"rank", "num_replicas", "process_index", "num_processes", "world_size", "shard_index", "num_shards"}


def _is_share(dataset: Any, world_size: int) -> bool:
    """Returns whether `dataset` may be one rank's part: it knows of ranks, or is a Subset of a part's size."""
    if _RANK_NAMES & getattr(dataset, "__dict__", {}).keys():
        return True
    if not isinstance(dataset, Subset):
        return False
    try:
        total = len(dataset.dataset)  # type: ignore[arg-type]
    except TypeError:
        return True
    return total // world_size <= len(dataset) <= -(-total // world_size)


@functools.cache  # once per process; a forked child is another one
def _warn(process_id: int, text: str) -> None:
    warnings.warn(text, stacklevel=4)
