"""Inputs and results of lowering one transform: its surroundings, its steps, or the reason why it runs in Python."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fastload import _native

Family = Literal["v1", "v2"]  # torchvision.transforms and torchvision.transforms.v2
Size = tuple[int, int]  # (height, width)
PlacedStep = tuple[int, _native.Step]  # with the position of its transform in the flattened pipeline


@dataclass(frozen=True)
class StageContext:
    """The family of a transform, and the size of every input image; None if it depends on the file."""

    family: Family
    size: Size | None


class RunsInPythonError(Exception):
    """A transform has no native form: `why`, and if that does not say it, the values that are `native`, as clauses."""

    def __init__(self, why: str, native: str | None = None) -> None:
        super().__init__(why if native is None else f"{why}; native: {native}")
