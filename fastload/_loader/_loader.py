"""fastload.DataLoader: torch's loader, with native threads for the data sets and transforms that it recognises."""

from __future__ import annotations

import copy
import os
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, Literal, TypeVar, cast

import torch
import torch.utils.data
from torch.utils.data import Dataset, IterableDataset, Sampler

from fastload._decode_cache._cache import Cache, NoPixelsError, for_loader, kinds_of
from fastload._decode_cache._loader_cache import CacheSetting
from fastload._decode_cache._store import ImageFiles, RecordKind
from fastload._display._stats import LoaderStats
from fastload._iteration._iterator import EpochIterator
from fastload._iteration._settings import LoaderSettings, check_settings
from fastload._iteration.native._report import SampleReport
from fastload._loader._addresses import AddressedBatches, batches_at, sample_at
from fastload._loader._current import CurrentLoader
from fastload._loader._explanation import Explanation, describe, explain_loader
from fastload._loader._iterators import new_iterator
from fastload._loader._removed_arguments import refuses_removed
from fastload._loader._resuming import (
    follow_sampler,
    load_state,
    prepare_iteration,
    state_of,
    take_begun,
)
from fastload._loader._state import LoaderState, NextEpoch, begin_recent
from fastload._loader._steps import StepsIterator
from fastload._process import _config
from fastload._process._distributed import warn_of_unsharded
from fastload._process._limits import num_auto_workers, num_available
from fastload.samplers._seeded_shuffle import SeededShuffle
from fastload.samplers._sharded_sampler import ShardedSampler
from fastload.sources._lowering import FilePaths, NotLoweredError, lower_dataset
from fastload.transforms._first_steps import NoFirstStepsError

T_co = TypeVar("T_co", covariant=True)


class DataLoader(torch.utils.data.DataLoader[T_co], Generic[T_co]):
    """Loads the same batches as torch.utils.data.DataLoader, in threads or processes.

    Batches are byte-equal to torch's. Native code loads image files with torchvision's transforms; Python workers load
    all other data sets. explain() says what runs natively. docs/arguments.md describes each argument.

    Args:
        dataset: as in torch.
        batch_size: as in torch.
        shuffle: as in torch.
        sampler: as in torch.
        batch_sampler: as in torch.
        num_workers: threads or processes; "auto": one per processor.
        collate_fn: as in torch.
        pin_memory: as in torch.
        drop_last: as in torch.
        timeout: as in torch, in seconds.
        worker_init_fn: as in torch.
        multiprocessing_context: for processes.
        generator: as in torch.
        prefetch_factor: as in torch.
        persistent_workers: as in torch.
        pin_memory_device: ignored, as in torch.
        in_order: as in torch; native batches always are.
        worker_method: as in torch.
        workers: "threads", "processes" or "auto" run the Python parts.
        native_images: decode JPEG files that your code opens natively.
        num_streams: workers for an IterableDataset; None: num_workers.
        steps: batches per epoch; None: one pass over the data.
        rng: "torch": random numbers as in torch. "sample": they depend only on seed, epoch and sample.
        seed: for rng="sample"; None: torch's base seed.
        memory_format: of native images: torch.contiguous_format or torch.channels_last.
        device: GPU that batches are copied to; None: the host.
        device_prefetch: batches copied ahead; None: 2.
        device_transform: called with each batch; the loader returns its result.
        on_error: "raise", or "replace" or "skip" bad samples.
        substitutes: samples that may replace bad ones, or "all".
        retries: how often to retry after a storage error.
        max_errors: share of bad samples above which the run ends.
        ledger: file that lists bad samples.
        snapshot_every_n_steps: as in torchdata.
        cache: "auto", or a Cache: later epochs decode less.

    Attributes:
        epoch: number of the next epoch, from 0.

    Iterating yields what collate_fn returns. Native batches are [images, labels]: images [batch, 3, height, width] with
    the transform's dtype, labels int64 [batch]. The tensors are yours; they are never overwritten.

    Raises:
        ValueError, TypeError: as in torch, and for invalid arguments.
        RuntimeError: from iter() if `device` cannot be used; from next() as TooManyErrors, or if a process died.
        SampleError: from next() if a sample cannot be loaded; the next call gives the next batch.
        DeviceError: from next() if a batch did not reach the device.

    Example:
        >>> loader = fastload.DataLoader(dataset, batch_size=4, shuffle=True, num_workers=2)
        >>> for images, labels in loader:
        ...     train(images, labels)
    """

    # These are set through vars(); see LoaderSettings.
    workers: Literal["auto", "threads", "processes"]
    native_images: bool
    num_streams: int | None
    steps: int | None
    rng: Literal["torch", "sample"]
    seed: int | None
    memory_format: torch.memory_format
    device: Any
    device_prefetch: int | None
    device_transform: Callable[[Any], Any] | None
    on_error: Literal["raise", "replace", "skip"]
    substitutes: Sequence[int] | Literal["all"] | None
    retries: int
    max_errors: float
    ledger: str | os.PathLike[str] | None
    snapshot_every_n_steps: int
    cache: CacheSetting
    epoch = NextEpoch()

    @refuses_removed
    def __init__(
        self,
        dataset: Dataset[T_co],
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Sampler[Any] | Iterable[Any] | None = None,
        batch_sampler: Sampler[list[Any]] | Iterable[list[Any]] | None = None,
        num_workers: int | Literal["auto"] = 0,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: Any = None,
        generator: torch.Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
        worker_method: str = "multiprocessing",
        workers: Literal["auto", "threads", "processes"] = "auto",
        native_images: bool = True,
        num_streams: int | None = None,
        steps: int | None = None,
        rng: Literal["torch", "sample"] = "torch",
        seed: int | None = None,
        memory_format: torch.memory_format = torch.contiguous_format,
        device: torch.device | str | int | None = None,
        device_prefetch: int | None = None,
        device_transform: Callable[[Any], Any] | None = None,
        on_error: Literal["raise", "replace", "skip"] = "raise",
        substitutes: Sequence[int] | Literal["all"] | None = None,
        retries: int = 0,
        max_errors: float = 0.01,
        ledger: str | os.PathLike[str] | None = None,
        snapshot_every_n_steps: int = 1,
        cache: Literal["auto"] | Cache | None = "auto",
    ) -> None:
        settings = LoaderSettings(
            workers=workers,
            native_images=native_images,
            num_streams=num_streams,
            steps=steps,
            rng=rng,
            seed=seed,
            memory_format=memory_format,
            device=device,
            device_prefetch=device_prefetch,
            device_transform=device_transform,
            on_error=on_error,
            substitutes=substitutes,
            retries=retries,
            max_errors=max_errors,
            ledger=ledger,
            snapshot_every_n_steps=snapshot_every_n_steps,
            cache=cache,
        )
        check_settings(settings, dataset)
        self._fastload = LoaderState(settings, DataLoader)
        self._show(settings)
        self.worker_method = worker_method
        # torch before 2.6 has no in_order, and torch 2.13 has no worker_method: pass only what its signature has.
        newer_arguments: dict[str, Any] = {"in_order": in_order} if _config.torch_loader_has("in_order") else {}
        if _config.torch_loader_has("worker_method"):
            newer_arguments["worker_method"] = worker_method
        elif worker_method != "multiprocessing":
            raise TypeError("DataLoader.__init__() got an unexpected keyword argument 'worker_method'")
        if workers == "processes" and worker_method != "multiprocessing":
            raise ValueError(f"worker_method={worker_method!r} contradicts workers='processes': leave out one of them")
        if num_workers == "auto":
            num_workers = num_auto_workers()
        is_map = not isinstance(dataset, IterableDataset)
        if shuffle and settings.is_seeded and sampler is None and batch_sampler is None and is_map:
            shuffle, sampler = None, SeededShuffle(dataset, cast(int, seed))
        super().__init__(
            dataset,
            batch_size,
            shuffle,
            sampler,
            batch_sampler,
            num_workers,
            collate_fn,
            pin_memory,
            drop_last,
            timeout,
            worker_init_fn,
            multiprocessing_context,
            generator,
            prefetch_factor=prefetch_factor,
            persistent_workers=persistent_workers,
            pin_memory_device=pin_memory_device,
            **newer_arguments,
        )
        self.in_order = in_order

    # ---- settings --------------------------------------------------------------------------------------------------

    def _show(self, settings: LoaderSettings) -> None:
        """Sets the settings as attributes, in vars(self) for frameworks, unless a derived class has that name."""
        for name, value in vars(settings).items():
            if not hasattr(type(self), name):
                vars(self).setdefault(name, value)

    # ---- what runs -------------------------------------------------------------------------------------------------

    def explain(self) -> Explanation:
        """Explains for each stage whether it is native and, if not, why and what to change.

        Returns:
            A str whose first line is the verdict. It has the same content as fields: verdict, rows, as_dict().
            Notebooks show it as a table.

        Example:
            >>> explanation = fastload.DataLoader(dataset, num_workers=1).explain()
            >>> explanation.verdict
            'native: batches are read, decoded and transformed by one thread'
            >>> [row.stage for row in explanation.rows if not row.is_native]
            []
        """
        now = CurrentLoader(self)
        return explain_loader(now, now.plan())

    # ---- iteration -------------------------------------------------------------------------------------------------

    def __iter__(self) -> Any:
        """Starts an epoch; with persistent_workers it returns the same iterator object each time, as torch does.

        With `steps`, it returns an iterator that takes that many batches from one or more of these iterators. If
        several threads call it at once, they get their iterators one after the other.
        """
        warn_of_unsharded(self)
        steps = CurrentLoader(self).settings.steps
        return self._begin_epoch() if steps is None else StepsIterator(self._begin_epoch, steps)

    def __len__(self) -> int:
        """Returns the number of batches in an epoch: `steps` if given, otherwise as in torch."""
        steps = CurrentLoader(self).settings.steps
        return super().__len__() if steps is None else steps

    def _begin_epoch(self) -> Any:
        kept = self._fastload
        with kept.turn:
            if kept.engine is not None and kept.engine.native.is_forked:
                kept.exchange_engine(None)  # it belongs to the parent; this process gets its own
                kept.device = kept.opened = None
            now = CurrentLoader(self)
            if (begun := take_begun(now)) is not None:
                return begun
            if isinstance(self._iterator, EpochIterator) and not self._iterator.is_running:
                self._iterator = None
            prepare_iteration(now.arguments)
            follow_sampler(now.arguments)
            iterator = super().__iter__()
            if isinstance(iterator, EpochIterator) and iterator.is_native:
                begin_recent(kept)
            kept.progress.begin(iterator)
            kept.progress.epoch += 1
            return iterator

    def _get_iterator(self) -> Any:
        return new_iterator(CurrentLoader(self))

    def __image_files__(self, cache: Cache) -> tuple[RecordKind, ImageFiles]:
        """Returns the kind of records that `cache` keeps for this loader, and the files to make them of.

        Raises:
            ValueError: The files are not known, or there are no pixels that are worth keeping.
        """
        plan = CurrentLoader(self).plan()
        kind = kinds_of(for_loader(cache, plan.why_no_pixels))[-1]
        try:
            source = lower_dataset(self.dataset)
            first_steps = plan.kept_first_steps() if kind == "pixels" else None
        except NotLoweredError as error:
            raise ValueError(
                f"it is not known which files this loader reads: {error}. Use `fastload cache build FOLDER`"
            ) from error
        except NoFirstStepsError as error:
            raise NoPixelsError(str(error)) from error
        return kind, ImageFiles(FilePaths(source), first_steps)

    def set_epoch(self, epoch: int) -> None:
        """Sets the epoch of the next iteration, which random numbers depend on.

        The epoch counts up by itself with each iter(). It changes random numbers only if `seed` is given. A call after
        iter() and before the first batch also sets the epoch of the iteration that has started, unless that one resumes
        an epoch.

        Args:
            epoch: from 0.

        Raises:
            ValueError: if `epoch` is negative or not an int.

        Example:
            >>> loader = fastload.DataLoader(dataset, batch_size=4, rng="sample", seed=0)
            >>> loader.set_epoch(3)
            >>> again = fastload.DataLoader(dataset, batch_size=2, rng="sample", seed=0)
            >>> again.set_epoch(3)
            >>> torch.equal(next(iter(loader))[0][:2], next(iter(again))[0])
            True
        """
        if isinstance(epoch, bool) or not isinstance(epoch, int) or epoch < 0:
            raise ValueError(f"epoch must be an int >= 0, got {epoch!r}")
        self._fastload.progress.epoch = self._fastload.progress.asked_epoch = epoch

    def real_in(self, step: int) -> int:
        """Returns how many samples of a batch are not repeats; the sampler must be a ShardedSampler.

        If the samples do not divide evenly among the ranks, the last round is filled up with repeats. They come last in
        a batch: a metric over the samples before them counts each sample once.

        Args:
            step: number of the batch in its epoch, from 0.

        Returns:
            A number from 0 to the size of the batch.

        Raises:
            TypeError: if the loader's sampler is not a ShardedSampler.
            ValueError: if the epoch has no such batch.

        Example:
            >>> sampler = fastload.ShardedSampler(dataset, num_replicas=5, rank=4, shuffle=False)
            >>> loader = fastload.DataLoader(dataset, batch_size=2, sampler=sampler)
            >>> [loader.real_in(step) for step in range(len(loader))]
            [2, 0]
        """
        sampler = getattr(self.batch_sampler, "sampler", self.sampler)
        if not isinstance(sampler, ShardedSampler):
            raise TypeError(
                "real_in() needs a fastload.ShardedSampler, and this loader's sampler is a "
                f"{type(sampler).__name__}: pass sampler=fastload.ShardedSampler(dataset, ...)"
            )
        return sampler.real_in(step, getattr(self.batch_sampler, "batch_size", 1))

    def state_dict(self) -> dict[str, Any]:
        """Returns the state to resume from: the position after the last batch you got.

        Batches in flight do not count. After load_state_dict(), every remaining batch of the epoch is the same, byte
        for byte. Later epochs are the same too if the program restores its own generators: docs/state.md. After the
        last batch of an epoch, the state is the start of the next epoch; for a stream, only after StopIteration.

        Before the first iter(), a call starts no epoch and draws no random numbers. The exception is a data set with
        state_dict() and load_state_dict(): only its workers can answer. If Python makes the batches, the call waits for
        workers that have not started, at most as long as for one batch.

        Returns:
            A new dict of dicts, lists, str, int, float, bool and None. It takes at most 35 kB with 8 workers, 90 kB if
            they run Python, and more if the data set holds generators. It contains what state_dict() of the sampler,
            data set or stream returned, unchanged. The top keys are the ones of torchdata's StatefulDataLoader.

        Raises:
            StateError: if `steps` is given: explain() says so. Also if the data set's state_dict() raised, or its
                result cannot be sent from a worker process.

        Example:
            >>> loader = fastload.DataLoader(dataset, batch_size=4, shuffle=True, num_workers=2)
            >>> iterator = iter(loader)
            >>> first = next(iterator)
            >>> state = loader.state_dict()
            >>> again = fastload.DataLoader(dataset, batch_size=4, shuffle=True, num_workers=2)
            >>> again.load_state_dict(state)
            >>> torch.equal(next(iter(again))[0], next(iterator)[0])
            True
        """
        with self._fastload.turn:
            return state_of(CurrentLoader(self), self._begin_epoch)

    def load_state_dict(self, state: dict[str, Any], *, strict: bool = True) -> None:
        """Makes the next iter() resume from a saved state, and ends the iteration in progress.

        If that iter() resumes within an epoch, it draws nothing from the program's generators. The whole state is
        checked before anything changes. An empty dict discards a state that was loaded.

        Args:
            state: from state_dict() of a loader with the same data set, transform, sampler, rng and seed. With random
                transforms or Python code and rng="torch", num_workers must be the same too; iter() checks it. The
                loader keeps no reference to the dict.
            strict: False: warns instead of raising if the transform, the paths or the batch size differ.

        Raises:
            StateError: if the state does not fit; it names the field of the state, with both values.

        Example:
            >>> loader = fastload.DataLoader(dataset, batch_size=4, rng="sample", seed=1)
            >>> for step, (images, labels) in enumerate(loader):
            ...     if step == 1:
            ...         break
            >>> state = loader.state_dict()
            >>> again = fastload.DataLoader(dataset, batch_size=4, rng="sample", seed=1, num_workers=2)
            >>> again.load_state_dict(state)
            >>> len(list(again)), again.epoch
            (1, 1)
        """
        with self._fastload.turn:
            now = CurrentLoader(self)
            load_state(now, state, strict=strict)
            self._iterator = None

    def at(
        self,
        epoch: int | None = None,
        step: int | None = None,
        stop: int | None = None,
        *,
        state: dict[str, Any] | None = None,
    ) -> AddressedBatches:
        """Returns the batches of any epoch by number, exactly as that epoch gives them.

        The position of this loader does not change. Pass either `epoch` or `state`. Batches must be native.

        `epoch` needs ``rng="sample"``, a seed, and one of ``shuffle=True``, a ShardedSampler, a DistributedSampler or a
        fixed order. `state` works with any `rng`, and also with a RandomSampler. If random transforms draw torch's
        numbers, the batches between the state and `step` are loaded and dropped; otherwise nothing before `step` is
        loaded.

        Args:
            epoch: from 0.
            step: number of the first batch, from 0; None: the first batch of the epoch, or the next one of the state.
            stop: number of the batch after the last one; None: the end of the epoch.
            state: from state_dict(), instead of `epoch`.

        Returns:
            An iterable with a length. Each iter() starts at `step` again, in its own threads; its iterator has
            batch_report(). It draws nothing from the program's generators, except with ``num_workers=0`` and
            ``rng="torch"``.

        Raises:
            ValueError: if there are no such batches, or they cannot be made again: the message says what to change.
            StateError: if the state does not fit.

        Example:
            >>> loader = fastload.DataLoader(dataset, batch_size=4, rng="sample", seed=1)
            >>> batches = list(loader)
            >>> images, labels = next(iter(loader.at(epoch=0, step=2)))
            >>> torch.equal(images, batches[2][0])
            True
        """
        return batches_at(CurrentLoader(self), epoch=epoch, step=step, stop=stop, state=state)

    def replay(
        self,
        index: int,
        epoch: int | None = None,
        *,
        step: int | None = None,
        state: dict[str, Any] | None = None,
    ) -> tuple[Any, SampleReport]:
        """Makes one sample again, exactly as an epoch has it.

        Pass either `epoch` or `state`. `epoch` needs ``rng="sample"`` and a seed; no other sample is decoded. `state`
        needs the same as in at(). It loads the sample's batch and, if random transforms draw torch's numbers, the
        batches between the state and that batch.

        An epoch may have the sample several times, each with its own random numbers. The first one is returned; with
        `epoch` and a ShardedSampler, the first one on any rank. `step` chooses another.

        Args:
            index: index of the sample in the data set.
            epoch: from 0.
            step: number of the sample's batch in the epoch, from 0; None: the loader finds it.
            state: from state_dict(), called after the epoch's iter() and before the sample's batch; instead of `epoch`.

        Returns:
            The sample as ``dataset[index]`` gives it, a tensor and a label, and a report of how it was made.

        Raises:
            ValueError: if there is no such sample, or it cannot be made again: the message says what to change.
            StateError: if the state does not fit.
            SampleError: if its file cannot be loaded.

        Example:
            >>> loader = fastload.DataLoader(dataset, batch_size=4, rng="sample", seed=1)
            >>> images, labels = next(iter(loader))
            >>> sample, report = loader.replay(3, epoch=0)
            >>> torch.equal(sample[0], images[3]), report.index
            (True, 3)
        """
        return sample_at(CurrentLoader(self), index, epoch=epoch, step=step, state=state)

    # ---- looking at it and ending it -------------------------------------------------------------------------------

    def __repr__(self) -> str:
        try:
            settings = CurrentLoader(self).settings
            return describe(self, settings, self._fastload.workers.forms.last(settings.workers))
        except Exception:  # noqa: BLE001 - a derived class may use the names, or attributes may not be set yet
            return object.__repr__(self)

    def stats(self) -> LoaderStats:
        """Returns counts, times and memory of this loader since it was made.

        Returns:
            A snapshot; all zeros before the first iteration. ``later - earlier`` covers the time between two snapshots.

        Example:
            >>> loader = fastload.DataLoader(dataset, batch_size=4)
            >>> batches = list(loader)
            >>> loader.stats().samples_native
            12
        """
        return self._fastload.stats()

    def close(self) -> None:
        """Ends the workers, and with them every iterator of this loader that uses them.

        The next iter() starts new ones. Worker processes have five seconds to end; then they are terminated.

        Example:
            >>> loader = fastload.DataLoader(dataset, batch_size=4, num_workers=2)
            >>> iterator = iter(loader)
            >>> loader.close()
            >>> next(iterator)
            Traceback (most recent call last):
            fastload._errors.LoaderClosedError: ...
        """
        if self._fastload.engine is not None:
            self._fastload.engine.close()
        self._fastload.workers.close()

    def check_worker_number_rationality(self) -> None:
        """Warns if num_workers is larger than the number of available processors; torch calls it at construction."""
        available = num_available()
        if self.num_workers <= available:
            return
        if self._chooses_processes():
            super().check_worker_number_rationality()  # in torch's own words
        else:
            warnings.warn(
                f"This DataLoader will use {self.num_workers} worker threads, more than the {available} processors "
                "this process may run on. More threads load faster only if they wait for files or a network; otherwise "
                "lower num_workers.",
                stacklevel=2,
            )

    def _chooses_processes(self) -> bool:
        """Returns whether iter() would start processes now."""
        now = CurrentLoader(self)
        try:
            return now.form(now.plan()).is_of_processes
        except Exception:  # noqa: BLE001 - iter() will raise it
            return True

    def __getstate__(self) -> dict[str, Any]:
        """Returns the settings, for pickle and copy, without threads, plans, counters and a persistent iterator."""
        settings = CurrentLoader(self).settings
        shown = {name for name, value in vars(settings).items() if vars(self).get(name, settings) is value}
        kept = {name: value for name, value in vars(self).items() if name not in shown}
        return {**kept, "_fastload": self._fastload.with_settings(settings), "_iterator": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        # A derived class may have copied __dict__ without calling __getstate__().
        self.__dict__.update(state, _fastload=copy.copy(state["_fastload"]), _iterator=None)
        self._show(self._fastload.settings)
