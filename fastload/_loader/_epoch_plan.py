"""An epoch that a state is of, gone through without loading any of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from fastload import _native
from fastload._iteration._fingerprint import fingerprint_of
from fastload._iteration._state_maker import order_of
from fastload._iteration.native._files import FoundFiles, find_files
from fastload._iteration.native._planner import BatchPlanner
from fastload._iteration.native._report import SampleReport
from fastload._iteration.native._state import worker_draws
from fastload._loader._saved_checks import check_num_workers
from fastload._process._distributed import rank_and_world_size
from fastload._resume._saved_sampler import SavedSampler
from fastload._resume._saved_state import SavedState
from fastload._workers._init_fn import init_native_workers
from fastload.samplers._draw_numbers import DrawNumbers, NumberedBatches, numbers_of
from fastload.samplers._lowering import BadIndicesError, IndexBatch


class EpochPlan:
    """The batches of an epoch, one after the other from a state's position on.

    Without workers random transforms draw from torch's default generator: it is looked at, and stays as it is.

    Args:
        loader: A native fastload.DataLoader into which the state was loaded, with generators of its own. It is not
            begun.

    Raises:
        ValueError: The state is of a moment at which the epoch's seeds are not drawn.
        StateError: It is of another number of workers.
    """

    def __init__(self, loader: Any) -> None:
        self._saved: SavedState = loader._fastload.progress.loaded[1]
        if not is_in_epoch(self._saved):
            raise ValueError(
                f"the state is of a moment before epoch {self._saved.epoch} has begun, which draws its seeds: pass "
                "a state of that epoch, which state_dict() gives behind iter()"
            )
        plan = loader._native_plan_or_none()
        check_num_workers(plan, self._saved, loader.num_workers)
        self._plan = plan
        self._errors: str = loader._describe_errors()
        self._num_workers: int = loader.num_workers
        self._index_sampler = loader._index_sampler
        self._order = order_of(self._index_sampler, loader._max_batches_in_flight, self._saved)
        self._order.begin(None)
        assert self._saved.base_seed is not None, "it is in an epoch"
        key = loader._random_key(self._saved.base_seed, self._saved.resets)
        draws = _draws_of(loader, self._saved) if plan.has_ordered_draws else []
        self._planner = BatchPlanner(plan, draws, self._saved.position, key, loader._handling())

    @property
    def is_in_order(self) -> bool:
        """Whether what a sample draws depends on those before it."""
        return bool(self._plan.has_ordered_draws)

    def pass_over(self, position: int) -> None:
        """Goes to that batch of the epoch, which is not before this one. A file that is damaged behind its header is
        taken for a good one."""
        while self._planner.position < position:
            self._planner.pass_over(self._next_files())

    def report(self) -> list[SampleReport]:
        """That of the next batch. Raises the error in which its indices end, if they do."""
        found = self._next_files()
        if found.error is not None:
            raise found.error
        return self._planner.report(found)

    def state(self) -> dict[str, Any]:
        """Of this place in the epoch."""
        position = self._planner.position
        saved = SavedState.parse({**self._saved.as_dict(), "_num_yielded": position, "_sampler_iter_yielded": position})
        texts = tuple(draws.text() for draws in self._planner.draws) if self._num_workers > 0 else ()
        here = replace(
            saved, num_workers=self._num_workers, draws=texts or None, draws_anew=False, world=rank_and_world_size()
        )
        return here.as_dict()

    def leave_program(self) -> None:
        """Brings torch's default generator to this place, where the batches before it would have drawn from it."""
        if self._num_workers == 0 and self.is_in_order:
            state = torch.get_rng_state()
            self._planner.draws[0].store(state.numpy())
            torch.set_rng_state(state)

    def sample_alone(self, index: int, step: int | None) -> tuple[dict[str, Any], list[list[int]]]:
        """The state and the batches of an epoch of this sample alone, in one worker, which makes it as it is here: in
        batch `step`, or in its first place from the state's position on.

        Raises:
            ValueError: It is not there; or another one fails before it, so that it is not made at all.
        """
        batches, draws = [[index]], None
        if self.is_in_order or step is not None or numbers_of(self._index_sampler) is not None:
            found, place = self._found(index, step)
            batches = only_batch(index, None if found.numbers is None else int(found.numbers[place]))
            draws = self._draws_within(found, place, index)
        alone = replace(
            self._saved,
            position=0,
            num_yielded=0,
            num_workers=1,
            sampler=SavedSampler("fixed"),
            world=rank_and_world_size(),
            generator=None,
            draws=None if draws is None else (draws.text(),),
            fingerprint=fingerprint_of(self._plan, batches, self._errors),
        )
        return alone.as_dict(), batches

    def _found(self, index: int, step: int | None) -> tuple[FoundFiles, int]:
        """The batch of a sample, which is the planner's next one then, and its place in that."""
        first = self._planner.position
        if step is not None:
            self.pass_over(step)
        while (found := self._files_or_none()) is not None:
            place = place_in(found.indices, index, len(self._plan.source))
            if place is not None:
                return found, place
            if step is not None:
                raise ValueError(
                    f"sample {index} is not in batch {step} of epoch {self._saved.epoch}: plan() says which ones are"
                )
            self._planner.pass_over(found)
        raise ValueError(
            f"sample {index} is not in epoch {self._saved.epoch} from batch {first} on, where the state is: pass a "
            "state of an earlier place in that epoch"
        )

    def _draws_within(self, found: FoundFiles, place: int, index: int) -> _native.TorchDraws | None:
        """What the sample at a place of the next batch draws from; None: nothing is drawn in order."""
        if not self.is_in_order:
            return None
        failed = self._planner.pass_within(found, place)
        if failed is not None:
            raise ValueError(
                f"sample {index} is not made in epoch {self._saved.epoch}: {failed!r}, which comes before it in "
                f"batch {self._planner.position}, cannot be loaded"
            )
        return self._planner.next_draws

    def _next_files(self) -> FoundFiles:
        found = self._files_or_none()
        if found is None:
            raise ValueError(f"the sampler gives no batch {self._planner.position} of epoch {self._saved.epoch}")
        return found

    def _files_or_none(self) -> FoundFiles | None:
        given: list[Any] = []
        self._order.give(given)
        if not given:
            return None
        indices = given[0].before if isinstance(given[0], BadIndicesError) else given[0]
        numbers = None if self.is_in_order else self._order.draw_numbers(len(indices))
        return find_files(self._plan.source, given[0], numbers)


def only_batch(index: int, number: int | None) -> list[list[int]]:
    """The batches of a sample alone, which has a number where it is one of several draws."""
    return [[index]] if number is None else NumberedBatches([[index]], DrawNumbers(number, 0), 1)


def place_in(given: IndexBatch | BadIndicesError, index: int, num_samples: int) -> int | None:
    """The first place of a sample in a batch; None: it is not there."""
    indices = given.before if isinstance(given, BadIndicesError) else given
    places = np.flatnonzero(indices % num_samples == index)
    return int(places[0]) if len(places) else None


def is_in_epoch(saved: SavedState) -> bool:
    """Whether all is known of the epoch's order and draws that does not come from the program's generators."""
    return saved.moment == "in an epoch"


def _draws_of(loader: Any, saved: SavedState) -> list[_native.TorchDraws]:
    """What each worker draws from at the state's position."""
    assert saved.base_seed is not None, "it is in an epoch"
    generators = [torch.default_generator] if loader.num_workers == 0 else None
    if saved.draws is None and loader.num_workers > 0 and loader.worker_init_fn is not None:
        found = init_native_workers(loader.worker_init_fn, loader.num_workers, saved.base_seed, loader.dataset)
        if callable(found):
            raise found()
        generators = found
    return worker_draws(saved.base_seed, loader.num_workers, generators, saved)
