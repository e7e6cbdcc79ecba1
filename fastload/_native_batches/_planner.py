"""What is done to the samples of batches, found without loading them."""

from __future__ import annotations

import os

from fastload import _native
from fastload._native_batches._files import FoundFiles, image_sizes
from fastload._native_batches._report import SampleReport, views_of
from fastload._planning._native_plans import NativePlan


class BatchPlanner:
    """Makes the random choices of batches, one after the other, from the headers of their files.

    A file that is damaged behind its header has choices here, and fails where it is loaded.

    Args:
        plan: Of the loader.
        draws: What each worker draws from in its next batch; empty where draws depend on the sample alone.
        position: Number of the next batch in its epoch.
        key: Seed and epoch, where draws depend on the sample alone.
    """

    def __init__(
        self, plan: NativePlan, draws: list[_native.TorchDraws], position: int, key: tuple[int, int] = (0, 0)
    ) -> None:
        seed, epoch = key
        self._source = plan.source
        by_worker: list[_native.TorchDraws | None] = [*draws] or [None]
        self._workers = [_native.DrawPlanner(plan.views, seed=seed, epoch=epoch, draws=each) for each in by_worker]
        self.position = position

    @property
    def draws(self) -> list[_native.TorchDraws]:
        """What each worker draws from in its next batch; empty where nothing is drawn in order."""
        return [draws for worker in self._workers if (draws := worker.draws()) is not None]

    @property
    def next_draws(self) -> _native.TorchDraws | None:
        """What the next batch draws from."""
        return self._workers[self.position % len(self._workers)].draws()

    def pass_over(self, found: FoundFiles) -> None:
        """The next batch, of which nobody wants a report."""
        if self.next_draws is not None:  # else no header has to be read
            self._plan(found)
        self.position += 1

    def report(self, found: FoundFiles) -> list[SampleReport]:
        """That of the next batch; it has no steps, and the size (0, 0), of a sample whose file cannot be opened."""
        worker = self._plan(found)
        self.position += 1
        paths = [os.fsdecode(self._source.table.path_bytes(file)) for file in found.files.tolist()]
        return [
            SampleReport(index, path, "planned", size, views_of(views))
            for index, path, (size, views) in zip(found.indices.tolist(), paths, worker.reports(), strict=True)
        ]

    def pass_within(self, found: FoundFiles, count: int) -> str | None:
        """The first `count` samples of the next batch.

        Returns:
            The path of the first of them that fails; None: none does, as far as headers say.
        """
        failed = self._plan(found.up_to(count)).first_failed()
        return None if failed is None else os.fsdecode(self._source.table.path_bytes(int(found.files[failed])))

    def _plan(self, found: FoundFiles) -> _native.DrawPlanner:
        worker = self._workers[self.position % len(self._workers)]
        worker.plan(found.files, image_sizes(self._source, found.files), found.numbers)
        return worker
