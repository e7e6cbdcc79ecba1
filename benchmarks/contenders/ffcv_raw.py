"""FFCV, from a copy of the data in its own format that holds each image's pixels: no decoding, at several times the
bytes. The copy is made once per data folder and is not timed.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from benchmarks.contenders.ffcv import Ffcv


class FfcvRaw(Ffcv):
    write_mode: ClassVar[Literal["jpg", "raw"]] = "raw"
