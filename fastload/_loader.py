"""fastload.DataLoader: torch's loader, with native threads where it recognises the work."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

import torch
import torch.utils.data
from torch.utils.data import Dataset, Sampler
from torch.utils.data._utils import collate
from torch.utils.data._utils.collate import default_collate

from fastload import _config, _fallback, _native
from fastload._decode import pil_loader
from fastload._device import BatchLayout
from fastload._iterator import EngineSettings, LoaderEngine, NativeIterator, NativePlan
from fastload._stats import LoaderStats
from fastload._torch_draws import UnknownDrawsError, uniform_is_fused, with_torch_exp
from fastload._torch_iterator import SampleCount, torch_iterator
from fastload.sources._lowering import LoweredSource, lower_dataset
from fastload.transforms._lowering import LoweredTransform, NotLowered, lower_transform, lower_views
from fastload.transforms._multi_view import views_of
from fastload.transforms._pillow_rules import resize_order

T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True)
class _StageVerdict:
    """One row of explain(): a stage of the flow, what was found, and why it is not native (None if it is)."""

    stage: str
    what: str
    obstacle: str | None = None

    def __str__(self) -> str:
        return f"{self.stage:<10} {self.what}: {'native' if self.obstacle is None else self.obstacle}"


class DataLoader(torch.utils.data.DataLoader[T_co], Generic[T_co]):
    """Loads batches as torch.utils.data.DataLoader does, in threads of this process where it can.

    It is native for fastload.ImageFolder, fastload.ImageFiles and torchvision's ImageFolder (also inside
    torch.utils.data.Subset) with a torchvision Compose of RandomResizedCrop, Resize, CenterCrop, RandomHorizontalFlip,
    then PILToTensor or ToTensor, then ConvertImageDtype and Normalize. The images are byte-equal to those of
    torchvision with the installed Pillow. Anything else goes to torch's own iterator, unchanged; explain() says why.

    Args:
        num_workers: number of threads; 0 loads in the thread that asks. Where torch's iterator runs: of processes.
        prefetch_factor: at most this many batches per thread are in flight, default 2.
        pin_memory: deliver page-locked batches, where there is an accelerator.
        multiprocessing_context: checked as torch does; threads do not use it.
        in_order: accepted; native batches always come in order.
        rng: how random transforms draw. "torch": the numbers that torch's DataLoader with the same num_workers would
            have drawn, bit for bit. "sample": from a counter keyed by (seed, epoch, dataset index, position of the
            transform), so the bytes do not depend on num_workers, on the order, or on where an epoch was left.
        seed: the key's seed, with rng="sample". None: the base seed that torch draws from `generator` at each iter(),
            and epoch 0.
        memory_format: of the image batches, torch.contiguous_format or torch.channels_last. Native batches only.

    The other arguments are torch's. Iterating yields [images, labels]: images of shape [batch, 3, height, width] and
    the type the transform ends in, labels int64 [batch], both on the CPU. The tensors are yours: never overwritten.

    Raises:
        ValueError, TypeError: as torch's DataLoader, and for an unknown rng, seed or memory_format.
        SampleError: while iterating, for a sample that cannot be loaded; the next call gives the next batch.

    Example:
        >>> loader = fastload.DataLoader(dataset, batch_size=64, shuffle=True, num_workers=8)
        >>> for images, labels in loader:
        ...     train(images, labels)
    """

    def __init__(
        self,
        dataset: Dataset[T_co],
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Sampler[Any] | Iterable[Any] | None = None,
        batch_sampler: Sampler[list[Any]] | Iterable[list[Any]] | None = None,
        num_workers: int = 0,
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
        rng: Literal["torch", "sample"] = "torch",
        seed: int | None = None,
        memory_format: torch.memory_format = torch.contiguous_format,
    ) -> None:
        if rng not in ("torch", "sample"):
            raise ValueError(f"rng must be 'torch' or 'sample', got {rng!r}")
        if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**64):
            raise ValueError(f"seed must be None or an int in [0, 2**64), got {seed!r}")
        if seed is not None and rng != "sample":
            raise ValueError(
                f"seed={seed} needs rng='sample'; torch's random numbers (rng='torch') are seeded by "
                "torch.manual_seed() or by generator="
            )
        if memory_format not in (torch.contiguous_format, torch.channels_last):
            raise ValueError(
                f"memory_format must be torch.contiguous_format or torch.channels_last, got {memory_format!r}"
            )
        self.rng = rng
        self.seed = seed
        self.memory_format = memory_format
        self._epoch = 0
        self._engine: LoaderEngine | None = None
        self._lowered: tuple[LoweredSource, _native.SampleIndex] | None = None
        self._torch_samples = SampleCount()
        # torch before 2.6 has no in_order: it gets only what its signature has.
        newer_arguments = {"in_order": in_order} if _config.torch_loader_has("in_order") else {}
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

    # ---- what runs -------------------------------------------------------------------------------------------------

    def explain(self) -> str:
        """Says, stage by stage, what is native and, where not, why. The first line is the verdict.

        Example:
            >>> print(loader.explain())
            native: batches are read, decoded and transformed by 8 threads
            ...
        """
        verdicts = self._verdicts()
        if any(verdict.obstacle for verdict in verdicts):
            head = "not native: torch's own iterator runs, unchanged"
        elif self.num_workers == 0:
            head = "native: batches are read, decoded and transformed in the calling thread"
        else:
            head = f"native: batches are read, decoded and transformed by {self.num_workers} threads"
        return "\n".join([head, *(f"  {verdict}" for verdict in verdicts)])

    def _verdicts(self) -> list[_StageVerdict]:
        """Every stage's verdict, in the order of the flow; looks at the dataset as it is now."""
        source = lower_dataset(self.dataset, (pil_loader,))
        dataset = type(self.dataset).__qualname__
        if not isinstance(source, LoweredSource):
            return [_StageVerdict("source", dataset, source.reason), *self._batching_verdicts()]
        transform = _lower_transforms(source)
        rows = [_StageVerdict("source", f"{dataset}, {len(source)} samples")]
        rows += [
            _StageVerdict("transform", f"{stage.position + 1} of {stage.total}, {stage.name}", stage.problem)
            for stage in transform.stages
        ]
        if not any(stage.problem for stage in transform.stages) and (obstacle := _transform_obstacle(transform)):
            rows.append(_StageVerdict("transform", "as a whole", obstacle))
        if source.target_transform is not None:
            rows.append(_StageVerdict("labels", "target_transform", "it runs in Python"))
        rows.append(_StageVerdict("random", *self._random_verdict()))
        rows.append(_StageVerdict("decode", self._decoder()))
        if _fallback.pillow_info().is_simd:
            rows.append(_StageVerdict("resize", "as plain Pillow, which Pillow-SIMD does not equal"))
        return rows + self._batching_verdicts()

    def _random_verdict(self) -> tuple[str, str | None]:
        """How random choices are made, and why that is not native, or None."""
        if self.rng == "sample":
            return "a counter for each sample", None
        what = f"torch's numbers for num_workers={self.num_workers}"
        try:
            uniform_is_fused()
        except UnknownDrawsError as error:
            return what, str(error)
        return what, None

    @staticmethod
    def _decoder() -> str:
        exactness = _fallback.native_jpeg_is_exact()
        return "clean sequential JPEG, others by Pillow" if exactness.is_exact else f"all by Pillow: {exactness.reason}"

    def _batching_verdicts(self) -> list[_StageVerdict]:
        sampler = type(self.sampler).__qualname__
        if self.batch_sampler is None:
            rows = [_StageVerdict("batches", f"sampler {sampler}", "batch_size=None is not native")]
        else:
            rows = [_StageVerdict("batches", f"{type(self.batch_sampler).__qualname__} over {sampler}")]
            name = getattr(self.collate_fn, "__qualname__", type(self.collate_fn).__qualname__)
            rows.append(_StageVerdict("collate", name, _collate_obstacle(self.collate_fn)))
        if self.worker_init_fn is not None and self.num_workers > 0:
            rows.append(_StageVerdict("workers", "worker_init_fn", "it is made for worker processes"))
        return rows

    def _native_plan(self) -> NativePlan | None:
        """The plan for one iteration, or None where torch's iterator has to run."""
        source_and_index = self._lowered_source()
        if source_and_index is None or any(row.obstacle for row in self._batching_verdicts()):
            return None
        source, index = source_and_index
        if source.target_transform is not None:
            return None
        views = _views(source)
        if views is None:
            return None
        return NativePlan(
            source,
            index,
            tuple(map(self._view_plan, views)),
            tuple(map(self._view_layout, views)),
            views_of(source.transform) is not None,
            draws_as_torch=self.rng == "torch",
        )

    def _view_plan(self, view: LoweredTransform) -> _native.TransformPlan:
        return _native.TransformPlan(
            with_torch_exp(view.steps) if self.rng == "torch" else list(view.steps),
            element_size=view.element_size,
            channels_last=self.memory_format is torch.channels_last,
            table=view.table,
            resize_order=resize_order(_fallback.pillow_info().version),
        )

    def _view_layout(self, view: LoweredTransform) -> BatchLayout:
        assert view.height is not None
        assert view.width is not None
        return BatchLayout(view.height, view.width, view.dtype, self.memory_format)

    def _lowered_source(self) -> tuple[LoweredSource, _native.SampleIndex] | None:
        """The dataset's compact form; made again only where the dataset has changed since."""
        if self._lowered is not None and self._lowered[0].is_current():
            return self._lowered
        source = lower_dataset(self.dataset, (pil_loader,))
        if isinstance(source, LoweredSource):
            self._lowered = source, _native.SampleIndex(source.table.arena, source.table.offsets)
        else:
            self._lowered = None
        return self._lowered

    # ---- iteration -------------------------------------------------------------------------------------------------

    def __iter__(self) -> Any:
        """Starts an epoch; with persistent_workers the same iterator object each time, as torch gives it."""
        if self._engine is not None:
            self._engine.check_process("this DataLoader")
            if isinstance(self._iterator, NativeIterator) and not self._engine.native.is_running:
                self._iterator = None
        return super().__iter__()

    def _get_iterator(self) -> Any:
        plan = self._native_plan()
        if plan is None:
            if self.memory_format is not torch.contiguous_format:
                raise ValueError(f"memory_format={self.memory_format} needs native batches, but:\n{self.explain()}")
            return torch_iterator(self, self._torch_samples)
        self._check_as_torch_does()
        return NativeIterator(self, self._running_engine(), plan)

    def _check_as_torch_does(self) -> None:
        """What torch refuses only when an iterator is made."""
        if self.num_workers == 0 and self.timeout != 0:
            raise AssertionError(f"timeout needs num_workers > 0, got timeout={self.timeout} with num_workers=0")
        if self.num_workers < 0:
            raise AssertionError(f"num_workers must not be negative, got {self.num_workers}")
        if self.num_workers > 0 and self._batches_per_thread <= 0:
            raise AssertionError(f"prefetch_factor must be positive where num_workers > 0, got {self.prefetch_factor}")

    def _running_engine(self) -> LoaderEngine:
        """The engine with today's settings; a new one where there is none or it has ended."""
        settings = EngineSettings(
            num_threads=self.num_workers,
            max_batches=self._max_batches_in_flight,
            max_pixels=_fallback.pillow_info().max_image_pixels or _config.NO_PIXEL_LIMIT,
            is_native_jpeg_exact=_fallback.native_jpeg_is_exact().is_exact,
        )
        if self._engine is None or not self._engine.can_run(settings):
            self._engine = LoaderEngine(settings)
        return self._engine

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
        if self.seed is None:
            return base_seed % 2**64, resets
        self._epoch += 1
        return self.seed, self._epoch - 1

    def set_epoch(self, epoch: int) -> None:
        """Sets the epoch of the next iteration's random key; it counts up by itself with each iter().

        Has an effect where `seed` is given. Raises ValueError for a negative epoch.
        """
        if isinstance(epoch, bool) or not isinstance(epoch, int) or epoch < 0:
            raise ValueError(f"epoch must be an int >= 0, got {epoch!r}")
        self._epoch = epoch

    # ---- looking at it and ending it -------------------------------------------------------------------------------

    def stats(self) -> LoaderStats:
        """Counts, times and memory of this loader's engine since it started; zeros before the first iteration."""
        native = self._engine.native.stats() if self._engine is not None else {}
        return LoaderStats.from_counters(native, {"samples_python": self._torch_samples.count})

    def close(self) -> None:
        """Ends the threads, and with them every native iterator of this loader. iter() starts new ones."""
        if self._engine is not None:
            self._engine.close()

    def check_worker_number_rationality(self) -> None:
        """Warns where more threads than available processors are asked for; torch calls it at construction."""
        available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        if self.num_workers > available:
            warnings.warn(
                f"This DataLoader will use {self.num_workers} worker threads, more than the {available} processors "
                "this process may run on. More threads than processors do not load faster; lower num_workers.",
                stacklevel=2,
            )

    def __getstate__(self) -> dict[str, Any]:
        """Pickles and copies the settings; threads, plans, counters and a persistent iterator stay behind."""
        fresh = {"_engine": None, "_lowered": None, "_iterator": None, "_torch_samples": SampleCount()}
        return {**self.__dict__, **fresh}


def _lower_transforms(source: LoweredSource) -> LoweredTransform | NotLowered:
    """The one transform of all parts of `source`."""
    first, *others = map(lower_transform, source.transforms)
    if any(other != first for other in others):
        return NotLowered("not native: parts have different transforms")
    return first


# What the engine runs of the steps that a transform is lowered to.
def _views(source: LoweredSource) -> list[LoweredTransform] | None:
    """What is made of each image, where all of it is native: one form, or those of a MultiView."""
    views: Sequence[LoweredTransform | NotLowered] | None = lower_views(source.transform)
    lowered = views if views and len(source.transforms) == 1 else [_lower_transforms(source)]
    native = [view for view in lowered if isinstance(view, LoweredTransform) and _transform_obstacle(view) is None]
    return native if len(native) == len(lowered) else None


def _transform_obstacle(transform: LoweredTransform | NotLowered) -> str | None:
    """Why the engine does not run the whole of `transform`, or None."""
    if isinstance(transform, NotLowered):
        return transform.reason
    if transform.tail:
        return "a part of it runs in Python"
    if not transform.stages:
        return "there is no transform, so the samples are PIL images"
    if transform.sample == "pil":
        return "the result is a PIL image (native: with a PILToTensor or ToTensor)"
    if transform.height is None:
        return (
            "the size of the result depends on the image (native: with a CenterCrop, a RandomResizedCrop or a Resize "
            "to height and width)"
        )
    return None


def _collate_obstacle(collate_fn: object) -> str | None:
    """Why `collate_fn` is not what native batches are made as, or None."""
    if collate_fn is not default_collate:
        return "only default_collate is native"
    for kind, function in collate.default_collate_fn_map.items():
        is_torchs = getattr(function, "__module__", None) == collate.__name__
        if not is_torchs and any(issubclass(part, kind) for part in (tuple, torch.Tensor, int)):
            return f"default_collate_fn_map has a function of another module for {kind}"
    return None
