"""What the lowering of one transform takes and gives: its surroundings, steps, or why it runs in Python."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fastload import _native

Family = Literal["v1", "v2"]
Size = tuple[int, int]  # (height, width)
PlacedStep = tuple[int, _native.Step]  # with the position of its transform in the flattened pipeline


@dataclass(frozen=True)
class StageContext:
    """What a transform's steps can depend on besides the transform.

    Attributes:
        family: "v1" for torchvision.transforms, "v2" for torchvision.transforms.v2.
        size: Of every image that comes in; None where it depends on the file.
    """

    family: Family
    size: Size | None


class RunsInPythonError(Exception):
    """Why a transform has no native form.

    Args:
        why: As a clause.
        native: What would be native, as a clause; None where the first says it.
    """

    def __init__(self, why: str, native: str | None = None) -> None:
        super().__init__(why if native is None else f"{why}; native: {native}")
