"""What a native loader does, in the form that the engine takes."""

from __future__ import annotations

from dataclasses import dataclass

from fastload import _native
from fastload._delivery._batch_memory import ViewForm
from fastload.sources._lowering import LoweredSource


@dataclass(frozen=True)
class NativePlan:
    """A loader's work in the form the engine takes.

    Attributes:
        source: the dataset as arrays.
        index: its paths.
        views: steps, output type and layout of what is made of each image.
        forms: what is written for each view, and what the user gets.
        is_multi_view: whether a sample has a list of views; else it has the one view itself.
        draws_as_torch: whether random choices are those that torch would draw; else the counter makes them.
    """

    source: LoweredSource
    index: _native.SampleIndex
    views: tuple[_native.TransformPlan, ...]
    forms: tuple[ViewForm, ...]
    is_multi_view: bool
    draws_as_torch: bool

    @property
    def has_ordered_draws(self) -> bool:
        """Whether samples draw from torch's generators, one after the other."""
        return self.draws_as_torch and any(view.is_random for view in self.views)
