"""fastload without a cache: each image is read and decoded as the first time."""

from __future__ import annotations

from typing import Any

from benchmarks._protocol import LoaderSettings
from benchmarks.contenders.fastload_loader import FastloadLoader


class FastloadFirstEpoch(FastloadLoader):
    def cache(self, settings: LoaderSettings) -> Any:
        return None
