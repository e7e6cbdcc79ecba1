"""fastload.DataLoader: torch's loader, with native threads where it recognises the work."""

from __future__ import annotations

import copy
import functools
import os
import warnings
from collections.abc import Callable, Iterable, Sequence, Sized
from typing import Any, Generic, Literal, TypeVar, cast

import torch
import torch.utils.data
from torch.utils.data import BatchSampler, Dataset, IterableDataset, Sampler

from fastload import _native
from fastload._decode_cache._cache import Cache, NoPixelsError, for_loader, is_of_pixels
from fastload._decode_cache._loader_cache import CacheSetting
from fastload._delivery._batch_memory import BatchMemory, HostMemory, StagedMemory
from fastload._delivery._device import PinnedMemory, is_host, open_device
from fastload._delivery._hand_over import Delivery
from fastload._delivery._torch_iterator import torch_iterator
from fastload._images._array_dataset import ArrayDataset, holds_array
from fastload._images._deferred import pillow_obeys
from fastload._images._opener import obstacle
from fastload._loader._addresses import (
    AddressedBatches,
    batches_of_epoch,
    batches_of_state,
    plan_of_epoch,
    plan_of_state,
    sample_of_epoch,
    sample_of_state,
    state_of_address,
)
from fastload._loader._description import describe
from fastload._loader._explanation import Explanation, explanation_of
from fastload._loader._journal import check_journal, note_epoch
from fastload._loader._resuming import (
    check_beginning,
    check_not_resumed,
    fitting_of,
    follow_sampler,
    load_state,
    prepare_iteration,
    state_of,
    state_rows,
    take_begun,
)
from fastload._loader._saved_checks import Fitting
from fastload._loader._settings import LoaderSettings, check_epoch, check_settings, check_workers
from fastload._loader._state import LoaderState, NextEpoch
from fastload._loader._steps import StepsIterator
from fastload._native_batches._engine import EngineSettings, LoaderEngine
from fastload._native_batches._iterator import NativeIterator
from fastload._native_batches._repairs import BatchRepairs
from fastload._native_batches._report import SampleReport
from fastload._pillow import _pillow
from fastload._pillow._decode_image import pil_loader
from fastload._planning._advice import advice
from fastload._planning._native_plans import NativePartPlan, NativePlan
from fastload._planning._plan import LoaderPlan, guarded, in_processes, plan_loader
from fastload._planning._verdicts import Mode, StageVerdict, gil_advice
from fastload._process import _config
from fastload._process._distributed import rank_and_world_size, warn_of_unsharded
from fastload._process._processors import num_auto_workers, num_available
from fastload._quarantine._guard import SampleGuard
from fastload._quarantine._policy import check_policy
from fastload._quarantine._quarantine import Quarantine
from fastload._quarantine._repair import Handling
from fastload._quarantine._substitutes import Candidates, candidates_of, describe_errors
from fastload._resume._obstacles import OF_PROCESSES, OF_TORCHS
from fastload._resume._saved_state import Way
from fastload._stats import LoaderStats
from fastload._threads._counters import add_counters
from fastload._threads._dataset import DatasetPlan, make_dataset_fetcher
from fastload._threads._fetcher import FetcherFactory
from fastload._threads._init_fn import init_native_workers
from fastload._threads._iterator import ThreadIterator
from fastload._threads._native_part_fetcher import NativePartFetcher
from fastload._threads._thread_plan import ThreadPlan
from fastload._threads._worker_objects import UserCode, sharing_rows
from fastload.samplers._seeded_shuffle import SeededShuffle
from fastload.samplers._sharded_sampler import ShardedSampler
from fastload.sources._lowering import LoweredSource, lower_dataset
from fastload.transforms._recognize import image_type

T_co = TypeVar("T_co", covariant=True)


class DataLoader(torch.utils.data.DataLoader[T_co], Generic[T_co]):
    """Loads batches as torch.utils.data.DataLoader does, in threads of this process or, if asked, in torch's processes.

    The batches are byte-equal to torch's. Native code makes them of image files with torchvision's transforms, threads
    of Python of every other data set. explain() says which, and why. docs/arguments.md has all about each argument.

    Args:
        dataset: as in torch.
        batch_size: as in torch.
        shuffle: as in torch.
        sampler: as in torch.
        batch_sampler: as in torch.
        num_workers: threads or processes; "auto": as there are processors.
        collate_fn: as in torch.
        pin_memory: as in torch.
        drop_last: as in torch.
        timeout: as in torch, in seconds.
        worker_init_fn: as in torch.
        multiprocessing_context: of processes alone.
        generator: as in torch.
        prefetch_factor: as in torch.
        persistent_workers: as in torch.
        pin_memory_device: ignored, as in torch.
        in_order: as in torch; native batches always are.
        worker_method: as in torch.
        workers: "threads", or "processes": torch's own.
        thread_safe: False: one thread at a time asks the data set.
        copy: whether each thread has its own data set.
        native_images: decode JPEG files that your code opens natively.
        num_streams: threads of an IterableDataset; None: num_workers.
        steps: batches of every epoch.
        rng: "torch": transforms draw torch's numbers. "sample": numbers of seed, epoch and sample.
        seed: of rng="sample"; None: torch's base seed.
        memory_format: of native images: torch.contiguous_format or torch.channels_last.
        device: a GPU for the batches; None: the host.
        device_prefetch: batches copied ahead; None: 2.
        device_transform: called with each batch; its result is handed out.
        on_error: "raise"; or "replace" or "skip" a bad sample.
        substitutes: indices that may stand in, or "all".
        retries: after storage errors.
        max_errors: share of them that ends the run.
        ledger: file that notes them.
        snapshot_every_n_steps: as in torchdata.
        journal: file that notes how epochs begin.
        cache: "auto" or a Cache: later epochs decode less.

    Attributes:
        epoch: of the next iter(), from 0.

    Iterating yields what collate_fn makes; of native samples [images, labels]: images [batch, 3, height, width] of the
    dtype the transform ends in, labels int64 [batch]. The tensors are yours: never overwritten.

    Raises:
        ValueError, TypeError: as in torch, and for arguments that make no sense.
        RuntimeError: by iter(), where `device` cannot be used; by next(): TooManyErrors.
        SampleError: by next(), for a sample that cannot be loaded; the next call gives the next batch.
        DeviceError: by next(), where a batch did not get to the device.

    Example:
        >>> loader = fastload.DataLoader(dataset, batch_size=4, shuffle=True, num_workers=2)
        >>> for images, labels in loader:
        ...     train(images, labels)
    """

    # These are set by way of vars(); see LoaderSettings.
    workers: Literal["threads", "processes"]
    thread_safe: bool
    copy: bool
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
    journal: str | os.PathLike[str] | None
    cache: CacheSetting
    epoch = NextEpoch()

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
        workers: Literal["threads", "processes"] = "threads",
        thread_safe: bool = True,
        copy: bool = True,
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
        journal: str | os.PathLike[str] | None = None,
        cache: Literal["auto"] | Cache | None = "auto",
    ) -> None:
        settings = LoaderSettings(
            workers,
            thread_safe,
            copy,
            native_images,
            num_streams,
            steps,
            rng,
            seed,
            memory_format,
            device,
            device_prefetch,
            device_transform,
            on_error,
            substitutes,
            retries,
            max_errors,
            ledger,
            snapshot_every_n_steps,
            journal,
            cache,
        )
        check_settings(settings, dataset)
        self._fastload = LoaderState(settings)
        self._show(settings)
        # torch before 2.6 has no in_order, and 2.13 no worker_method: it gets only what its signature has.
        newer_arguments: dict[str, Any] = {"in_order": in_order} if _config.torch_loader_has("in_order") else {}
        if _config.torch_loader_has("worker_method"):
            newer_arguments["worker_method"] = worker_method
        elif worker_method != "multiprocessing":
            raise TypeError("DataLoader.__init__() got an unexpected keyword argument 'worker_method'")
        if workers == "processes" and worker_method != "multiprocessing":
            raise ValueError(
                f"worker_method={worker_method!r} asks torch for something else than workers='processes': leave out "
                "one of them"
            )
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
        self.worker_method = worker_method

    # ---- settings --------------------------------------------------------------------------------------------------

    def _show(self, settings: LoaderSettings) -> None:
        """Makes attributes of them, for frameworks in vars(self), where a derived class has none of that name."""
        for name, value in vars(settings).items():
            if not hasattr(type(self), name):
                vars(self).setdefault(name, value)

    @property
    def _settings(self) -> LoaderSettings:
        """What counts now: the attributes, which may have been set since.

        In a derived class they may be its own, with a meaning of its own, so there it is what was given.
        """
        given = self._fastload.settings
        if type(self) is not DataLoader:
            return given
        return LoaderSettings(**{name: getattr(self, name) for name in vars(given)})

    def _setting(self, name: str) -> Any:
        """One of them."""
        return getattr(self if type(self) is DataLoader else self._fastload.settings, name)

    # ---- what runs -------------------------------------------------------------------------------------------------

    def explain(self) -> Explanation:
        """Says, stage by stage, what is native and, where not, why and what to change.

        Returns:
            A str whose first line is the verdict, with the same by fields: verdict, rows, as_dict(). Notebooks show a
            table.

        Example:
            >>> explanation = fastload.DataLoader(dataset, num_workers=1).explain()
            >>> explanation.verdict
            'native: batches are read, decoded and transformed by one thread'
            >>> [row.stage for row in explanation.rows if not row.is_native]
            []
        """
        return self._explain(self._plan())

    def _explain(self, plan: LoaderPlan) -> Explanation:
        if self._is_of_processes:
            verdict = f"not native: samples are loaded in Python, by worker processes of torch's: {self.num_workers}"
            return explanation_of(
                verdict,
                *plan.verdicts,
                *self._image_rows(Mode.PYTHON),
                *self._device_rows(plan.mode),
                *state_rows(self, plan.mode),
            )
        by = {0: "in the calling thread", 1: "by one thread"}.get(self.num_workers, f"by {self.num_workers} threads")
        if plan.mode is Mode.PYTHON and self._is_array_native():
            verdict = f"partly native: samples are made natively of the data set's array, {by}"
            num_samples = len(cast(Sized, self.dataset))
            source = StageVerdict("source", f"{type(self.dataset).__name__}, {num_samples} samples in an array")
            rows = [source, *plan.verdicts[1:]]
            about = [*self._sharing_rows(plan.mode), *self._device_rows(plan.mode), *state_rows(self, plan.mode)]
            return explanation_of(verdict, *rows, *about)
        verdict = {
            Mode.NATIVE: f"native: batches are read, decoded and transformed {by}",
            Mode.PARTLY_NATIVE: f"partly native: samples are {_native_work(plan)}, {by}",
            Mode.PYTHON: f"not native: samples are loaded in Python, {by}",
            Mode.TORCH: "not native: torch's own iterator runs, unchanged",
        }[plan.mode]
        return explanation_of(
            verdict,
            *plan.verdicts,
            *self._image_rows(plan.mode),
            *self._cache_rows(plan),
            *self._sharing_rows(plan.mode),
            *self._device_rows(plan.mode),
            *state_rows(self, plan.mode),
            *advice(self, plan.mode, plan.source, plan.transform),
            *filter(None, [gil_advice(DataLoader.stats(self))]),
        )

    def _is_array_native(self) -> bool:
        """Whether the workers make samples of an array without the Python of torchvision's data set."""
        is_known = self.num_workers > 0 and self._images_obstacle() is None and holds_array(self.dataset)
        return is_known and ArrayDataset(self.dataset).is_native()

    def _image_rows(self, mode: Mode) -> list[str]:
        if self.num_workers == 0 or mode is not Mode.PYTHON:
            return []
        reason = self._images_obstacle()
        what = f"decoded by Pillow ({reason})" if reason else "decoded natively as your code asks for them"
        return [f"{'images':<10} JPEG files that Pillow opens: {what}"]

    def _cache_rows(self, plan: LoaderPlan) -> list[StageVerdict]:
        mode, setting = plan.mode, self._cache_setting(plan)
        if is_of_pixels(setting) and (why := plan.why_no_pixels()) is not None:
            return [StageVerdict("cache", "pixels", f"iter() raises a ValueError, as {why}")]
        is_native = mode in (Mode.NATIVE, Mode.PARTLY_NATIVE)
        opens_natively = mode is Mode.PYTHON and self.num_workers > 0 and self._images_obstacle() is None
        if setting is None or not (is_native or opens_natively):
            return []
        return [StageVerdict("cache", *self._fastload.cache.describe(setting))]

    def _sharing_rows(self, mode: Mode) -> list[str]:
        if self.num_workers == 0 or mode not in (Mode.PYTHON, Mode.PARTLY_NATIVE):
            return []
        return sharing_rows(self._user_code(), copied=self._settings.copy)

    def _device_rows(self, mode: Mode) -> list[str]:
        rows, device = [], self._settings.device
        if not is_host(device):
            how = "pixels are copied, and converted there" if mode is Mode.NATIVE else "batches are pinned and copied"
            rows.append(f"{'device':<10} {getattr(device, 'name', device)}: {how} on fastload's stream")
        if self._settings.device_transform is not None:
            rows.append(f"{'device':<10} device_transform: called with each batch")
        return rows

    def _mode(self) -> Mode:
        """Who makes the batches."""
        return self._plan().mode

    def _plan(self) -> LoaderPlan:
        """As it is now: Note [asked again] in fastload/_planning/_plan.py."""
        calls_are_native = self.num_workers > 0 and self._images_obstacle() is None and pillow_obeys()
        plan = plan_loader(self, self._settings.rng, self._lowered_source, calls_are_native=calls_are_native)
        if self._settings.on_error != "raise":
            plan = guarded(plan, self._settings.on_error)
        return in_processes(plan) if self._is_of_processes else plan

    def _images_obstacle(self) -> str | None:
        """Why images that the workers open are not decoded natively, as a clause."""
        return obstacle() if self._settings.native_images else "native_images=False"

    def _lowered_source(self) -> LoweredSource:
        """The dataset's compact form, made again only where the dataset has changed since; or NotLoweredError."""
        state = self._fastload
        if state.source is None or not state.source.is_current():
            state.source = None  # its memory is free before the next one takes more
            state.source = lower_dataset(self.dataset, (pil_loader,))
        return state.source

    # ---- iteration -------------------------------------------------------------------------------------------------

    def __iter__(self) -> Any:
        """Starts an epoch; with persistent_workers the same iterator object each time, as torch gives it.

        With `steps` it is an iterator over so many batches of such iterators.
        Threads that call it at once get their iterators one after the other.
        """
        warn_of_unsharded(self)
        steps = self._settings.steps
        return self._begin_epoch() if steps is None else StepsIterator(self._begin_epoch, steps)

    def __len__(self) -> int:
        """Batches of an epoch: `steps` where that is given, else as in torch."""
        steps = self._settings.steps
        return super().__len__() if steps is None else steps

    def _begin_epoch(self) -> Any:
        state = self._fastload
        with state.turn():
            if state.engine is not None:
                if isinstance(self._iterator, NativeIterator) and not state.engine.native.is_running:
                    self._iterator = None
                if state.engine.native.is_forked:
                    state.engine = None  # the parent's; this process gets one of its own
                    state.device = state.opened = None
            if isinstance(self._iterator, ThreadIterator) and not self._iterator.is_running:
                self._iterator = None
            if (begun := take_begun(self)) is not None:
                return begun
            journal = self._setting("journal")
            if journal is not None:
                check_journal(self, journal)
            prepare_iteration(self)
            follow_sampler(self)
            iterator = super().__iter__()
            state.progress.begin(iterator)
            state.epoch += 1
            if journal is not None:
                native = cast(NativeIterator, iterator)
                note_epoch(native, journal)
                native.on_late_epoch = functools.partial(note_epoch, path=journal)
            return iterator

    def _get_iterator(self) -> Any:
        check_epoch(self, self._batches_per_thread)
        check_policy(self._settings.error_policy, self.dataset, is_batched=self.batch_sampler is not None)
        if self._is_of_processes:
            check_not_resumed(self, OF_PROCESSES)
            return self._process_iterator()
        plan = self._plan()
        memory_format = self._settings.memory_format
        if plan.mode is not Mode.NATIVE and memory_format is not torch.contiguous_format:
            raise ValueError(f"memory_format={memory_format} needs native batches, but:\n{self._explain(plan)}")
        if is_of_pixels(self._cache_setting(plan)) and (why := plan.why_no_pixels()) is not None:
            raise NoPixelsError(f"{why}:\n{self._explain(plan)}")
        if plan.mode is Mode.TORCH:
            check_not_resumed(self, OF_TORCHS)
            if self._settings.on_error != "raise":
                raise ValueError(
                    f"on_error={self._settings.on_error!r} needs fastload's own threads, but:\n{self._explain(plan)}"
                )
            return torch_iterator(self, self._fastload.torch, self._delivery())
        if plan.mode is Mode.PYTHON:
            return self._iterator_of_dataset()
        if plan.mode is Mode.PARTLY_NATIVE:
            return self._iterator_of_native_part(plan.native_part(image_type()))
        return self._native_iterator(plan)

    @property
    def _is_of_processes(self) -> bool:
        return self.num_workers > 0 and bool(self._setting("workers") == "processes")

    def _process_iterator(self) -> Any:
        settings, state = self._settings, self._fastload
        check_workers(settings)  # again: attributes may have been set
        make = functools.partial(torch_iterator, counters=state.torch, delivery=self._delivery())
        return state.process_images.start(self, make) if settings.native_images else make(self)

    def _native_iterator(self, plan: LoaderPlan) -> NativeIterator:
        init_workers = None
        if self.worker_init_fn is not None and self.num_workers > 0:
            init_workers = functools.partial(
                init_native_workers, self.worker_init_fn, self.num_workers, dataset=self.dataset
            )
        before = self._fastload.engine
        engine = self._running_engine()
        # A sampler of the user's, asked before the workers of torch would start, may change the dataset.
        is_asked_again = type(self.batch_sampler) is not BatchSampler
        make_plan = functools.partial(self._native_plan, None if is_asked_again else plan)
        beginning = check_beginning(self, functools.partial(self._fitting, plan))
        try:
            return NativeIterator(
                self,
                engine,
                make_plan,
                init_workers,
                self._batch_memory,
                self._delivery(),
                self._make_repairs(),
                beginning,
            )
        except BaseException:
            if engine is not before:
                engine.close()  # its threads are for nobody
            raise

    def _delivery(self) -> Delivery:
        """Where batches go. The device is looked for now, not before: a process that forks must not have used it."""
        settings, state = self._settings, self._fastload
        if settings.device != state.opened:
            state.device, state.opened = open_device(settings.device, state.pinned), settings.device
        prefetch = 2 if settings.device_prefetch is None else settings.device_prefetch
        is_ahead = state.device is not None and self.num_workers > 0
        return Delivery(self._pinned_memory, state.device, prefetch if is_ahead else 0, settings.device_transform)

    @property
    def _pinned_memory(self) -> PinnedMemory:
        state = self._fastload
        return state.pinned if state.device is None else state.device.pinned

    def _batch_memory(self, plan: NativePlan, is_pinned: bool) -> BatchMemory:
        delivery = self._delivery()
        if delivery.device is None:
            engine = self._running_engine().native
            return HostMemory(engine, plan.forms, delivery.pinned if is_pinned else None)
        # One is held by the batch that is being handed over and one by the copy of the batch before.
        num_slots = self._max_batches_in_flight + 2
        memory = StagedMemory(
            delivery.device,
            plan.forms,
            num_slots,
            delivery.prefetch,
            self._fastload.threads.counters.add,
            self._running_engine().check_open,
        )
        self._fastload.staged.add(memory)
        return memory

    def _native_plan(self, plan: LoaderPlan | None) -> NativePlan:
        """What the engine is to do, of `plan` or of the loader as it is now."""
        plan = plan or self._plan()
        if plan.mode is not Mode.NATIVE:
            why = self._explain(plan)
            raise RuntimeError(f"the sampler has changed the dataset so that it is not native any more:\n{why}")
        is_on_device = self._delivery().device is not None
        keeps_pixels = is_of_pixels(self._cache_setting(plan))
        return plan.native(self._settings.memory_format, is_converted_later=is_on_device, keeps_pixels=keeps_pixels)

    def _iterator_of_native_part(self, part: NativePartPlan) -> ThreadIterator:
        code = self._user_code()._replace(
            python_part=part.lowered.python_part,
            transform=part.source.transform,
            target_transform=part.source.target_transform,
        )
        make_fetcher = functools.partial(NativePartFetcher, self._dataset_plan(), part.without_code())
        return self._thread_iterator("tail", code, make_fetcher, part.python_position)

    def _iterator_of_dataset(self) -> ThreadIterator:
        make_fetcher = functools.partial(make_dataset_fetcher, self._dataset_plan())
        return self._thread_iterator("python", self._user_code(), make_fetcher, 0)

    def _user_code(self) -> UserCode:
        return UserCode(self.dataset, self.collate_fn, self.worker_init_fn)

    def _dataset_plan(self) -> DatasetPlan:
        threads = self._fastload.threads
        return DatasetPlan(
            self.batch_sampler is not None,
            self.drop_last,
            threads.counters,
            None if self._settings.thread_safe else threads.dataset_lock(self.dataset),
            self._make_guard(),
            self._native_cache(),
        )

    def _make_guard(self) -> Callable[[], SampleGuard] | None:
        """Of what loads samples where bad ones are replaced or left out."""
        policy = self._settings.error_policy
        if not policy.is_active:
            return None
        return functools.partial(SampleGuard, policy, self._candidates())

    def _make_repairs(self) -> Callable[[LoweredSource, int | None], BatchRepairs] | None:
        """Of what does so with native batches."""
        quarantine = self._quarantine()
        return None if quarantine is None else functools.partial(BatchRepairs, quarantine, self._candidates())

    def _candidates(self) -> Candidates:
        policy = self._settings.error_policy
        return candidates_of(self, policy.substitutes) if policy.on_error == "replace" else 0

    def _handling(self) -> Handling | None:
        """Of bad samples; None: they are errors."""
        policy = self._settings.error_policy
        return Handling(policy, self._candidates()) if policy.is_active else None

    def _describe_errors(self) -> str:
        """For the fingerprint of states."""
        return describe_errors(self._settings.error_policy, self._candidates())

    def _quarantine(self) -> Quarantine | None:
        """The account of this process, which goes on from one iteration to the next."""
        policy, state = self._settings.error_policy, self._fastload
        if not policy.is_active:
            return None
        if state.quarantine is None or state.quarantine.policy != policy:
            state.quarantine = Quarantine(policy, *rank_and_world_size(), state.threads.counters.add)
        return state.quarantine

    def _thread_iterator(self, way: Way, code: UserCode, make_fetcher: FetcherFactory, position: int) -> ThreadIterator:
        settings = self._settings
        plan = ThreadPlan(
            make_fetcher,
            code,
            settings.copy,
            settings.rng,
            position,
            self._num_threads,
            self._max_batches_in_flight,
            self._delivery(),
            settings.native_images,
            self._quarantine(),
            way,
            check_beginning(self, self._fitting),
            settings.snapshot_every_n_steps,
            self._native_cache() if settings.native_images else None,
        )
        return ThreadIterator(self, self._fastload.threads, plan)

    @property
    def _num_threads(self) -> int:
        """Workers, of which a stream may have fewer."""
        return min(self.num_workers, self._setting("num_streams") or self.num_workers)

    def _running_engine(self) -> LoaderEngine:
        """The engine with today's settings; a new one where there is none or it has ended."""
        settings = EngineSettings(
            num_threads=self.num_workers,
            max_batches=self._max_batches_in_flight,
            max_pixels=_pillow.pillow_info().max_pixels,
            is_native_jpeg_exact=_pillow.native_jpeg_is_exact().is_exact,
            cache=self._native_cache(),
        )
        state = self._fastload
        if state.engine is None or not state.engine.can_run(settings):
            state.engine = LoaderEngine(settings)
        return state.engine

    def _native_cache(self) -> _native.DecodeCache | None:
        # A data set of the user's is not asked for its length: torch's workers would not ask, either.
        source = self._fastload.source
        num_images = None if source is None else len(source)
        return self._fastload.cache.native(self._cache_setting(), num_images)

    def _cache_setting(self, plan: LoaderPlan | None = None) -> CacheSetting:
        """The user's, as it counts for this loader. `plan` is that of the loader as it is now."""
        setting: CacheSetting = for_loader(self._setting("cache"), lambda: (plan or self._plan()).why_no_pixels())
        return setting

    @property
    def _max_batches_in_flight(self) -> int:
        """As many as torch's workers may be ahead; one where the caller does the work."""
        return self._batches_per_thread * self.num_workers or 1

    @property
    def _batches_per_thread(self) -> int:
        """prefetch_factor; torch's default where num_workers was 0 at construction and has been raised since."""
        return 2 if self.prefetch_factor is None else self.prefetch_factor

    def _random_key(self, base_seed: int, resets: int) -> tuple[int, int]:
        """(seed, epoch) of the iteration that begins; `resets` counts those of a persistent iterator."""
        seed, state = self._settings.seed, self._fastload
        if seed is None:
            return base_seed % 2**64, resets
        return seed, state.epoch

    def set_epoch(self, epoch: int) -> None:
        """Sets the epoch of the next iteration's random key; it counts up by itself with each iter().

        Has an effect on draws where `seed` is given. Behind iter() and before the first batch the iteration that has
        begun is of that epoch, too, unless it goes on with one.

        Args:
            epoch: from 0.

        Raises:
            ValueError: it is negative or no int.

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
        self._fastload.epoch = self._fastload.progress.asked_epoch = epoch

    def real_in(self, step: int) -> int:
        """Says how many samples of one batch are no repeats, where a ShardedSampler deals them out.

        A last round that does not suffice for all ranks is filled up with repeats, which come last in a batch. Metrics
        over the samples before them count each sample once.

        Args:
            step: number of the batch in its epoch, from 0.

        Returns:
            From 0 to the batch's size.

        Raises:
            TypeError: the loader's sampler is no ShardedSampler.
            ValueError: the iteration has no such batch.

        Example:
            >>> sampler = fastload.ShardedSampler(dataset, num_replicas=5, rank=4, shuffle=False)
            >>> loader = fastload.DataLoader(dataset, batch_size=2, sampler=sampler)
            >>> [loader.real_in(step) for step in range(len(loader))]
            [2, 0]
        """
        sampler = getattr(self.batch_sampler, "sampler", self.sampler)
        if not isinstance(sampler, ShardedSampler):
            raise TypeError(
                "real_in() knows the repeats of a fastload.ShardedSampler, and this loader's sampler is a "
                f"{type(sampler).__name__}: pass sampler=fastload.ShardedSampler(dataset, ...)"
            )
        return sampler.real_in(step, getattr(self.batch_sampler, "batch_size", 1))

    def state_dict(self) -> dict[str, Any]:
        """Tells where the next batch comes from: behind the one that was handed out last, not those in flight.

        After load_state_dict() every remaining batch of the epoch is the same, byte for byte, and of later epochs where
        the program restores its own generators: docs/state.md. Before the first iter() nothing is begun for it, and
        nothing drawn, but for a data set with state_dict() and load_state_dict(), which only workers can ask. Behind an
        epoch's last batch the state is that of the next epoch's beginning; a stream's is that behind StopIteration.

        Where Python makes the batches it waits, at most as long as for one, for workers that have not begun.

        Returns:
            A new dict of dicts, lists, str, int, float, bool and None, at most 35 kB with 8 workers, 90 kB where they
            run Python, and more where the data set holds generators; what state_dict() of sampler, data set or stream
            gives is put in as it is. The keys at the top are those of torchdata's StatefulDataLoader.

        Raises:
            StateError: processes make the batches, or there is a number of `steps`: explain() says so. Or the data
                set's state_dict() has raised. Of a data pipe it warns, and gives the beginning of the epoch.

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
        with self._fastload.turn():
            return state_of(self)

    def load_state_dict(self, state: dict[str, Any], *, strict: bool = True) -> None:
        """Lets the next iter() begin where a state says, and ends the iteration that runs.

        That iter() draws nothing from the program's generators where an epoch goes on. All of the state is checked
        before anything is changed. An empty dict takes a state back that was loaded.

        Args:
            state: of state_dict() of a loader with the same data set, transform, sampler, rng and seed; with random
                transforms or Python code and rng="torch" also the same num_workers, which iter() looks at. It is not
                kept.
            strict: False: another transform, other paths or another batch size are warned of.

        Raises:
            StateError: names the field of the state that does not fit, with both values.

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
        with self._fastload.turn():
            load_state(self, state, self._fitting, strict=strict)

    def at(
        self,
        epoch: int | None = None,
        step: int | None = None,
        stop: int | None = None,
        *,
        state: dict[str, Any] | None = None,
    ) -> AddressedBatches:
        """Gives batches of any epoch by their numbers, exactly as that epoch has them.

        This loader stays where it is. By `epoch` with ``rng="sample"``, a seed, and ``shuffle=True``, a ShardedSampler,
        a DistributedSampler or a fixed order; else where `journal` has noted it. By `state` with every native loader
        that has one of these or a RandomSampler. Nothing before `step` is loaded. Where random transforms draw torch's
        numbers, the headers of the files between that state and `step` are read. One of them that fails behind its
        header is taken for a good one: the batches of its worker then differ from those of the epoch.

        Args:
            epoch: from 0.
            step: number of the first batch in the epoch, from 0; None: the epoch's first, or the state's next one.
            stop: number of the batch behind the last one; None: to the epoch's end.
            state: of state_dict(), in the place of `epoch`.

        Returns:
            An iterable with a length. Each iter() begins with `step` again, in threads of its own, and has
            batch_report(). It draws nothing from the program's generators, but with ``num_workers=0`` and
            ``rng="torch"``.

        Raises:
            ValueError: there are no such batches, or their address is not known: the text says what would make it so.
            StateError: the state does not fit.

        Example:
            >>> loader = fastload.DataLoader(dataset, batch_size=4, rng="sample", seed=1)
            >>> batches = list(loader)
            >>> images, labels = next(iter(loader.at(epoch=0, step=2)))
            >>> torch.equal(images, batches[2][0])
            True
        """
        state = state_of_address("at", self, epoch, state)
        if state is not None:
            return batches_of_state(self, DataLoader, state, step, stop)
        assert epoch is not None, "it was looked at"
        return batches_of_epoch(self, DataLoader, epoch, 0 if step is None else step, stop)

    def plan(
        self, epoch: int | None = None, step: int | None = None, *, state: dict[str, Any] | None = None
    ) -> list[SampleReport]:
        """Tells which samples one batch of any epoch has and what is done to them; decodes nothing.

        The headers of their files are read, and with a `state` and torch's numbers those of the samples between. The
        draws are those that batch_report() gives when the batch is loaded; an image that turns out to be damaged behind
        its header has some here. With ``num_workers=0`` and torch's numbers they are those that the program's generator
        would give now, and it stays as it is.

        Where Python makes the batches, `epoch` gives their indices and paths, but no draws: the sizes are (0, 0), there
        are no steps, and a path is "" where the data set is no list of files.

        Args:
            epoch: from 0; as of at().
            step: number of the batch in the epoch, from 0; None: the epoch's first, or the state's next one.
            state: of state_dict() behind the epoch's iter(), in the place of `epoch`.

        Returns:
            A SampleReport for each sample, in the order of the batch, with the source "planned". It has the size (0, 0)
            and no steps where the file cannot be opened or is no image.

        Raises:
            ValueError: there is no such batch, or its address is not known: the text says what would make it so.
            StateError: the state does not fit.

        Example:
            >>> loader = fastload.DataLoader(dataset, batch_size=4, rng="sample", seed=1)
            >>> iterator = iter(loader)
            >>> images, labels = next(iterator)
            >>> planned, loaded = loader.plan(epoch=0, step=0), iterator.batch_report()
            >>> [report.steps for report in planned] == [report.steps for report in loaded]
            True
        """
        state = state_of_address("plan", self, epoch, state)
        if state is not None:
            return plan_of_state(self, DataLoader, state, step)
        assert epoch is not None, "it was looked at"
        return plan_of_epoch(self, epoch, 0 if step is None else step)

    def replay(
        self,
        index: int,
        epoch: int | None = None,
        *,
        step: int | None = None,
        state: dict[str, Any] | None = None,
    ) -> tuple[Any, SampleReport]:
        """Makes one sample as it is in an epoch; no other is decoded.

        By `epoch` with ``rng="sample"`` and a seed, or where `journal` has noted it. By `state` as at(): where random
        transforms draw torch's numbers, the headers of the files between are read.

        An epoch may have the sample several times, each with draws of its own: then the first of them counts, of a
        ShardedSampler's by `epoch` the first that any rank got. `step` names another.

        Args:
            index: of the sample in the data set.
            epoch: from 0.
            step: number of the sample's batch in the epoch, from 0; None: the sample is looked for.
            state: of state_dict() behind the epoch's iter() and before the sample's batch, in the place of `epoch`.

        Returns:
            The sample as ``dataset[index]`` gives one, a tensor and a label, and what was done to it.

        Raises:
            ValueError: there is no such sample, or its draws are not known: the text says what would make them so.
            StateError: the state does not fit.
            SampleError: its file cannot be loaded.

        Example:
            >>> loader = fastload.DataLoader(dataset, batch_size=4, rng="sample", seed=1)
            >>> images, labels = next(iter(loader))
            >>> sample, report = loader.replay(3, epoch=0)
            >>> torch.equal(sample[0], images[3]), report.index
            (True, 3)
        """
        state = state_of_address("replay", self, epoch, state)
        if state is not None:
            return sample_of_state(self, DataLoader, index, state, step)
        assert epoch is not None, "it was looked at"
        return sample_of_epoch(self, DataLoader, index, epoch, step)

    def _fitting(self, plan: LoaderPlan | None = None) -> Fitting:
        """What a state must fit, of `plan` or of the loader as it is now."""
        return fitting_of(self, plan or self._plan(), self._native_plan)

    def _native_plan_or_none(self) -> NativePlan | None:
        plan = self._plan()
        return self._native_plan(plan) if plan.mode is Mode.NATIVE else None

    # ---- looking at it and ending it -------------------------------------------------------------------------------

    def __repr__(self) -> str:
        try:
            return describe(self, self._settings)
        except Exception:  # noqa: BLE001 - attributes may be a derived class's own, or not there yet
            return object.__repr__(self)

    def stats(self) -> LoaderStats:
        """Tells what this loader has done since it was made: counts, times and memory.

        Returns:
            A snapshot; zeros before the first iteration. ``later - earlier`` is what happened between two.

        Example:
            >>> loader = fastload.DataLoader(dataset, batch_size=4)
            >>> batches = list(loader)
            >>> loader.stats().samples_native
            12
        """
        state = self._fastload
        is_own = state.engine is not None and not state.engine.native.is_forked
        native = state.engine.native.stats() if state.engine is not None and is_own else {}
        others = {
            **state.torch.stats(),
            **state.process_images.stats(),
            **state.waits.stats(),
            **state.cache.stats(),
            "pageable_allocations": self._pinned_memory.num_pageable,
        }
        counters = functools.reduce(add_counters, (memory.stats() for memory in state.staged.all()), others)
        return LoaderStats.from_counters(add_counters(add_counters(native, state.threads.stats()), counters))

    def close(self) -> None:
        """Ends the threads, and with them every iterator of this loader that is theirs.

        iter() starts new ones. Processes are torch's, and end with their iterator.

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
        self._fastload.threads.close()

    def check_worker_number_rationality(self) -> None:
        """Warns where more threads than available processors are asked for; torch calls it at construction."""
        available = num_available()
        if self._is_of_processes:
            super().check_worker_number_rationality()  # in torch's own words
        elif self.num_workers > available:
            warnings.warn(
                f"This DataLoader will use {self.num_workers} worker threads, more than the {available} processors "
                "this process may run on. More load faster only where they wait for files or a network; else lower "
                "num_workers.",
                stacklevel=2,
            )

    def __getstate__(self) -> dict[str, Any]:
        """Pickles and copies the settings; threads, plans, counters and a persistent iterator stay behind."""
        settings = self._settings
        shown = {name for name, value in vars(settings).items() if vars(self).get(name, settings) is value}
        kept = {name: value for name, value in vars(self).items() if name not in shown}
        return {**kept, "_fastload": LoaderState(settings, self._fastload.epoch), "_iterator": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        # A derived class may have copied __dict__ as it is.
        self.__dict__.update(state, _fastload=copy.copy(state["_fastload"]), _iterator=None)
        self._show(self._fastload.settings)


def _native_work(plan: LoaderPlan) -> str:
    """What native code does to samples that Python ends, and what is left to that."""
    if plan.transform is not None and plan.transform.stages and plan.transform.native_count == 0:
        return "read and decoded natively, then transformed in Python"
    return "read, decoded and transformed natively, then ended in Python"
