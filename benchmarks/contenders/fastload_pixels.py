"""fastload with each image as it is after the first steps, resizing and cropping, in a store on disk."""

from __future__ import annotations

from typing import ClassVar, Literal

from benchmarks.contenders.fastload_coefficients import FastloadCoefficients


class FastloadPixels(FastloadCoefficients):
    kept: ClassVar[Literal["coefficients", "pixels"]] = "pixels"
