"""The generators that native workers draw from: as they begin, and as a state saves them."""

from __future__ import annotations

import torch

from fastload import _native
from fastload._iteration._saved_state import SavedState
from fastload._workers._native_draws import saved_draws, uniform_rule


def worker_draws(
    base_seed: int, num_workers: int, generators: list[torch.Generator] | None, resumed: SavedState | None
) -> list[_native.TorchDraws]:
    """Returns each worker's generator: as torch seeds it, as worker_init_fn left it, or as it was saved.

    torch seeds each worker with the sum of the base seed and the worker's number. Without workers torch draws from its
    default generator, whose state is loaded before each batch and stored after it.
    """
    if resumed is not None and resumed.draws is not None:
        return list(map(saved_draws, resumed.draws))
    seeds = [(base_seed + worker) % 2**64 for worker in range(max(1, num_workers))]
    draws = [_native.TorchDraws(seed, uniform_rule()) for seed in seeds]
    for worker, generator in zip(draws, generators or (), strict=False):
        worker.load(generator.get_state().numpy())
    return draws


def draws_before(
    iteration: _native.Iteration,
    num_workers: int,
    position: int,
    failed: _native.Batch | None,
    taken: _native.Batch | None,
) -> tuple[str, ...] | None:
    """Returns the state of each worker's generator before its first batch that was not handed out, as text.

    Returns None if nothing is drawn in order. Without workers the program's generator has that state, and this returns
    None, too, unless the engine has given the batch already.

    Args:
        iteration: The engine's iteration.
        num_workers: The iteration's number of workers.
        position: Number of the batch that is handed out next.
        failed: The batch before it, if the batches after `failed` still have to be loaded again.
        taken: The batch at `position`, if the engine has given it already.
    """
    before = None if taken is None else taken.draws_before()
    if num_workers == 0:  # the program's generator may have passed that batch already
        return None if before is None else (before.text(),)
    draws = iteration.draws_untaken()
    if not draws:
        return None
    if before is not None:
        draws[position % num_workers] = before
    elif failed is not None and (after := failed.draws_after()) is not None:
        draws[(position - 1) % num_workers] = after
    return tuple(worker.text() for worker in draws)


def program_draws(position: int, drawn_before: tuple[int, str] | None) -> _native.TorchDraws:
    """Returns the program's generator, from which batch `position` draws if there are no workers.

    `drawn_before` is the number and the draws of a batch that had drawn, but was not handed out when a state was saved.
    """
    if drawn_before is not None and drawn_before[0] == position:
        return saved_draws(drawn_before[1])
    draws = _native.TorchDraws(0, uniform_rule())
    draws.load(torch.get_rng_state().numpy())
    return draws
