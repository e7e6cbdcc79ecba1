"""What is done to the samples of batches, found without loading them."""

from __future__ import annotations

import os
from typing import NamedTuple

from fastload import _native
from fastload._errors import SampleError, sample_error
from fastload._iteration.native._files import FoundFiles, image_sizes
from fastload._iteration.native._pending_batch import SampleNames
from fastload._iteration.native._report import SampleReport, views_of
from fastload._planning._native_plans import NativePlan
from fastload._quarantine._failure import Failure
from fastload._quarantine._repair import BatchRepair, FailedPlace, Handling, Unrepairable


class _Planned(NamedTuple):
    """A batch whose choices are made.

    Attributes:
        worker: That has made them.
        names: Of its samples.
        failed: Path of the one whose error ends it; None: there is none, as far as headers say.
    """

    worker: _native.DrawPlanner
    names: SampleNames
    failed: str | None


class BatchPlanner:
    """Makes the random choices of batches, one after the other, from the headers of their files.

    A file that is damaged behind its header has choices here, and fails where it is loaded.

    Args:
        plan: Of the loader.
        draws: What each worker draws from in its next batch; empty where draws depend on the sample alone.
        position: Number of the next batch in its epoch.
        key: Seed and epoch, where draws depend on the sample alone.
        handling: Of bad samples; None: they are errors.
    """

    def __init__(
        self,
        plan: NativePlan,
        draws: list[_native.TorchDraws],
        position: int,
        key: tuple[int, int] = (0, 0),
        handling: Handling | None = None,
    ) -> None:
        seed, epoch = key
        self._source = plan.source
        self._handling = handling
        by_worker: list[_native.TorchDraws | None] = [*draws] or [None]
        self._workers = [
            _native.DrawPlanner(plan.views, seed=seed, epoch=epoch, draws=each, first_steps=plan.first_steps)
            for each in by_worker
        ]
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
        worker, names, _ = self._plan(found)
        self.position += 1
        return [
            SampleReport(index, path, "planned", size, views_of(views), names.replaced.get(position))
            for position, (index, path, (size, views)) in enumerate(
                zip(names.indices.tolist(), self._paths(names), worker.reports(), strict=True)
            )
        ]

    def pass_within(self, found: FoundFiles, count: int) -> str | None:
        """The first `count` samples of the next batch.

        Returns:
            The path of the one among them whose error ends the batch; None: there is none, as far as headers say.
        """
        return self._plan(found.up_to(count)).failed

    def _paths(self, names: SampleNames) -> list[str]:
        table = self._source.table
        return [os.fsdecode(table.path_bytes(file)) for file in self._source.files(names.indices).tolist()]

    def _plan(self, found: FoundFiles) -> _Planned:
        worker = self._workers[self.position % len(self._workers)]
        worker.plan(found.files, image_sizes(self._source, found.files), draw_numbers=found.numbers)
        if self._handling is None:
            names = SampleNames(found.indices, {})
            failed = self._failed(worker, names)
            return _Planned(worker, names, _path_of(failed[0].error) if failed else None)
        repair = BatchRepair(*self._handling, found.indices, {})
        while True:
            names = SampleNames(repair.loaded, repair.replaced)
            failed, revived = self._failed(worker, names), worker.revived()
            if not failed and not revived:
                return _Planned(worker, names, None)
            next_repair = repair.after(failed, revived, _nothing_known)
            if isinstance(next_repair, Unrepairable):
                return _Planned(worker, names, _path_of(next_repair.error))
            repair = next_repair
            files = self._source.files(repair.loaded)
            lost_draws = [] if worker.draws() is None else repair.lost_draws
            worker.take_back()
            worker.plan(files, image_sizes(self._source, files), lost_draws, repair.numbers_of_loaded(found.numbers))

    def _failed(self, worker: _native.DrawPlanner, names: SampleNames) -> list[FailedPlace]:
        failed = worker.failed()
        if not failed:
            return []
        paths = self._paths(names)
        return [
            FailedPlace(
                position,
                sample_error(int(names.indices[position]), paths[position], "header", "as its header says"),
                drawn_size,
            )
            for position, drawn_size in failed
        ]


def _path_of(error: BaseException) -> str:
    assert isinstance(error, SampleError), "of a header"
    return error.path


def _nothing_known(index: int) -> Failure | None:
    return None
