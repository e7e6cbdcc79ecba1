"""The checks of ShardedSampler's arguments."""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Sized
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fastload._process import _config
from fastload.samplers._blocks import Blocks
from fastload.samplers._shards import Shards

# torch takes a seed below 2**64, and gets the sum of two numbers below this.
NUM_SEEDS = 2**63
# The defaults.
WINDOW_BLOCKS, CANONICAL_NODES = 8, 64


def dataset_of(dataset_or_length: Sized | int) -> Sized:
    if isinstance(dataset_or_length, Sized):
        return dataset_or_length
    try:
        return range(whole("dataset_or_length", dataset_or_length, 0, sys.maxsize))
    except TypeError:
        raise TypeError(
            "dataset_or_length must be a data set with a length or an int, got "
            f"{type(dataset_or_length).__name__}; of an IterableDataset each rank reads its own part"
        ) from None


def whole(name: str, value: Any, least: int, end: int) -> int:
    """Returns `value` as an int in [least, end)."""
    if isinstance(value, bool):
        raise TypeError(f"{name} must be an int, got {value!r}")
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an int, got {value!r} of type {type(value).__name__}") from None
    if not least <= number < end:
        raise ValueError(f"{name} must be from {least} to {end - 1}, got {number}")
    return number


def cumulative_of(weights: Any, num_samples: int) -> NDArray[np.float64]:
    """Returns the cumulative sums of the weights, float64 [num_samples]."""
    array = np.asarray(weights.detach().cpu() if isinstance(weights, torch.Tensor) else weights, np.float64)
    if array.shape != (num_samples,):
        raise ValueError(f"weights must be one number for each of {num_samples} samples, got shape {array.shape}")
    wrong = np.flatnonzero(~((array >= 0) & np.isfinite(array)))
    if len(wrong):
        raise ValueError(f"weights must be finite and not negative, got {array[wrong[0]]} for sample {wrong[0]}")
    with np.errstate(over="ignore"):
        cumulative = np.cumsum(array)
    # Below the least normal number a product with a draw could be rounded up to the sum itself.
    if not (num_samples and np.finfo(np.float64).tiny <= cumulative[-1] < np.inf):
        total = cumulative[-1] if num_samples else 0.0
        raise ValueError(f"weights must have a positive, finite sum, got {total} of {num_samples} samples")
    return cumulative


def check_no_blocks(**given: int | None) -> None:
    """Raises ValueError for given arguments that make no sense without blocks."""
    defaults = {"window_blocks": WINDOW_BLOCKS, "canonical_nodes": CANONICAL_NODES, "nodes": None}
    for name, value in given.items():
        if value != defaults[name]:
            raise ValueError(f"{name}={value!r} needs block_size: without it there are no blocks")


def blocks_of(shards: Shards, block_size: int, window_blocks: int, canonical_nodes: int) -> Blocks:
    """Returns the blocks for epochs that have none yet. Raises ValueError if they cannot have these."""
    for name, is_set in (("weights", shards.cumulative is not None), ("infinite=True", shards.infinite)):
        if is_set:
            raise ValueError(
                f"block_size={block_size!r} makes no sense with {name}: blocks are for epochs that end and have each "
                "sample once. Leave out one of the two"
            )
    block_size = whole("block_size", block_size, 1, sys.maxsize)
    window_blocks = whole("window_blocks", window_blocks, 1, sys.maxsize)
    canonical_nodes = whole("canonical_nodes", canonical_nodes, 1, sys.maxsize)
    if canonical_nodes > shards.num_samples:
        allowed = f"canonical_nodes= a number from 1 to {shards.num_samples}, or " if shards.num_samples else ""
        raise ValueError(
            f"canonical_nodes={canonical_nodes} needs as many samples, and there are {shards.num_samples}: pass "
            f"{allowed}no block_size"
        )
    return Blocks(shards.num_samples, block_size, window_blocks, canonical_nodes, shards.shuffle, shards.seed)


def num_nodes_of(nodes: int | None, num_replicas: int, blocks: Blocks) -> int:
    """Returns the number of nodes, each with equally many ranks and groups. Raises ValueError if that cannot be."""
    if nodes is None:
        nodes = _told_nodes(num_replicas)
    elif num_replicas % whole("nodes", nodes, 1, sys.maxsize):
        raise ValueError(f"nodes={nodes} cannot have equally many of {num_replicas} ranks: pass a divisor of that")
    if blocks.num_groups % nodes:
        raise ValueError(
            f"{nodes} nodes cannot have equally many parts of canonical_nodes={blocks.num_groups}: take "
            f"{' or '.join(map(str, _divisors(blocks.num_groups)))} nodes; or another canonical_nodes, a multiple of "
            f"{nodes}, in all runs that go on from one another"
        )
    return nodes


def _divisors(number: int) -> list[int]:
    small = [divisor for divisor in range(1, math.isqrt(number) + 1) if number % divisor == 0]
    return sorted({*small, *(number // divisor for divisor in small)})


def _told_nodes(num_replicas: int) -> int:
    if num_replicas == 1:
        return 1
    num_local = _config.told_local_ranks()
    if num_local is None:
        raise ValueError(
            "block_size must know which ranks share a node, and LOCAL_WORLD_SIZE, which torchrun sets, is not there: "
            f"pass nodes=, a number of machines that have equally many, and consecutive, of the {num_replicas} ranks"
        )
    if num_replicas % num_local:
        raise ValueError(
            f"{num_replicas} ranks are not equally many on each node with LOCAL_WORLD_SIZE={num_local}: pass nodes=, a "
            f"divisor of {num_replicas}"
        )
    return num_replicas // num_local
