"""One loader under comparison: run step by step on random states of its own, observed, and closed without a trace."""

from __future__ import annotations

import contextlib
import copy
import functools
import re
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from torch.utils.data import default_collate, default_convert

from fastload._delivery._device import HOST, Device, moved
from fastload._errors import SampleError
from fastload._loader._current import CurrentLoader
from fastload._loader._loader import DataLoader
from fastload._loader._twins import twin_without_cache
from fastload._pillow._pillow import as_reference
from fastload._planning._verdicts import Mode
from fastload._process._config import TorchDataLoader
from fastload._tools.verify._compare import Sample, fields, fingerprint, split_batch
from fastload._tools.verify._rng_states import Generators
from fastload._tools.verify._sample_parts import SampleParts, find_parts, path_of


@dataclass(frozen=True)
class Outcome:
    """What one call of next() brought.

    Attributes:
        batch: the batch, or None where `error` is set.
        error: what was raised instead.
        indices: what the sampler gave for it, in order; None where that cannot be known.
        reports: what a native loader says it did to each sample; None of any other.
    """

    batch: Any
    error: Exception | None
    indices: list[Any] | None
    reports: list[Any] | None

    @property
    def error_kind(self) -> str | None:
        """The name of the class that was raised where the sample was loaded; None where nothing was.

        torch's workers rebuild exceptions, as RuntimeError where they cannot; fastload combines them with SampleError.
        """
        if self.error is None:
            return None
        if isinstance(self.error, SampleError) and self.error.cause is not None:
            return type(self.error.cause).__name__
        if type(self.error) is RuntimeError and (caught := re.match(r"Caught (\w+) in ", str(self.error))):
            return caught[1]
        return type(self.error).__name__


@dataclass(frozen=True)
class DeliveredSample:
    """One sample as a loader delivered it.

    Attributes:
        runner: of the loader.
        index: in the data set, or None where unknown.
        values: its part of the batch; empty where that is not compared.
        report: what a native loader says it did, or None.
    """

    runner: LoaderRunner
    index: Any
    values: Sample = field(default_factory=dict)
    report: Any = None

    @property
    def path(self) -> str | None:
        """Its file, where the data set tells."""
        return None if self.index is None else path_of(self.runner.loader.dataset, self.index)

    @functools.cached_property
    def fingerprint(self) -> bytes:
        """Of its values."""
        return fingerprint(self.values)


_MODES = {
    Mode.NATIVE: "native",
    Mode.PARTLY_NATIVE: "partly native",
    Mode.PYTHON: "in Python",
}


class LoaderRunner:
    """Runs one epoch of a copy of `loader`: the copy has iterator, workers and threads of its own, nothing else.

    The copy shares data set, samplers and generators; of the latter it has own states.

    Args:
        loader: a torch.utils.data.DataLoader, possibly fastload's.
        generators: of all loaders compared.
        seed: of the process's generators when the epoch begins.
    """

    def __init__(self, loader: TorchDataLoader[Any], generators: Generators, seed: int) -> None:
        self.loader = loader
        self._is_in_order = loader.num_workers == 0 or self.is_native or getattr(loader, "in_order", True)
        self._clone = _observed_clone(loader)
        self.generators = generators
        self._seed = seed
        self._states = generators.seeded(seed)
        self._iterator: Any = None
        self._num_batches = 0
        self._last: Outcome | None = None  # of a twin
        self._twin: LoaderRunner | None = None
        self._last_reports: list[Any] = []

    @property
    def is_batched(self) -> bool:
        """Whether the loader collates samples to batches; else each item it gives is one sample."""
        return bool(self.loader._auto_collation)

    @property
    def uses_processes(self) -> bool:
        """Whether its workers are processes."""
        return self.loader.num_workers > 0 and not self.is_fastloads

    @functools.cached_property
    def mode(self) -> Mode:
        """Who does the work."""
        return CurrentLoader(self.loader).plan().mode if isinstance(self.loader, DataLoader) else Mode.TORCH

    @property
    def is_native(self) -> bool:
        """Whether native code does all of the work, and so can say what it did."""
        return self.mode is Mode.NATIVE

    @property
    def is_fastloads(self) -> bool:
        """Whether it runs in fastload's threads, native or of Python."""
        return self.mode is not Mode.TORCH

    @property
    def runs_python_in_threads(self) -> bool:
        """Whether threads of fastload's run the user's code."""
        return self.loader.num_workers > 0 and self.mode in (Mode.PARTLY_NATIVE, Mode.PYTHON)

    @property
    def rng(self) -> str:
        """Whose random numbers its samples get: "torch" or "sample"."""
        return CurrentLoader(self.loader).settings.rng if self.is_fastloads else "torch"

    @property
    def batch_functions(self) -> dict[str, Callable[[Any], Any] | None]:
        """The functions that make a batch of samples, and change it, by the names of the loader's arguments."""
        on_device = (
            CurrentLoader(self.loader).settings.device_transform if isinstance(self.loader, DataLoader) else None
        )
        return {"collate_fn": self.loader.collate_fn, "device_transform": on_device}

    @property
    def has_torchs_batches(self) -> bool:
        """Whether torch's own collate function alone makes its batches of samples."""
        functions = self.batch_functions
        return functions["collate_fn"] in (default_collate, default_convert) and functions["device_transform"] is None

    def describe(self) -> str:
        """The loader in a line."""
        loader = self.loader
        kind = "fastload.DataLoader" if isinstance(loader, DataLoader) else "torch.utils.data.DataLoader"
        if type(loader) not in (DataLoader, TorchDataLoader):
            kind = f"{type(loader).__qualname__} (a {kind})"
        workers = f"num_workers={loader.num_workers}"
        way = f"{_MODES[self.mode]}, rng={self.rng!r}, " if self.is_fastloads else ""
        sampler = type(loader.sampler if loader.batch_size is not None else loader._index_sampler).__qualname__
        size = f"batch_size={loader.batch_size}, " if loader.batch_size is not None else ""
        data = type(loader.dataset).__qualname__
        try:
            count = f" of {len(loader.dataset)} samples"  # type: ignore[arg-type]
        except (TypeError, NotImplementedError):
            count = ""
        return f"{kind}: {way}{workers}, {size}{sampler}, {data}{count}"

    def parts(self, index: Any) -> SampleParts | str:
        """`find_parts` of the loader's data set."""
        return find_parts(self.loader.dataset, index, self.generators)

    def start(self) -> None:
        """Begins the epoch; raises what iter(loader) raises."""
        with self.generators.swapped(self._states), self._pillow():
            self._iterator = iter(self._clone)

    def next(self) -> Outcome | None:
        """The next batch or the error in its place; None at the end."""
        self._num_batches += 1
        with self.generators.swapped(self._states), self._pillow():
            try:
                batch, error = next(self._iterator), None
            except StopIteration:
                return None
            except Exception as raised:  # noqa: BLE001 - what a loader raises is what is compared
                # Without its frames, which hold the iterator and the loader.
                batch, error = None, raised.with_traceback(None)
        batch = self._on_host(batch)
        indices = self._listed(self._clone.index_recorder.take())
        reports = self._new_reports(has_failed=error is not None)
        if reports is not None:
            indices = [report.index for report in reports]
        return Outcome(batch, error, indices, reports)

    def samples_of(self, delivery: Outcome) -> list[DeliveredSample]:
        """The samples of a batch; the batch as one of no known index where it cannot be taken apart."""
        indices, reports = delivery.indices, delivery.reports
        if not self.is_batched:
            return [DeliveredSample(self, indices[0] if indices else None, fields(delivery.batch))]
        values = split_batch(delivery.batch, None if indices is None else len(indices))
        if values is None:
            return [DeliveredSample(self, None, fields(delivery.batch))]
        return [
            DeliveredSample(self, indices[place] if indices else None, sample, reports[place] if reports else None)
            for place, sample in enumerate(values)
        ]

    def without_cache(self, index: Any) -> DeliveredSample | None:
        """A sample of the last batch as it is where nothing is kept of images; None where that is not known.

        The epoch is run once more for that, from its beginning, as far as it has come.
        """
        if (
            self._num_batches == 0
            or not isinstance(self.loader, DataLoader)
            or CurrentLoader(self.loader).settings.cache is None
        ):
            return None
        try:
            if self._twin is None:
                self._twin = LoaderRunner(twin_without_cache(self.loader), self.generators, self._seed)
                self._twin.start()
            while self._twin._num_batches < self._num_batches:
                self._twin._last = self._twin.next()
        except Exception:  # noqa: BLE001 - the user's code decides what is raised; then it is no witness
            return None
        delivery = self._twin._last
        if delivery is None or delivery.error is not None:
            return None
        return next((sample for sample in self._twin.samples_of(delivery) if sample.index == index), None)

    def _pillow(self) -> contextlib.AbstractContextManager[None]:
        """Images are Pillow's in a loader of torch's and its workers, also where register_opener() was called."""
        return contextlib.nullcontext() if isinstance(self.loader, DataLoader) else as_reference()

    def _on_host(self, batch: Any) -> Any:
        """Copies, where the loader delivers to a device."""
        state = getattr(self._clone, "_fastload", None)
        device: Device | None = None if state is None else state.device
        if device is None or batch is None:
            return batch
        device.synchronize()
        return moved(batch, HOST)

    def _listed(self, indices: Any) -> list[Any] | None:
        """The indices of a batch, one by one."""
        if indices is None or not self._is_in_order:
            return None
        if not self.is_batched:
            return [indices]
        try:
            listed = list(indices)
        except TypeError:
            return None
        return None if any(index is None for index in listed) else listed

    def _new_reports(self, *, has_failed: bool) -> list[Any] | None:
        """What a native iterator reports, unless it still is what it said of the batch before."""
        if not hasattr(self._iterator, "batch_report"):
            return None
        before, self._last_reports = self._last_reports, self._iterator.batch_report()
        return None if has_failed and before == self._last_reports else self._last_reports

    def leaves_generators_as(self, new: LoaderRunner) -> bool:
        """Whether both loaders leave the generators in equal states: the process's, and each its own."""
        return self.generators.are_left_alike(self.loader, self._states, new.loader, new._states)

    def close(self) -> None:
        """Ends workers and threads."""
        if self._twin is not None:
            self._twin.close()
        iterator, self._iterator = self._iterator, None
        self._clone.__dict__["_iterator"] = None
        if shutdown := getattr(iterator, "_shutdown_workers", None):
            shutdown()
        if isinstance(self._clone, DataLoader):
            self._clone.close()


class _Recorder:
    """Stands where the iterators take their index batches from, and notes those of the iteration begun last.

    With workers torch begins two iterations of a sampler in each epoch and uses the second.
    """

    def __init__(self, sampler: Any) -> None:
        self._sampler = sampler
        self._taken: deque[Any] = deque()

    def __iter__(self) -> Iterator[Any]:
        taken = self._taken = deque()

        def noted(index: Any) -> Any:
            taken.append(list(index) if isinstance(index, list) else index)  # the sampler may change its list later
            return index

        return map(noted, self._sampler)

    def __len__(self) -> int:
        return len(self._sampler)

    def take(self) -> Any:
        """What the sampler gave for the next batch; None where it gave nothing."""
        return self._taken.popleft() if self._taken else None


def _observed_clone(loader: TorchDataLoader[Any]) -> Any:
    """A shallow copy without workers or iterator, whose iterators take their index batches through a recorder.

    Its class differs in the one property that torch's iterators read; the samplers stay what they are, so that
    fastload lowers them as it would without an observer.
    """
    clone: Any = copy.copy(loader)
    namespace = {"_index_sampler": property(lambda self: self.index_recorder), "__module__": type(loader).__module__}
    clone.__class__ = type(type(loader).__name__, (type(loader),), namespace)
    clone.__dict__.update(_iterator=None, index_recorder=_Recorder(loader._index_sampler))
    return clone
