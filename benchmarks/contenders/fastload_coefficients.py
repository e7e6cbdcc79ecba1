"""fastload with the coefficients of each JPEG file in a store on disk, which is filled before anything is timed."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, ClassVar, Literal

from benchmarks._protocol import LoaderSettings
from benchmarks.contenders._base import Batches, list_samples
from benchmarks.contenders.fastload_loader import FastloadLoader

_SETTLING_SECONDS = 62
"""Younger files have no coefficients."""


class FastloadCoefficients(FastloadLoader):
    kept: ClassVar[Literal["coefficients", "pixels"]] = "coefficients"

    def __init__(self) -> None:
        self._filled: set[str] = set()

    def cache(self, settings: LoaderSettings) -> Any:
        import fastload

        return fastload.Cache(Path(settings.cache) / f"fastload-{self.kept}", "4GB", what=self.kept)

    def open(self, settings: LoaderSettings) -> Batches:
        """Opens a loader; the first one over a folder fills the store from which compared batches come."""
        loader = super().open(settings)
        if settings.data not in self._filled:
            youngest = max(Path(path).stat().st_ctime for path, _ in list_samples(settings))
            time.sleep(max(0.0, youngest + _SETTLING_SECONDS - time.time()))
            filled: Any = loader
            filled.cache.fill(filled, progress=False)
            self._filled.add(settings.data)
        return loader
