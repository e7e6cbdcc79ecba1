"""How an iteration makes its batches in Python."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fastload._iteration._fingerprint import fingerprint_of_loader
from fastload._iteration._saved_state import Way
from fastload._iteration._setup import LoaderSetup
from fastload._iteration.python._fetcher import FetchPlan
from fastload._resume._user_state import is_stateful
from fastload._workers._user_code import UserCode


@dataclass(frozen=True)
class PythonPlan:
    """How an iteration makes its batches in Python.

    Attributes:
        setup: The loader's arguments and what follows from them.
        code: The user's code, and the samples that native code begins.
        fetch: The way in which each worker makes batches of them.
    """

    setup: LoaderSetup
    code: UserCode
    fetch: FetchPlan

    @property
    def way(self) -> Way:
        """The way in which batches are made, as states name it."""
        return "python" if self.code.samples is None else "tail"

    @property
    def rng(self) -> str:
        """The loader's argument `rng`: "torch" or "sample"."""
        return self.fetch.rng

    def new_fingerprint(self) -> Callable[[], dict[str, Any]]:
        """Returns a function that makes the loader's fingerprint once. It does not keep the plan, as states keep it."""
        setup = self.setup
        return functools.cache(
            functools.partial(fingerprint_of_loader, self.code.dataset, setup.index_sampler, setup.errors)
        )

    @property
    def has_states(self) -> bool:
        """Whether samples may change the data set or its iterator, so that a state has to save them."""
        return self.setup.is_of_stream or is_stateful(self.code.dataset)

    @property
    def is_ordered(self) -> bool:
        """Whether a batch depends on the batches that its worker made before."""
        return self.rng == "torch" or self.has_states
