"""What iterates over a loader: native, in threads of Python, or torch's own, and what it is given."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.utils.data import BatchSampler

from fastload import _native
from fastload._decode_cache._cache import NoPixelsError, is_of_pixels
from fastload._decode_cache._loader_cache import LoaderCache
from fastload._delivery._batch_memory import BatchMemory, HostMemory, StagedMemory
from fastload._delivery._device import open_device
from fastload._delivery._hand_over import Delivery
from fastload._iteration._torch_iterator import torch_iterator
from fastload._iteration.native._engine import EngineSettings, LoaderEngine
from fastload._iteration.native._iterator import NativeIterator
from fastload._iteration.native._repairs import BatchRepairs
from fastload._iteration.threads._dataset import DatasetPlan, make_dataset_fetcher
from fastload._iteration.threads._fetcher import FetcherFactory
from fastload._iteration.threads._iterator import ThreadIterator
from fastload._iteration.threads._native_part_fetcher import NativePartFetcher
from fastload._iteration.threads._thread_plan import ThreadPlan
from fastload._loader._resuming import check_beginning, check_not_resumed
from fastload._loader._settings import check_epoch, check_workers
from fastload._pillow import _pillow
from fastload._planning._native_plans import NativePlan
from fastload._planning._plan import LoaderPlan
from fastload._planning._verdicts import Mode
from fastload._quarantine._guard import SampleGuard
from fastload._quarantine._policy import check_policy
from fastload._resume._obstacles import OF_PROCESSES, OF_TORCHS
from fastload._resume._saved_state import Way
from fastload._workers._init_fn import init_native_workers
from fastload._workers._worker_objects import UserCode
from fastload.sources._lowering import LoweredSource
from fastload.transforms._recognize import image_type


def iterator_of(loader: Any) -> Any:
    """A new one, as the loader is now."""
    check_epoch(loader, loader._batches_per_thread)
    check_policy(loader._settings.error_policy, loader.dataset, is_batched=loader.batch_sampler is not None)
    if loader._is_of_processes:
        check_not_resumed(loader, OF_PROCESSES)
        return _process_iterator(loader)
    plan = loader._plan()
    memory_format = loader._settings.memory_format
    if plan.mode is not Mode.NATIVE and memory_format is not torch.contiguous_format:
        raise ValueError(f"memory_format={memory_format} needs native batches, but:\n{loader._explain(plan)}")
    if is_of_pixels(loader._cache_setting(plan)) and (why := plan.why_no_pixels()) is not None:
        raise NoPixelsError(f"{why}:\n{loader._explain(plan)}")
    if plan.mode is Mode.TORCH:
        check_not_resumed(loader, OF_TORCHS)
        if loader._settings.on_error != "raise":
            raise ValueError(
                f"on_error={loader._settings.on_error!r} needs fastload's own threads, but:\n{loader._explain(plan)}"
            )
        return torch_iterator(loader, loader._fastload.torch, _delivery(loader))
    if plan.mode is Mode.PYTHON:
        return _iterator_of_dataset(loader, plan)
    if plan.mode is Mode.PARTLY_NATIVE:
        return iterator_of_native_part(loader, plan)
    return _native_iterator(loader, plan)


def _process_iterator(loader: Any) -> Any:
    settings, state = loader._settings, loader._fastload
    check_workers(settings)  # again: attributes may have been set
    make = functools.partial(torch_iterator, counters=state.torch, delivery=_delivery(loader))
    return state.process_images.start(loader, make) if settings.native_images else make(loader)


def _native_iterator(loader: Any, plan: LoaderPlan) -> NativeIterator:
    init_workers = None
    if loader.worker_init_fn is not None and loader.num_workers > 0:
        init_workers = functools.partial(
            init_native_workers, loader.worker_init_fn, loader.num_workers, dataset=loader.dataset
        )
    # A sampler of the user's, asked before the workers of torch would start, may change the dataset.
    is_asked_again = type(loader.batch_sampler) is not BatchSampler
    make_plan = functools.partial(native_plan, loader, None if is_asked_again else plan)
    beginning = check_beginning(loader, functools.partial(loader._fitting, plan))
    before = loader._fastload.engine
    engine = _running_engine(loader, plan)
    try:
        return NativeIterator(
            loader,
            engine,
            make_plan,
            init_workers,
            functools.partial(_batch_memory, loader, engine),
            _delivery(loader),
            _make_repairs(loader),
            beginning,
        )
    except BaseException:
        if engine is not before:
            engine.close()  # its threads are for nobody
        raise


def _delivery(loader: Any) -> Delivery:
    """Where batches go. The device is looked for now, not before: a process that forks must not have used it."""
    settings, state = loader._settings, loader._fastload
    if settings.device != state.opened:
        state.device, state.opened = open_device(settings.device, state.pinned), settings.device
    prefetch = 2 if settings.device_prefetch is None else settings.device_prefetch
    is_ahead = state.device is not None and loader.num_workers > 0
    return Delivery(loader._pinned_memory, state.device, prefetch if is_ahead else 0, settings.device_transform)


def _batch_memory(loader: Any, engine: LoaderEngine, plan: NativePlan, is_pinned: bool) -> BatchMemory:
    delivery = _delivery(loader)
    if delivery.device is None:
        return HostMemory(engine.native, plan.forms, delivery.pinned if is_pinned else None)
    # One is held by the batch that is being handed over and one by the copy of the batch before.
    num_slots = loader._max_batches_in_flight + 2
    memory = StagedMemory(
        delivery.device,
        plan.forms,
        num_slots,
        delivery.prefetch,
        loader._fastload.threads.counters.add,
        engine.check_open,
    )
    loader._fastload.staged.add(memory)
    return memory


def native_plan(loader: Any, plan: LoaderPlan | None) -> NativePlan:
    """What the engine is to do, of `plan` or of the loader as it is now."""
    plan = plan or loader._plan()
    if plan.mode is not Mode.NATIVE:
        why = loader._explain(plan)
        raise RuntimeError(f"the sampler has changed the dataset so that it is not native any more:\n{why}")
    is_on_device = _delivery(loader).device is not None
    keeps_pixels = is_of_pixels(loader._cache_setting(plan))
    return plan.native(loader._settings.memory_format, is_converted_later=is_on_device, keeps_pixels=keeps_pixels)


def iterator_of_native_part(loader: Any, plan: LoaderPlan) -> ThreadIterator:
    keeps_pixels = is_of_pixels(loader._cache_setting(plan))
    part, cache = plan.native_part(image_type(), keeps_pixels=keeps_pixels), _native_cache(loader, plan)
    code = loader._user_code()._replace(
        python_part=part.lowered.python_part,
        transform=part.source.transform,
        target_transform=part.source.target_transform,
    )
    make_fetcher = functools.partial(NativePartFetcher, _dataset_plan(loader, cache), part.without_code())
    return _thread_iterator(loader, "tail", code, make_fetcher, part.python_position, cache)


def _iterator_of_dataset(loader: Any, plan: LoaderPlan) -> ThreadIterator:
    # The calling thread decodes as the program does.
    cache = _native_cache(loader, plan) if loader.num_workers > 0 else None
    make_fetcher = functools.partial(make_dataset_fetcher, _dataset_plan(loader, cache))
    return _thread_iterator(loader, "python", loader._user_code(), make_fetcher, 0, cache)


def _dataset_plan(loader: Any, cache: _native.DecodeCache | None) -> DatasetPlan:
    threads = loader._fastload.threads
    return DatasetPlan(
        loader.batch_sampler is not None,
        loader.drop_last,
        threads.counters,
        None if loader._settings.thread_safe else threads.dataset_lock(loader.dataset),
        _make_guard(loader),
        cache,
    )


def _make_guard(loader: Any) -> Callable[[], SampleGuard] | None:
    """Of what loads samples where bad ones are replaced or left out."""
    policy = loader._settings.error_policy
    if not policy.is_active:
        return None
    return functools.partial(SampleGuard, policy, loader._candidates())


def _make_repairs(loader: Any) -> Callable[[LoweredSource, int | None], BatchRepairs] | None:
    """Of what does so with native batches."""
    quarantine = loader._quarantine()
    return None if quarantine is None else functools.partial(BatchRepairs, quarantine, loader._candidates())


def _thread_iterator(
    loader: Any,
    way: Way,
    code: UserCode,
    make_fetcher: FetcherFactory,
    position: int,
    cache: _native.DecodeCache | None,
) -> ThreadIterator:
    settings = loader._settings
    plan = ThreadPlan(
        make_fetcher,
        code,
        settings.copy,
        settings.rng,
        position,
        loader._num_threads,
        loader._max_batches_in_flight,
        _delivery(loader),
        settings.native_images,
        loader._quarantine(),
        way,
        check_beginning(loader, loader._fitting),
        settings.snapshot_every_n_steps,
        cache if settings.native_images else None,
    )
    return ThreadIterator(loader, loader._fastload.threads, plan)


def _running_engine(loader: Any, plan: LoaderPlan) -> LoaderEngine:
    """The engine with today's settings; a new one where there is none or it has ended."""
    settings = EngineSettings(
        num_threads=loader.num_workers,
        max_batches=loader._max_batches_in_flight,
        max_pixels=_pillow.pillow_info().max_pixels,
        is_native_jpeg_exact=_pillow.native_jpeg_is_exact().is_exact,
        cache=_native_cache(loader, plan),
    )
    state = loader._fastload
    engine: LoaderEngine | None = state.engine
    if engine is None or not engine.can_run(settings):
        engine = LoaderEngine(settings)
        state.exchange_engine(engine)
    return engine


def _native_cache(loader: Any, plan: LoaderPlan) -> _native.DecodeCache | None:
    # A data set of the user's is not asked for its length: torch's workers would not ask, either.
    source = loader._fastload.source
    num_images = None if source is None else len(source)
    kept: LoaderCache = loader._fastload.cache
    return kept.native(loader._cache_setting(plan), num_images)
