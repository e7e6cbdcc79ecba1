"""fastload without vector kernels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from benchmarks.contenders.fastload_loader import FastloadLoader


class FastloadScalar(FastloadLoader):
    environment: ClassVar[Mapping[str, str]] = {"FASTLOAD_SIMD": "scalar"}
