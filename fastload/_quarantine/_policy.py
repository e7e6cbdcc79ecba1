"""The policy for samples that cannot be loaded."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from torch.utils.data import IterableDataset

_MAX_RETRIES = 100


@dataclass(frozen=True)
class ErrorPolicy:
    """The arguments of fastload.DataLoader about bad samples, described in docs/arguments.md.

    Raises ValueError or TypeError for an invalid argument, with what is allowed.
    """

    on_error: Literal["raise", "replace", "skip"] = "raise"
    substitutes: Sequence[int] | Literal["all"] | None = None
    retries: int = 0
    max_errors: float = 0.01
    ledger: str | os.PathLike[str] | None = None

    def __post_init__(self) -> None:
        if self.on_error not in ("raise", "replace", "skip"):
            raise ValueError(f"on_error must be 'raise', 'replace' or 'skip', got {self.on_error!r}")
        if isinstance(self.retries, bool) or not isinstance(self.retries, int) or not 0 <= self.retries <= _MAX_RETRIES:
            raise ValueError(f"retries must be an int from 0 to {_MAX_RETRIES}, got {self.retries!r}")
        is_number = isinstance(self.max_errors, (int, float)) and not isinstance(self.max_errors, bool)
        if not is_number or math.isnan(self.max_errors) or not 0 <= self.max_errors <= 1:
            raise ValueError(f"max_errors is a share of the samples, from 0.0 to 1.0, got {self.max_errors!r}")
        if self.ledger is not None and not isinstance(self.ledger, (str, os.PathLike)):
            raise TypeError(f"ledger must be None or the path of a file, got {self.ledger!r}")
        self._check_substitutes()
        for name in () if self.is_active else ("retries", "ledger", "max_errors"):
            if (value := getattr(self, name)) != getattr(ErrorPolicy, name):
                raise ValueError(f"{name}={value!r} needs on_error='replace' or 'skip', got on_error='raise'")

    def _check_substitutes(self) -> None:
        given = self.substitutes
        if given is None:
            return
        if self.on_error != "replace":
            raise ValueError(f"substitutes needs on_error='replace', got on_error={self.on_error!r}; leave it out")
        if isinstance(given, str) and given != "all":
            raise ValueError(f"substitutes must be 'all' or a sequence of indices, got {given!r}")
        if not isinstance(given, str) and len(given) == 0:
            raise ValueError("substitutes is empty: name the indices that may stand in, or 'all'")

    @property
    def is_active(self) -> bool:
        """Whether a sample that cannot be loaded raises no error."""
        return self.on_error != "raise"


def check_policy(policy: ErrorPolicy, dataset: object, *, is_batched: bool) -> None:
    """Raises ValueError if samples of `dataset` cannot be replaced or left out."""
    if not policy.is_active:
        return
    if isinstance(dataset, IterableDataset):
        raise ValueError(
            f"on_error={policy.on_error!r} needs a data set with __getitem__: a stream ({type(dataset).__qualname__}) "
            "can give neither a substitute nor the sample after a bad one. Catch the error in its __iter__"
        )
    if policy.on_error == "skip" and not is_batched:
        raise ValueError("on_error='skip' shortens batches, and batch_size=None makes none; use 'replace'")
