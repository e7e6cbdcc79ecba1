"""fastload.decode_image without vector kernels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from benchmarks.contenders.decode_fastload import DecodeFastload


class DecodeFastloadScalar(DecodeFastload):
    environment: ClassVar[Mapping[str, str]] = {"FASTLOAD_SIMD": "scalar"}
