"""The graph of a data pipe: it is seeded and sharded as torch's iterators and workers do it."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch.utils.data import IterDataPipe, MapDataPipe, dataloader, graph_settings

from fastload._process._distributed import rank_and_world_size
from fastload._workers._user_code import UserCode


def is_data_pipe(dataset: object) -> bool:
    return isinstance(dataset, (IterDataPipe, MapDataPipe))


def seed_graph(dataset: Any, seed: int | None) -> None:
    """Gives each pipe of a graph a seed that follows from `seed`; None: they keep theirs."""
    if seed is not None:
        graph_settings.apply_random_seed(dataset, torch.Generator().manual_seed(seed))


def begin_graph(dataset: object, seed: int | None) -> None:
    """Seeds a data pipe that the calling thread iterates, and shards it among the ranks. Ignores other data sets."""
    if is_data_pipe(dataset):
        rank, world_size = rank_and_world_size()
        seed_graph(dataset, seed)
        graph_settings.apply_sharding(dataset, world_size, rank)  # type: ignore[arg-type]


def with_graph(code: UserCode, seed: int | None) -> UserCode:
    """Returns `code` for workers: they seed a data pipe and shard it among themselves before worker_init_fn."""
    if not is_data_pipe(code.dataset):
        return code
    return code._replace(init_fn=functools.partial(_begin_in_worker, code, seed, *rank_and_world_size()))


def _begin_in_worker(code: UserCode, seed: int | None, rank: int, world_size: int, worker_id: int) -> None:
    seed_graph(code.dataset, seed)
    dataloader._sharding_worker_init_fn(code.init_fn, world_size, rank, worker_id)
