"""Batches of a native iteration that are loaded again, and when."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import torch

from fastload import _native
from fastload._delivery._batch_memory import BatchMemory
from fastload._errors import LoaderClosedError
from fastload._iteration.native._files import FoundFiles
from fastload._iteration.native._pending_batch import PendingBatch
from fastload._iteration.native._repairs import BatchRepairs
from fastload._iteration.native._stateful_iterator import StatefulIterator
from fastload._pillow._failures import exception_of
from fastload._pillow._pillow import serve
from fastload._process._exit import exit_state
from fastload._process._interrupts import keep
from fastload._quarantine._failure import Account
from fastload._quarantine._guard import pause_before
from fastload._quarantine._repair import BatchRepair, Unrepairable
from fastload.samplers._draw_numbers import Numbers


class ReloadingIterator(StatefulIterator):
    """The part of NativeIterator that waits for batches, and loads some of them again."""

    _memory: BatchMemory
    _owners: list[PendingBatch]  # of the batch that has arrived
    _repairs: BatchRepairs | None
    _directory: _native.WorkingDirectory | None

    def _wait(self) -> None:
        """Lets the oldest batch in flight arrive, if there is one and none has arrived. Bad samples were replaced or
        left out in it, where that is to be done and can be."""
        self._wait_for_engine()
        while self._repairs is not None and self._arrived and not self._arrived[0].is_whole:
            if not self._load_again(self._repairs):
                return
            self._wait_for_engine()

    def _wait_for_engine(self) -> None:
        while not (self._arrived and isinstance(self._arrived[0], _native.Batch)):
            if not self._arrived:
                keep(self._arrived, self._iteration.next, float(self._timeout))
                exit_state.sleep_if_begun()
                if not self._arrived:
                    return
                continue
            result, self._arrived = self._arrived[0], []
            if result is None:
                raise RuntimeError(f"DataLoader timed out after {self._timeout} seconds")
            if isinstance(result, str):
                raise LoaderClosedError(result)
            serve(result)

    def _take_owner(self) -> PendingBatch:
        """Of the batch that has arrived."""
        if not self._owners:
            keep(self._owners, self._arrived[0].take_owner)
        return self._owners[0]

    def _pending_batch(self, found: FoundFiles) -> PendingBatch:
        repair = None if self._repairs is None else self._repairs.planned(found.indices)
        if repair is None or not repair.places:
            labels = torch.from_numpy(self._plan.source.table.labels_of(found.files))
            begun_ns = 0 if repair is None else time.time_ns()
            place = self._memory.place(labels)
            return PendingBatch(found.indices, found.files, labels, place, found.error, found.numbers, repair, begun_ns)
        labels = self._labels_of(repair)
        return self._repaired(repair, labels, self._memory.place(labels), found.error, found.numbers)

    def _labels_of(self, repair: BatchRepair) -> torch.Tensor:
        source = self._plan.source
        return torch.from_numpy(source.table.labels_of(source.files(repair.loaded)))

    def _repaired(
        self, repair: BatchRepair, labels: torch.Tensor, place: Any, error: Exception | None, numbers: Numbers | None
    ) -> PendingBatch:
        files = self._plan.source.files(repair.loaded)
        return PendingBatch(repair.loaded, files, labels, place, error, numbers, repair, time.time_ns())

    def _load_again(self, repairs: BatchRepairs) -> bool:
        """Submits the batch that has arrived once more, without the samples that have failed; False: it is an error.

        With draws in order so are the batches behind it, which have drawn as if those had not failed.
        """
        batch, pending = self._arrived[0], self._take_owner()
        assert pending.repair is not None, "there are repairs"
        repair = repairs.after(pending.repair, batch, pending.begun_ns)
        if isinstance(repair, Unrepairable):
            return False
        if repair.pause is not None:
            pause_before(repair.pause)
        labels = self._labels_of(repair)
        if self._plan.has_ordered_draws:
            behind = self._iteration.owners_behind(batch)
            place, *places = self._memory.place_again([labels, *(other.labels for other in behind)])
            behind = [replace(other, place=its_place) for other, its_place in zip(behind, places, strict=True)]
        else:
            self._memory.wait_for_room()
            behind, place = [], self._memory.place(labels)
        again = self._repaired(repair, labels, place, pending.error, pending.numbers)
        if not self._iteration.submit_again(
            batch,
            again.submission(),
            repair.lost_draws,
            [other.submission() for other in behind],
            [self._arrived, self._owners],
        ):
            raise LoaderClosedError("the loader was closed; iterate over it again to start anew")
        self._look_ahead()
        return True

    def _error_of(self, batch: _native.Batch, pending: PendingBatch) -> tuple[BaseException, Account | None]:
        """What comes in the place of a batch, and what that tells of its samples."""
        if batch.is_whole:
            error = pending.final_error
            assert error is not None, "there is one"
            return error, None if pending.repair is None else pending.repair.account
        if self._repairs is not None and pending.repair is not None:
            found = self._repairs.after(pending.repair, batch, pending.begun_ns)
            assert isinstance(found, Unrepairable), "else it was loaded again"
            return found
        failure = batch.error
        assert failure is not None, "it is not whole"
        directory = None if self._directory is None else self._directory.fileno()
        return exception_of(failure, int(pending.indices[failure["position"]]), directory), None

    def _note_failed(self, batch: _native.Batch) -> None:
        if self._num_workers > 0 and self._plan.has_ordered_draws and batch.error is not None:
            self._failed = batch

    def _redo_behind_failed(self) -> None:
        """Loads the batches again that share draws with a failed one: a sample that fails draws nothing, nor do those
        behind it, which could not be known when the later batches began. After an interrupt it may be called again."""
        if self._failed is None:
            return
        behind = self._iteration.owners_behind(self._failed)
        places = self._memory.place_again([pending.labels for pending in behind])
        again = [replace(pending, place=place) for pending, place in zip(behind, places, strict=True)]
        self._iteration.restart(self._failed, [pending.submission() for pending in again])
        self._failed = None
        self._look_ahead()

    def _look_ahead(self) -> None:
        if self._delivery.prefetch:
            owners = self._iteration.owners_in_flight(self._delivery.prefetch)
            self._memory.look_ahead([pending.place for pending in owners])
