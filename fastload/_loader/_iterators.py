"""Makes the iterator of an epoch: native threads, or threads or processes that run Python."""

from __future__ import annotations

import functools
from dataclasses import replace

import torch
from torch.utils.data import BatchSampler

from fastload._decode_cache._cache import NoPixelsError, is_of_pixels
from fastload._iteration._iterator import EpochIterator
from fastload._iteration._maker import BatchMaker
from fastload._iteration._settings import check_epoch
from fastload._iteration._setup import LoaderSetup
from fastload._iteration.native._engine import EngineSettings, LoaderEngine
from fastload._iteration.native._maker import NativeMaker
from fastload._iteration.processes._maker import ProcessMaker
from fastload._iteration.python._caller_maker import CallerMaker
from fastload._iteration.python._fetcher import FetchPlan
from fastload._iteration.python._maker import WorkerMaker
from fastload._iteration.python._native_samples import NativeSamples
from fastload._loader._current import CurrentLoader
from fastload._loader._explanation import explain_loader
from fastload._loader._resuming import checked_resume_point
from fastload._pillow import _pillow
from fastload._pillow._decode_image import OpenCache
from fastload._planning._plan import LoaderPlan, NativePlan
from fastload._planning._verdicts import Mode
from fastload._quarantine._guard import SampleGuard
from fastload._quarantine._policy import check_policy
from fastload._workers._data_pipes import is_data_pipe
from fastload._workers._random_stream import SampleNaming


def new_iterator(now: CurrentLoader) -> EpochIterator:
    """Returns a new iterator over the loader with its current attributes."""
    loader, settings = now.loader, now.settings
    check_epoch(loader, now.arguments.batches_per_worker)
    check_policy(settings.error_policy, loader.dataset, is_batched=now.arguments.is_batched)
    plan = now.plan()
    _check_plan(now, plan)
    now.kept.workers.forms.begin(now.form(plan), settings.workers)
    setup = now.setup(plan, checked_resume_point(now, plan))
    if plan.mode is Mode.NATIVE:
        return _native_iterator(now, replace(setup, index_sampler=loader.batch_sampler))
    return python_iterator(now, setup, begins_natively=plan.mode is Mode.PARTLY_NATIVE)


def _check_plan(now: CurrentLoader, plan: LoaderPlan) -> None:
    """Raises ValueError if an argument needs another plan than the loader has."""
    settings = now.settings
    if plan.mode is not Mode.NATIVE and settings.memory_format is not torch.contiguous_format:
        raise ValueError(
            f"memory_format={settings.memory_format} needs native batches, but:\n{explain_loader(now, plan)}"
        )
    if is_of_pixels(now.cache_setting(plan)) and (why := plan.why_no_pixels()) is not None:
        raise NoPixelsError(f"{why}:\n{explain_loader(now, plan)}")


# ---- native batches ----------------------------------------------------------------------------------------------


def native_plan_of(now: CurrentLoader, plan: LoaderPlan) -> NativePlan:
    """Returns the engine's part of `plan`. Raises RuntimeError if batches are no longer native."""
    if plan.mode is not Mode.NATIVE:
        why = explain_loader(now, plan)
        raise RuntimeError(f"the sampler has changed the dataset, so that batches are no longer native:\n{why}")
    return now.native_plan(plan)


def _native_iterator(now: CurrentLoader, setup: LoaderSetup) -> EpochIterator:
    # The plan is made after the sampler was asked: a user's sampler may change the data set.
    keeps_data = type(now.loader.batch_sampler) is BatchSampler
    before = now.kept.engine
    engine = _running_engine(now, setup)
    try:
        maker = NativeMaker(
            setup,
            engine,
            lambda: native_plan_of(now, setup.plan if keeps_data else now.plan()),
            now.kept.workers.counters.add,
            now.kept.staged,
        )
        return EpochIterator(now.loader, setup, maker)
    except BaseException:
        if engine is not before:
            engine.close()  # nothing uses its threads
        raise


def _running_engine(now: CurrentLoader, setup: LoaderSetup) -> LoaderEngine:
    """Returns the loader's engine; starts a new one if there is none, it has ended, or it has other settings."""
    settings = EngineSettings(
        num_threads=setup.num_workers,
        max_free_buffers=setup.max_batches + 2,  # the consumer has one and frees another
        max_pixels=_pillow.max_pixels(),
        native_jpeg=_pillow.native_jpeg_is_exact().is_exact,
        cache=now.kept.cache.native(now.cache_setting(setup.plan), _num_images(now)),
    )
    engine = now.kept.engine
    if engine is None or engine.settings != settings or not engine.native.is_running:
        engine = LoaderEngine(settings)
        now.kept.exchange_engine(engine)
    return engine


def _num_images(now: CurrentLoader) -> int | None:
    # Does not call len() of a user's data set: torch's workers would not call it either.
    source = now.kept.source
    return None if source is None else len(source)


# ---- batches made in Python ------------------------------------------------------------------------------------------


def python_iterator(now: CurrentLoader, setup: LoaderSetup, *, begins_natively: bool) -> EpochIterator:
    """Returns an iterator over batches made in Python; with `begins_natively`, native code starts the samples."""
    form = now.form(setup.plan)
    cache_setting = now.cache_setting(setup.plan)
    open_cache: OpenCache = functools.partial(now.kept.cache.native, cache_setting, _num_images(now))
    # Without workers, the calling thread decodes as the rest of the program does, without the cache.
    has_cache = (begins_natively or setup.num_workers > 0) and not form.is_of_processes
    cache = open_cache() if has_cache else None
    open_in_worker = (lambda: cache) if has_cache else None
    naming = SampleNaming()
    if begins_natively:
        samples, naming = _native_samples(now, setup, open_in_worker)
        setup = replace(setup, code=setup.code._replace(samples=samples))
    policy = setup.settings.error_policy
    fetch = FetchPlan(
        is_batched=setup.is_batched,
        drop_last=setup.drop_last,
        rng=setup.settings.rng,
        naming=naming,
        counters=now.kept.workers.counters,
        make_guard=functools.partial(SampleGuard, policy, setup.candidates) if policy.is_active else None,
        native_images=setup.settings.native_images,
        open_cache=open_in_worker,
    )
    record = now.kept.workers
    maker: BatchMaker
    if setup.num_workers == 0:
        maker = CallerMaker(setup, fetch, record)
    elif form.is_of_processes:
        torch.utils.data.DataLoader.check_worker_number_rationality(now.loader)  # torch warns at construction and here
        context = now.loader.multiprocessing_context
        make_cache = record.caches.opener(cache_setting, _num_images(now))
        may_move = setup.settings.workers == "auto" and not is_data_pipe(setup.code.dataset)
        maker = ProcessMaker(setup, fetch, record, context, make_cache, open_cache if may_move else None)
    else:
        maker = WorkerMaker(setup, fetch, record)
    return EpochIterator(now.loader, setup, maker)


def _native_samples(
    now: CurrentLoader,
    setup: LoaderSetup,
    open_cache: OpenCache | None,
) -> tuple[NativeSamples, SampleNaming]:
    """Returns the samples that native code begins, and the names by which their draws know them."""
    source, transform = setup.plan.source, setup.plan.transform
    assert source is not None, "a partly native loader is lowered"
    assert transform is not None
    part = setup.plan.native_part(keeps_pixels=is_of_pixels(now.cache_setting(setup.plan)))
    samples = NativeSamples(part, transform.python_part, source.transforms[0], source.target_transform, open_cache)
    return samples, SampleNaming(transform.native_count, part.source.file)
