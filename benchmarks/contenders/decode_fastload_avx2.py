"""fastload.decode_image with its AVX2 kernels, as on processors without AVX-512."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from benchmarks.contenders.decode_fastload import DecodeFastload


class DecodeFastloadAvx2(DecodeFastload):
    environment: ClassVar[Mapping[str, str]] = {"FASTLOAD_SIMD": "avx2"}
