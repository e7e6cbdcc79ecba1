"""fastload with its AVX2 kernels, as on processors without AVX-512."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from benchmarks.contenders.fastload_loader import FastloadLoader


class FastloadAvx2(FastloadLoader):
    environment: ClassVar[Mapping[str, str]] = {"FASTLOAD_SIMD": "avx2"}
