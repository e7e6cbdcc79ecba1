"""Parts of a saved state that follow from the sampler, and the order that resumes from them."""

from __future__ import annotations

from typing import Any

import torch

from fastload._iteration._saved_state import SavedState
from fastload._iteration._setup import LoaderArguments
from fastload._process._distributed import rank_and_world_size
from fastload.samplers._epoch_order import EpochOrder
from fastload.samplers._resting import SavedSampler, holds_generator, loaded_at_rest, sampler_at_rest


def state_not_begun(arguments: LoaderArguments) -> SavedState:
    """Returns the state of a loader that was not used yet. Plans, draws and opens nothing."""
    sampler = sampler_at_rest(arguments.index_sampler)
    return SavedState(
        moment="not begun",
        rng=arguments.settings.rng,
        seed=arguments.settings.seed,
        epoch=arguments.progress.epoch,
        position=0,
        num_yielded=0,
        num_workers=arguments.num_threads,
        sampler=sampler,
        world=rank_and_world_size(),
        generator=generator_state(arguments.generator, arguments.index_sampler, sampler),
    )


def generator_state(
    generator: torch.Generator | None, index_sampler: Any, sampler: SavedSampler
) -> torch.Tensor | None:
    """Returns the state of a loader's generator; None: it has none, or the sampler's state includes it."""
    if generator is None or generator.device.type != "cpu":
        return None
    if sampler.generators and holds_generator(index_sampler, generator):
        return None
    return generator.get_state()


def order_from(saved: SavedState | None, index_sampler: Any, depth: int) -> EpochOrder:
    """Returns the order of an epoch, resumed from `saved` if it is not None. See EpochOrder for the other arguments."""
    if saved is None:
        return EpochOrder(index_sampler, depth)
    if saved.moment != "in an epoch":
        return EpochOrder(index_sampler, depth, loaded=loaded_at_rest(index_sampler, saved.sampler))
    loaded = (saved.sampler.state,) if saved.sampler.kind == "stateful" else ()
    position = saved.begins_at if saved.next_worker is None else 0  # a stream's order is the same from any position
    return EpochOrder(index_sampler, depth, saved.sampler, position, loaded)
