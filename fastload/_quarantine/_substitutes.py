"""Chooses substitutes for samples that cannot be loaded.

Note [substitutes]
The choice depends only on the bad sample's index, the number of the try and the candidates, not on seed or epoch. So a
program without fastload can make the same choice, and a resumed run needs no memory of failures.
"""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    DistributedSampler,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

from fastload._quarantine._policy import ErrorPolicy
from fastload.samplers._blocks import Blocks
from fastload.samplers._seeded_shuffle import SeededShuffle
from fastload.samplers._sharded_sampler import ShardedSampler, given_by

MAX_ATTEMPTS = 16
# Possible substitutes: a number of samples, or their indices; or blocks, in which only the sample's own group counts.
Candidates = int | Sequence[int] | Blocks
# Samplers that give every index of the data set. A derived class counts if it does not override __iter__.
_GIVE_ALL = (SequentialSampler, RandomSampler, DistributedSampler)


def substitute(index: int, attempt: int, candidates: int | Sequence[int]) -> int:
    """Returns the substitute for a bad sample with ``on_error="replace"``.

    It is candidate ``h mod c``, where c is their number and h the first 64 bits, little-endian, of the BLAKE2b hash
    (RFC 7693, 8 bytes long) of the text "c index attempt".

    Args:
        index: index of the bad sample.
        attempt: 1 for the first choice; if that is bad as well, 2, and so on up to 16.
        candidates: the possible indices, in ascending order; a number n: 0 to n - 1.

    Returns:
        An index. It may be `index` itself or the index from an earlier attempt; the loader skips these.

    Raises:
        ValueError: there are no candidates, or `attempt` is below 1.

    Example:
        >>> fastload.substitute(7, 1, 1000), fastload.substitute(7, 2, 1000)
        (916, 908)
        >>> fastload.substitute(7, 1, [2, 3, 5]) in [2, 3, 5]
        True
    """
    count = candidates if isinstance(candidates, int) else len(candidates)
    if count < 1:
        raise ValueError("there are no candidates: at least one sample must be able to stand in")
    if attempt < 1:
        raise ValueError(f"attempt counts from 1, got {attempt!r}")
    text = f"{count} {operator.index(index)} {operator.index(attempt)}"
    number = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little") % count
    return number if isinstance(candidates, int) else int(candidates[number])


def choices(index: int, candidates: Candidates) -> Iterator[int]:
    """Yields the substitutes to try for `index`, each once."""
    given = candidates.group_of(index).tolist() if isinstance(candidates, Blocks) else candidates
    tried = {index}
    for attempt in range(1, MAX_ATTEMPTS + 1):
        choice = substitute(index, attempt, given)
        if choice not in tried:
            tried.add(choice)
            yield choice


def describe_errors(policy: ErrorPolicy, candidates: Candidates) -> str:
    """Describes the treatment of bad samples in a line; equal if the same samples have the same substitutes."""
    if policy.on_error != "replace":
        return policy.on_error
    if isinstance(candidates, int):
        return f"replace by {candidates}"
    if isinstance(candidates, Blocks):
        return f"replace by the group of {candidates.num_groups}"
    digest = hashlib.sha256(np.asarray(candidates, dtype=np.int64).tobytes()).hexdigest()[:32]
    return f"replace by {len(candidates)}: {digest}"


def candidates_of(loader: DataLoader[Any], substitutes: Sequence[int] | Literal["all"] | Blocks | None) -> Candidates:
    """Returns the possible substitutes in `loader`: the samples its sampler can give, or `substitutes`.

    Raises:
        ValueError: The sampler is none of torch's, so the samples it can give are unknown; or an index is out of range.
    """
    count = len(loader.dataset)  # type: ignore[arg-type]
    if isinstance(substitutes, str):
        return count
    if isinstance(substitutes, Blocks):  # from a loader of which this one repeats a part
        return substitutes
    if substitutes is not None:
        found = sorted({operator.index(index) for index in substitutes})
        if found[0] < 0 or found[-1] >= count:
            raise ValueError(f"substitutes must lie in [0, {count}), got {found[0] if found[0] < 0 else found[-1]}")
        return found
    sampler = loader.sampler
    if loader.batch_sampler is None or type(loader.batch_sampler) is BatchSampler:
        if loader.batch_sampler is not None:
            sampler = loader.batch_sampler.sampler
        if type(sampler) is ShardedSampler:
            return given_by(sampler)
        if type(sampler) is SeededShuffle or any(
            type(sampler).__iter__ is kind.__iter__ for kind in _GIVE_ALL if isinstance(sampler, kind)
        ):
            return count
        if type(sampler) is SubsetRandomSampler:
            return sorted({operator.index(index) for index in sampler.indices})
        if type(sampler) is WeightedRandomSampler:
            return [int(index) for index in sampler.weights.nonzero().flatten().tolist()]
        name = type(sampler).__qualname__
    else:
        name = type(loader.batch_sampler).__qualname__
    raise ValueError(
        f"on_error='replace' must know which samples may stand in for bad ones, and {name} does not tell which "
        "samples it gives: list them in substitutes=[...], or pass substitutes='all' for the whole data set"
    )
