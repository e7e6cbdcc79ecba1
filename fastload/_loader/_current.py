"""A loader with its current attributes, and the arguments that make another one."""

from __future__ import annotations

import copy
import functools
from typing import Any

from torch.utils.data import IterableDataset

from fastload._decode_cache._cache import for_loader, is_of_pixels
from fastload._decode_cache._loader_cache import CacheSetting
from fastload._delivery._device import open_device
from fastload._delivery._hand_over import Delivery
from fastload._images._deferred import pillow_obeys
from fastload._images._opener import obstacle
from fastload._iteration._saved_state import SavedState
from fastload._iteration._settings import LoaderSettings
from fastload._iteration._setup import LoaderArguments, LoaderSetup
from fastload._iteration.processes._process_group import start_method_of
from fastload._loader._state import LoaderState
from fastload._planning._plan import LoaderPlan, NativePlan, guarded, plan_loader
from fastload._planning._worker_form import WorkerForm, choose_form
from fastload._process._config import TorchDataLoader, torch_loader_has
from fastload._process._distributed import rank_and_world_size
from fastload._quarantine._quarantine import Quarantine
from fastload._quarantine._substitutes import Candidates, candidates_of
from fastload._workers._gpu_objects import gpu_object
from fastload._workers._user_code import UserCode
from fastload.samplers._seeded_shuffle import SeededShuffle
from fastload.sources._lowering import LoweredSource, lower_dataset


class CurrentLoader:
    """A fastload.DataLoader as it is now: its attributes may have been changed since it was made.

    Args:
        loader: The loader. Only attributes that torch's class also has are read from it.

    Attributes:
        kept: Everything that the loader keeps between epochs.
        settings: fastload's own arguments.
    """

    def __init__(self, loader: TorchDataLoader[Any]) -> None:
        self.loader = loader
        self.kept = LoaderState.of(loader)
        self.settings: LoaderSettings = self.kept.settings_of(loader)

    # ---- arguments -------------------------------------------------------------------------------------------------

    @functools.cached_property
    def arguments(self) -> LoaderArguments:
        """The arguments that decide the order and the draws of batches."""
        loader, settings = self.loader, self.settings
        # torch's default, if num_workers was 0 at construction and has been raised since.
        prefetch_factor = 2 if loader.prefetch_factor is None else loader.prefetch_factor
        return LoaderArguments(
            code=UserCode(loader.dataset, loader.collate_fn, loader.worker_init_fn),
            index_sampler=self.index_sampler,
            is_batched=loader.batch_sampler is not None,
            drop_last=loader.drop_last,
            num_workers=loader.num_workers,
            num_threads=min(loader.num_workers, settings.num_streams or loader.num_workers),
            batches_per_worker=prefetch_factor,
            is_persistent=bool(loader.persistent_workers) and loader.num_workers > 0,
            is_in_order=loader.in_order,
            generator=loader.generator,
            settings=settings,
            progress=self.kept.progress,
        )

    @property
    def index_sampler(self) -> Any:
        """The batch sampler, or the sampler if samples are not batched, by the name that torch's iterators use."""
        return self.loader._index_sampler

    @functools.cached_property
    def candidates(self) -> Candidates:
        """The samples that may replace bad ones."""
        policy = self.settings.error_policy
        return candidates_of(self.loader, policy.substitutes) if policy.on_error == "replace" else 0

    @property
    def quarantine(self) -> Quarantine | None:
        """The bad samples of this process, across iterations; None: bad samples are errors."""
        policy, kept = self.settings.error_policy, self.kept
        if not policy.is_active:
            return None
        if kept.quarantine is None or kept.quarantine.policy != policy:
            kept.quarantine = Quarantine(policy, *rank_and_world_size(), kept.workers.counters.add)
        return kept.quarantine

    # ---- its plan --------------------------------------------------------------------------------------------------

    def plan(self) -> LoaderPlan:
        """Returns how batches are made: Note [asked again] in fastload/_planning/_plan.py."""
        calls_are_native = self.loader.num_workers > 0 and self.images_obstacle() is None and pillow_obeys()
        plan = plan_loader(self.loader, self.settings.rng, self.source, calls_are_native=calls_are_native)
        if self.settings.on_error != "raise":
            plan = guarded(plan, self.settings.on_error)
        return plan

    def native_plan(self, plan: LoaderPlan) -> NativePlan:
        """Returns the engine's part of `plan`, in which batches are native."""
        is_on_device = self.delivery().device is not None
        keeps_pixels = is_of_pixels(self.cache_setting(plan))
        return plan.native(self.settings.memory_format, is_converted_later=is_on_device, keeps_pixels=keeps_pixels)

    def form(self, plan: LoaderPlan) -> WorkerForm:
        """Returns the form of the workers with `plan`: Note [the form of workers]."""
        return choose_form(plan, self.loader, self.settings.workers, lambda: self._gpu_obstacle)

    @functools.cached_property
    def _gpu_obstacle(self) -> str | None:
        """The reason, as a clause, why processes cannot use the GPU that the user's Python works on, or None."""
        if start_method_of(self.loader.multiprocessing_context) != "fork":
            return None
        if self.kept.workers.forms.why_threads is not None:
            return self.kept.workers.forms.why_threads
        found = gpu_object(self.arguments.code)
        return None if found is None else f"{found}, which a forked process cannot use"

    def source(self) -> LoweredSource:
        """Returns the data set's compact form, or NotLoweredError; makes it again only if the data set has changed."""
        kept = self.kept
        if kept.source is None or not kept.source.is_current():
            kept.source = None  # frees its memory before the next one is made
            kept.source = lower_dataset(self.loader.dataset)
        return kept.source

    def images_obstacle(self) -> str | None:
        """Returns a clause that says why images opened by the workers are not decoded natively; None if they are."""
        return obstacle() if self.settings.native_images else "native_images=False"

    def cache_setting(self, plan: LoaderPlan) -> CacheSetting:
        """Returns the cache setting that applies to this loader with `plan`."""
        setting: CacheSetting = for_loader(self.settings.cache, plan.why_no_pixels)
        return setting

    # ---- an iteration ----------------------------------------------------------------------------------------------

    def delivery(self) -> Delivery:
        """Returns where batches go. Opens the device only now, because it must not be in use before a fork."""
        settings, kept = self.settings, self.kept
        if settings.device != kept.opened:
            kept.device, kept.opened = open_device(settings.device, kept.pinned), settings.device
        prefetch = 2 if settings.device_prefetch is None else settings.device_prefetch
        is_ahead = kept.device is not None and self.loader.num_workers > 0
        return Delivery(kept.pinned_memory, kept.device, prefetch if is_ahead else 0, settings.device_transform)

    def setup(self, plan: LoaderPlan, saved: SavedState | None) -> LoaderSetup:
        """Returns all that an iteration knows of the loader; `saved` is its resume point."""
        return LoaderSetup(
            **vars(self.arguments),
            plan=plan,
            delivery=self.delivery(),
            candidates=self.candidates,
            quarantine=self.quarantine,
            saved=saved,
            waits=self.kept.waits,
            tell_end=self.kept.cache.end_epoch,
            raise_warnings=self.kept.workers.warnings.raise_all,
        )


def arguments_of(loader: TorchDataLoader[Any]) -> dict[str, Any]:
    """Returns the arguments that torch's class has, from the attributes of a loader."""
    arguments: dict[str, Any] = {
        name: getattr(loader, name)
        for name in (
            *("dataset", "num_workers", "collate_fn", "pin_memory", "timeout", "worker_init_fn", "generator"),
            *("persistent_workers", "pin_memory_device"),
        )
    }
    if loader.num_workers > 0:
        arguments["prefetch_factor"] = loader.prefetch_factor
        arguments["multiprocessing_context"] = loader.multiprocessing_context
    if torch_loader_has("in_order"):
        arguments["in_order"] = loader.in_order
    if loader.batch_size is None and loader.batch_sampler is not None:
        return {**arguments, "batch_sampler": loader.batch_sampler}
    arguments |= {"batch_size": loader.batch_size, "drop_last": loader.drop_last}
    if not isinstance(loader.dataset, IterableDataset):
        is_counted = isinstance(loader.sampler, SeededShuffle)  # a copy, because each loader sets its epoch
        arguments["sampler"] = copy.copy(loader.sampler) if is_counted else loader.sampler
    return arguments
