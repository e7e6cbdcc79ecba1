"""States of torchdata's StatefulDataLoader, as far as another loader can go on from them."""

from __future__ import annotations

import warnings
from typing import Any

from torch.utils.data import BatchSampler, IterableDataset

from fastload._errors import StateError
from fastload._planning._verdicts import Mode
from fastload._process._distributed import rank_and_world_size
from fastload._resume._saved_sampler import SavedSampler
from fastload._resume._saved_state import SavedState
from fastload._resume._torchdata_state import TorchdataState
from fastload._resume._user_state import is_stateful
from fastload.samplers._resting import kind_of


def saved_of_torchdata(loader: Any, found: TorchdataState) -> SavedState:
    """Where `loader` goes on: in the same order, with other draws.

    Raises:
        StateError: The order is not known.
    """
    is_of_stream = isinstance(loader.dataset, IterableDataset)
    if found.num_workers != loader._num_threads:
        raise StateError(
            f"{found.path}_num_workers",
            f"is {found.num_workers}, and this loader has {loader._num_threads}",
            f"take num_workers={found.num_workers}",
        )
    warnings.warn(
        "the state is of torchdata's StatefulDataLoader: its position and order count; what is drawn, and what the "
        "data set keeps, begins anew",
        stacklevel=5,
    )
    common = (loader._setting("rng"), loader._setting("seed"), loader._fastload.epoch)
    world = rank_and_world_size()
    if found.is_finished:
        sampler = SavedSampler(kind_of(loader._index_sampler))
        if sampler.kind == "stateful":
            sampler = _sampler_of(loader, found)
        return SavedState("between epochs", *common, 0, found.position, found.num_workers, sampler, world)
    sampler = _sampler_of(loader, found)
    replayed = found.position if is_of_stream else found.steps_since if sampler.kind == "stateful" else 0
    if replayed and loader._mode() is Mode.NATIVE:
        raise StateError(
            "_steps_since_snapshot",
            f"is {replayed}, and native batches go on where the sampler's state is",
            "save it with snapshot_every_n_steps=1",
        )
    return SavedState(
        "in an epoch",
        *common,
        found.position,
        found.position,
        found.num_workers,
        sampler,
        world,
        base_seed=found.base_seed or 0,
        draws_anew=True,
        replayed=replayed,
        next_worker=0 if is_of_stream else None,
    )


def _sampler_of(loader: Any, found: TorchdataState) -> SavedSampler:
    kind, index_sampler = kind_of(loader._index_sampler), loader._index_sampler
    if kind in ("fixed", "distributed"):
        return SavedSampler(kind)
    if kind != "stateful":
        raise StateError(
            f"{found.path}_sampler_iter_state",
            f"does not tell how a {type(getattr(index_sampler, 'sampler', index_sampler)).__name__} goes on",
            "give the loader a sampler with state_dict() and load_state_dict(), as fastload.ShardedSampler",
        )
    is_inner = type(index_sampler) is BatchSampler and not is_stateful(index_sampler)
    return SavedSampler(kind, state=found.state_of_sampler() if is_inner else found.state_of_batch_sampler())
