"""Properties of Pillow's arithmetic by version. It takes the version as text and does not import Pillow."""

from __future__ import annotations

import re
from typing import Literal

# The filters for resizing, by Pillow's integers, and the ones among them that its affine transforms take.
FILTERS = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic", 4: "box", 5: "hamming"}
AFFINE_FILTERS = {number: FILTERS[number] for number in (0, 2, 3)}

ResizeOrder = Literal["horizontal_first", "pillow12_2", "pillow13"]


def resize_order(version: str) -> ResizeOrder:
    """Returns which pass of a resize Pillow `version` runs first, by the name that ``TransformPlan`` takes.

    The order changes results by one grey level here and there. Up to 12.1 the horizontal pass is always first. 12.2 and
    12.3 run the vertical one first for images over 100 times as high as wide, and 13.0 for every image that loses rows,
    and more than twice as many rows as columns. pillow-simd resizes with shorter coefficients and is no reference for a
    resize: there it is plain Pillow of the same version, and pillow-simd only decodes. Raises ValueError if `version`
    does not start with a major and a minor number.
    """
    match = re.match(r"(\d+)\.(\d+)", version)
    if match is None:
        raise ValueError(f"version must be a Pillow version such as '13.0.0', got {version!r}")
    release = (int(match[1]), int(match[2]))
    if release >= (13, 0):
        return "pillow13"
    return "pillow12_2" if release >= (12, 2) else "horizontal_first"
