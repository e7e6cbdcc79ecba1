"""fastload.DataLoader instead of the reference: another import, and no other change but the random numbers' mode."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from benchmarks._protocol import LoaderSettings, SampleReport
from benchmarks.contenders._base import Batches, Contender
from benchmarks.contenders._torch_common import image_folder, open_loader, pil_transform


class FastloadLoader(Contender):
    promises_equal_bytes = True
    packages = ("torch", "torchvision", "pillow", "numpy", "fastload")

    def unavailable_because(self) -> str | None:
        try:
            pil_transform("eval")
            import fastload

            fastload.build_info()
        except (ImportError, ValueError) as error:
            return f"{type(error).__name__}: {error}"
        return None

    def details(self) -> dict[str, str]:
        import fastload

        return {"build_info": str(fastload.build_info())}

    def open(self, settings: LoaderSettings) -> Batches:
        dataset = image_folder(settings, pil_transform(settings.mode, settings.output))
        from fastload import DataLoader

        # A persistent evaluation begins its next epoch when one ends: outside the timed part.
        settings = replace(settings, persistent_workers=False)
        return open_loader(DataLoader, dataset, settings, rng="sample", seed=settings.seed, cache=self.cache(settings))

    def cache(self, settings: LoaderSettings) -> Any:
        """Returns the argument of that name. Its default keeps an index of each file for later epochs."""
        return "auto"

    def options(self, loader: Any) -> dict[str, Any]:
        return {**super().options(loader), "explain": loader.explain()}

    def reports(self, iterator: Any) -> list[SampleReport] | None:
        return [
            SampleReport(int(sample.index), str(sample.path), str(sample.source), tuple(map(tuple, sample.steps)))
            for sample in iterator.batch_report()
        ]

    def stats(self, loader: Any) -> dict[str, Any]:
        return dict(loader.stats().as_dict())
