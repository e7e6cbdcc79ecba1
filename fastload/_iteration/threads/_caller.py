"""The thread that iterates, in the place of a worker where it makes the batches itself."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from fastload._iteration.threads._dataset import IterableFetcher
from fastload._iteration.threads._fetcher import EndOfStreamError
from fastload._iteration.threads._task import Request
from fastload._iteration.threads._thread_plan import ThreadPlan
from fastload._iteration.threads._worker_draws import Moment, WorkerDraws
from fastload._iteration.threads._worker_places import GoingOn, WorkerPlaces
from fastload._process._interrupts import is_interrupt
from fastload._resume._generators import ProgramReplay
from fastload._workers._generators import WorkerGenerators, exchanged
from fastload._workers._objects import held_generators
from fastload._workers._random_stream import RandomKey, RandomStream, SampleStream, TorchStream
from fastload._workers._torch_globals import generator_of_thread
from fastload._workers._worker_objects import WorkerObjects


class _Program:
    """The program's three generators."""

    def __init__(self) -> None:
        self.torch = torch.default_generator
        self.random: Any = random._inst
        self.numpy: Any = np.random.mtrand._rand


class Caller:
    """What the calling thread makes batches with, and draws from: with rng="torch" that is what the program draws from.

    Args:
        plan: Of the iteration.
        going_on: Where it goes on; None: it begins. Behind an epoch data set and stream load what they said before the
            next one draws anything, as that may be what the program draws from.

    Attributes:
        beginning: Where it stands when the epoch has begun; None where that is not asked for.
    """

    def __init__(self, plan: ThreadPlan, going_on: GoingOn | None) -> None:
        self._generators = WorkerGenerators(0, 0) if plan.rng == "sample" else None
        self._key = RandomKey(0, 0)
        self._going_on = going_on if going_on is not None and going_on.is_in_epoch else None
        self._replay = _replay_of(plan, going_on)
        draws = self._draws_of(plan, going_on) if plan.has_states else None  # which may put generators in their places
        stream: RandomStream
        if self._generators is None:
            stream = TorchStream(generator_of_thread, is_of_process=True)
        else:
            stream = SampleStream(plan.position, self._generators, held_generators(tuple(plan.code)))
        self._fetcher = plan.make_fetcher(stream, None, plan.code)
        self._places = None if draws is None else WorkerPlaces(draws, self._fetcher, self._replaying)
        self.beginning: Moment | None = None
        is_behind_epoch = going_on is not None and not going_on.is_in_epoch
        if self._places is not None and going_on is not None and is_behind_epoch and going_on.saved.user.is_known:
            with self.draws():
                self._places.restore(self._key, 0, going_on)

    def begin_epoch(self, key: RandomKey) -> None:
        """Begins it, or goes on in it; `key` is of its random numbers, where they depend on one."""
        self._key = key
        with self.draws():
            if self._places is not None:
                self.beginning = self._places.begin_epoch(key, 0, self._going_on)
            if isinstance(self._fetcher, IterableFetcher):
                self._fetcher.check_begun()

    def _draws_of(self, plan: ThreadPlan, going_on: GoingOn | None) -> WorkerDraws:
        is_program = self._generators is None
        draws = WorkerDraws(
            self._generators or _Program(), WorkerObjects(plan.code, None), keeps_held=True, is_program=is_program
        )
        if going_on is None:
            draws.begin(None, "")
        else:
            draws.begin(going_on.saved, going_on.field)
        return draws

    @property
    def is_of_stream(self) -> bool:
        return self._fetcher.is_of_stream

    @property
    def is_stateful(self) -> bool:
        """Whether data set or stream themselves tell where they stand."""
        return self._fetcher.is_stateful

    def moment(self) -> Moment | None:
        """Where it stands now, where that is known at any time."""
        if self._places is None:
            return None
        with self.draws():
            return self._places.behind_batch(is_asked=True)

    def behind_end(self) -> Moment | None:
        """The same behind an epoch."""
        if self._places is None:
            return None
        with self.draws():
            return self._places.behind_end()

    def fetch(self, request: Request) -> Any:
        """A batch, with its account of bad samples. Raises what BatchFetcher.fetch() does."""
        with self.draws():
            return self._fetcher.fetch(request.indices, request.key, 0, lambda: False)

    def take_account(self) -> Any:
        """See BatchFetcher."""
        return self._fetcher.take_account()

    def pass_over(self, request: Request) -> bool:
        """Makes a batch that was handed out before; what it raises was, too. Returns whether there was one."""
        try:
            with self._replaying():
                self.fetch(request)
        except EndOfStreamError:
            return False
        except Exception as error:
            if is_interrupt(error):
                raise
        self.take_account()
        return True

    @contextlib.contextmanager
    def draws(self) -> Iterator[None]:
        """In it Python draws from what the batches draw from."""
        if self._generators is None:
            yield
            return
        with exchanged(), self._generators.entered():
            yield

    def _replaying(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext() if self._replay is None else self._replay.drawing()


def _replay_of(plan: ThreadPlan, going_on: GoingOn | None) -> ProgramReplay | None:
    """In the place of the program's generators, where what was drawn from them is drawn again."""
    return None if going_on is None or plan.rng != "torch" else ProgramReplay(going_on.saved.generators)
