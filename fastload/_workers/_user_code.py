"""The user's objects that workers call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

# The names that a user knows the objects of UserCode.roots by. Saved states have paths that begin with them.
NAMES = ("dataset", "collate_fn", "worker_init_fn", "transforms", "transform", "target_transform")


class UserCode(NamedTuple):
    """The user's objects that workers call.

    Attributes:
        collate_fn: Called with the list of samples, or with one sample if there are no batches.
        init_fn: worker_init_fn.
        samples: A NativeSamples that is asked for samples instead of the data set, or None.
    """

    dataset: Any
    collate_fn: Callable[[Any], Any]
    init_fn: Callable[[int], None] | None = None
    samples: Any = None

    @property
    def roots(self) -> tuple[Any, ...]:
        """The user's own objects, in the order of NAMES."""
        samples = self.samples
        own = (None,) * 3 if samples is None else (samples.python_part, samples.transform, samples.target_transform)
        return (self.dataset, self.collate_fn, self.init_fn, *own)

    def of_worker(self, **more: Any) -> UserCode:
        """Returns the same objects with samples of a worker's own, which have `more` as their attributes."""
        return self if self.samples is None else self._replace(samples=replace(self.samples, **more))
