"""How an iteration makes its batches in Python."""

from __future__ import annotations

from dataclasses import dataclass

from fastload import _native
from fastload._iteration._setup import LoaderSetup
from fastload._iteration.threads._fetcher import FetcherFactory
from fastload._resume._saved_state import Way
from fastload._resume._user_state import is_stateful
from fastload._workers._worker_objects import UserCode


@dataclass(frozen=True)
class ThreadPlan:
    """How an iteration makes its batches in Python.

    Attributes:
        setup: The loader's arguments and what follows from them.
        way: Who makes the batches, as states say it.
        code: The user's.
        make_fetcher: Gives each thread what it makes batches with.
        position: The first transform that runs in Python, in the user's pipeline.
        cache: What is kept of images that are decoded natively; None: nothing.
    """

    setup: LoaderSetup
    way: Way
    code: UserCode
    make_fetcher: FetcherFactory
    position: int
    cache: _native.DecodeCache | None

    @property
    def rng(self) -> str:
        """The loader's value: "torch" or "sample"."""
        return self.setup.settings.rng

    @property
    def has_states(self) -> bool:
        """Whether samples may leave something on the data set, or on its iterator, that a state has to tell."""
        return self.setup.is_of_stream or is_stateful(self.code.dataset)

    @property
    def is_ordered(self) -> bool:
        """Whether a batch depends on those that its worker has made before."""
        return self.rng == "torch" or self.has_states
