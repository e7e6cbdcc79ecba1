"""One epoch of a native loader, and the engine it runs on."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fastload import _native
from fastload._delivery._batch_memory import BatchMemory, PlacedBatch
from fastload._delivery._hand_over import Delivery
from fastload._errors import LoaderClosedError
from fastload._native_batches._engine import LoaderEngine
from fastload._native_batches._report import SampleReport
from fastload._pillow._failures import exception_of
from fastload._pillow._pillow import serve
from fastload._planning._native_plans import NativePlan
from fastload._planning._torch_draws import uniform_rule
from fastload._process._base_iterator import BaseIterator
from fastload._process._exit import exit_state
from fastload.samplers._lowering import BadIndicesError, lower_batch_sampler, sequential_key


@dataclass(frozen=True)
class _PendingBatch:
    """A batch in flight. The engine keeps it while threads may write to its images.

    Attributes:
        indices: as the sampler gave them, up to the first that is none.
        files: of these.
        labels: of these.
        place: where the engine writes.
        error: what the batch ends in after these, or None.
    """

    indices: NDArray[np.int64]
    files: NDArray[np.int64]
    labels: torch.Tensor
    place: PlacedBatch
    error: Exception | None

    def submission(self) -> tuple[NDArray[np.int64], list[tuple[int, int]], _PendingBatch, _native.BatchCopy | None]:
        """Files, address and bytes of their memory, its owner, and the copy to a device: what the engine takes."""
        return self.files, self.place.parts, self, self.place.copy


class NativeIterator(BaseIterator):
    """Yields [images, labels] as torch's default_collate makes them; images lie where the engine wrote them.

    Of a MultiView: [[images of the first view, ...], labels].
    """

    def __init__(
        self,
        loader: Any,
        engine: LoaderEngine,
        make_plan: Callable[[], NativePlan],
        init_workers: Callable[[int], list[torch.Generator]] | None,
        make_memory: Callable[[NativePlan, bool], BatchMemory],
        delivery: Delivery,
    ) -> None:
        """`loader` is a fastload.DataLoader; the iterator does not keep it.

        `init_workers` gets the base seed and gives the workers' generators, where they are not those that torch seeds;
        the plan is made after it.
        """
        super().__init__(loader)
        self._engine = engine
        self._init_error: BaseException | None = None  # in the place of every batch
        self._generators: list[torch.Generator] | None = None
        if init_workers is not None:
            try:
                self._generators = init_workers(int(self._base_seed))
            except Exception as error:  # noqa: BLE001 - it is raised by the first batch, as in torch
                self._init_error = error.with_traceback(None)
        # As a worker process, which begins in the directory of this moment and stays there.
        self._directory = _native.WorkingDirectory() if self._num_workers > 0 else None
        self._plan = make_plan()
        self._memory = make_memory(self._plan, bool(self._pin_memory))
        self._delivery = delivery
        self._num_taken = 0
        # Two threads may share an iterator: each batch goes to one of them.
        self._lock = threading.Lock()
        self._resets = 0
        self._failed: _native.Batch | None = None  # with its like behind it still to be loaded again
        self._last: tuple[NDArray[np.int64], _native.Batch] | None = None  # the batch handed out last
        self._begun_key: tuple[int, int, bool] | None = (
            None  # of the next epoch, where this one is over and that begins
        )
        self._has_begun_next = False  # with all of its first batches
        self._iteration = self._open_iteration(loader)
        # With workers torch asks the sampler for an iterator twice, and uses the second; samplers may count on it.
        self._start(loader, self._sampler_iter if self._num_workers == 0 else None)

    def _reset(self, loader: Any, first_iter: bool = False) -> None:
        """Begins another epoch on the same iterator; torch calls it for persistent_workers."""
        super()._reset(loader, first_iter)
        self._resets += 1
        self._num_taken = 0
        begun_key = self._begun_key if self._has_begun_next else None
        self._begun_key, self._has_begun_next = None, False
        if begun_key is not None and begun_key == sequential_key(loader.batch_sampler):
            self._last = None
            return
        if self._plan.has_ordered_draws:
            self._finish_epoch()
        else:
            self._iteration.cancel()
            self._iteration = self._open_iteration(loader)
        self._start(loader, self._sampler_iter)

    def _open_iteration(self, loader: Any) -> _native.Iteration:
        plan, engine = self._plan, self._engine.native
        if plan.has_ordered_draws:
            # torch seeds each worker with the base seed and its number. Without workers it draws from its default
            # generator, whose state goes in before each batch and comes out after it.
            seeds = [(int(self._base_seed) + worker) % 2**64 for worker in range(max(1, self._num_workers))]
            draws = [_native.TorchDraws(seed, uniform_rule()) for seed in seeds]
            for worker, generator in zip(draws, self._generators or (), strict=False):
                worker.load(generator.get_state().numpy())
            return engine.open_torch_iteration(plan.source.table.index, plan.views, draws, self._directory)
        seed, epoch = loader._random_key(int(self._base_seed), self._resets)
        return engine.open_iteration(plan.source.table.index, plan.views, seed, epoch, self._directory)

    def _finish_epoch(self) -> None:
        """Lets the batches in flight end, as torch's workers do: they draw, and the next epoch goes on there."""
        self._redo_behind_failed()
        while self._iteration.batches_in_flight:
            self._wait()
            self._redo_behind_failed()
        self._iteration.begin_epoch()

    def _start(self, loader: Any, begun: Iterator[Any] | None) -> None:
        index_batches = lower_batch_sampler(loader, begun)
        assert index_batches is not None, "a loader without batches has no native plan"
        self._last = None
        self._submit_first(index_batches)

    def _begin_next_epoch(self) -> None:
        """Lets the threads begin the epoch that a persistent iterator is likely to be asked for, where that changes
        nothing but the time: the batches are known and neither sampler nor transform draws.

        What is submitted must not be taken for more of this epoch, nor an interrupt or an error leave out batches of
        the next one: unless all of it went well, that begins anew.
        """
        key = sequential_key(self._index_sampler)
        if not (self._persistent_workers and self._num_workers > 0) or key is None or self._begun_key is not None:
            return
        if any(view.is_random for view in self._plan.views):
            return
        index_batches = lower_batch_sampler(SimpleNamespace(batch_sampler=self._index_sampler))
        assert index_batches is not None
        self._begun_key = key
        try:
            self._submit_first(index_batches)
        except Exception:  # noqa: BLE001 - of a batch that nobody has asked for yet
            return
        self._has_begun_next = True

    def _submit_first(self, index_batches: Iterator[NDArray[np.int64]]) -> None:
        self._index_batches = index_batches
        self._is_exhausted = False
        if self._num_workers > 0 and self._init_error is None:
            self._submit_where_room()

    def _submit_where_room(self) -> None:
        """Asks for batches until as many are in flight as may be, or there is no room for another one now."""
        while (
            not self._is_exhausted
            and self._iteration.batches_in_flight < self._engine.settings.max_batches
            and self._memory.has_room()
        ):
            self._submit_next()
        self._look_ahead()

    def _look_ahead(self) -> None:
        if self._delivery.prefetch:
            owners = self._iteration.owners_in_flight(self._delivery.prefetch)
            self._memory.look_ahead([pending.place for pending in owners])

    def _submit_next(self) -> None:
        if self._is_exhausted:
            return
        error: Exception | None = None
        try:
            indices = next(self._index_batches, None)
        except BadIndicesError as bad:
            indices, error = bad.before, bad
        if indices is None:
            self._is_exhausted = True
            return
        pending = self._pending_batch(indices, error)
        if self._num_workers == 0 and self._plan.has_ordered_draws:
            self._iteration.set_draws(self._default_draws())
        # The engine keeps what belongs to a batch, so that an interrupt loses a batch as a whole or not at all.
        self._iteration.submit(*pending.submission())

    def _pending_batch(self, indices: NDArray[np.int64], error: Exception | None) -> _PendingBatch:
        """The batch of `indices`, which ends in `error` if that is not None.

        Where an index is out of range, the samples before it are loaded and draw, as in torch.
        """
        source = self._plan.source
        try:
            files = source.files(indices)
        except (IndexError, ValueError) as outside:
            indices, error = indices[: source.num_valid(indices)], outside
        if error is None and len(indices) == 0:
            error = IndexError("list index out of range: the sampler gave an empty batch")
        if error is not None:
            indices = indices[:0] if source.finds_all_first else indices
            files = source.files(indices)
            error.__context__ = None  # without its frames: they would keep this iterator alive
            error = error.with_traceback(None)
        labels = torch.from_numpy(source.table.labels_of(files))
        return _PendingBatch(indices, files, labels, self._memory.place(labels), error)

    def _next_data(self) -> Any:
        self._engine.check_process("this iterator")
        exit_state.sleep_if_begun()
        if self._init_error is not None:
            raise self._init_error
        with self._lock:
            if self._begun_key is not None:  # what is in flight is the next epoch's
                raise StopIteration
            self._redo_behind_failed()  # what an interrupt has left
            if self._iteration.batches_in_flight == 0:  # else an interrupted wait has left its batch behind
                self._memory.wait_for_room()
                self._submit_next()
            try:
                batch = self._wait()
            except StopIteration:
                self._begin_next_epoch()
                raise
            pending = batch.take_owner()
            if self._plan.has_ordered_draws:
                self._settle_draws(batch, pending)
            if self._num_workers > 0:
                self._submit_where_room()
            number, self._num_taken = self._num_taken, self._num_taken + 1
        if pending.error is None:  # else no batch is reported: its indices ended in the middle
            self._last = pending.indices, batch
        if (failure := batch.error) is not None:
            directory = None if self._directory is None else self._directory.fileno()
            raise exception_of(failure, int(pending.indices[failure["position"]]), directory)
        if pending.error is not None:
            try:
                raise pending.error
            finally:
                del pending  # its error's traceback has this frame
        views, labels = self._memory.deliver(pending.place, number)
        return self._delivery.hand_over([views if self._plan.is_multi_view else views[0], labels], number)

    def _settle_draws(self, batch: _native.Batch, pending: _PendingBatch) -> None:
        """Brings torch's generator to where it is after `batch`."""
        if self._num_workers > 0:
            self._redo_behind_failed()
        elif len(pending.files) and (draws := batch.draws_after()) is not None:
            state = torch.get_rng_state()
            draws.store(state.numpy())
            torch.set_rng_state(state)

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

    def _default_draws(self) -> _native.TorchDraws:
        draws = _native.TorchDraws(0, uniform_rule())
        draws.load(torch.get_rng_state().numpy())
        return draws

    def _wait(self) -> _native.Batch:
        """The oldest batch in flight; StopIteration where there is none."""
        while True:
            result = self._iteration.next(float(self._timeout))
            exit_state.sleep_if_begun()
            if isinstance(result, _native.Batch):
                if self._num_workers > 0 and self._plan.has_ordered_draws and result.error is not None:
                    self._failed = result
                return result
            if result is None:
                raise RuntimeError(f"DataLoader timed out after {self._timeout} seconds")
            if isinstance(result, str):
                raise LoaderClosedError(result)
            serve(result)

    def batch_report(self) -> list[SampleReport]:
        """What was done to each sample of the batch returned last, in its order; empty before the first.

        Example:
            >>> images, labels = next(iterator)
            >>> iterator.batch_report()[0].steps
            [('crop', 12, 40, 300, 280, 0, 0, 0, 0), ('resize', 224, 224, 'bilinear'), ('hflip',)]
        """
        if self._last is None:
            return []
        indices, batch = self._last
        return [
            SampleReport(index, os.fsdecode(path), "fallback" if is_by_fallback else "native", size, views)
            for index, (path, is_by_fallback, size, views) in zip(indices.tolist(), batch.reports(), strict=True)
        ]
