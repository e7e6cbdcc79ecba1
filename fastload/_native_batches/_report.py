"""Report on the samples of a native batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class SampleReport:
    """What was done to one sample of a batch.

    Attributes:
        index: in the dataset.
        path: as given to the system.
        source: "native", or "fallback" where Pillow decoded it.
        source_size: (width, height) of the decoded image in pixels.
        views: for each view of a MultiView, else for the one result, the transform with its random choices resolved, in
            order. Positions and sizes are pixels, fills are (red, green, blue). Geometry:
            ("crop", left, top, width, height, pad_left, pad_top, pad_right, pad_bottom),
            pads being zeros around what was cropped; ("resize", width, height, interpolation); ("hflip",); ("vflip",);
            ("pad", left, top, right, bottom, padding_mode, fill); ("affine", a, b, c, d, e, f, fill), the matrix as in
            Pillow's Image.transform, to the nearest pixel; ("rotate90",), ("rotate180",), ("rotate270",). Colours:
            ("brightness", factor), and in the same form "contrast", "saturation", "sharpness" and "hue";
            ("posterize", bits); ("solarize", threshold); ("autocontrast",); ("equalize",); ("invert",);
            ("grayscale",). Last, on the finished tensor: ("erase", left, top, width, height, value), value being the
            bytes of three elements.
    """

    index: int
    path: str
    source: str
    source_size: tuple[int, int]
    views: list[list[tuple[Any, ...]]]

    @property
    def steps(self) -> list[tuple[Any, ...]]:
        """Those of the first view."""
        return self.views[0]
