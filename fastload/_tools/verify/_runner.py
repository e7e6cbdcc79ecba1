"""One loader under comparison: it runs step by step on its own random states, is observed, and leaves no trace."""

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

from fastload._delivery._device import Device, moved, object_to
from fastload._errors import SampleError
from fastload._loader._counterparts import described, without_cache
from fastload._loader._current import CurrentLoader
from fastload._loader._loader import DataLoader
from fastload._pillow._pillow import as_reference
from fastload._planning._verdicts import Mode
from fastload._process._config import TorchDataLoader
from fastload._tools.verify._compare import Sample, fields, fingerprint, split_batch
from fastload._tools.verify._rng_states import Generators
from fastload._tools.verify._sample_parts import SampleParts, find_parts, path_of


@dataclass(frozen=True)
class Outcome:
    """The result of one call of next(): a batch, or the exception that was raised instead.

    `indices` are the sampler's for the batch, in order; None if they cannot be known. `reports` are a native loader's
    reports on each sample; None for any other loader.
    """

    batch: Any
    error: Exception | None
    indices: list[Any] | None
    reports: list[Any] | None

    @property
    def error_kind(self) -> str | None:
        """The name of the exception class that was raised when the sample was loaded; None without an error.

        torch's workers rebuild exceptions, if need be as RuntimeError; fastload combines them with SampleError.
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
    """One sample as the loader of `runner` delivered it; `index` is None if unknown.

    `values` are its part of the batch, empty if that is not compared, and `report` is a native loader's report on it.
    """

    runner: LoaderRunner
    index: Any
    values: Sample = field(default_factory=dict)
    report: Any = None

    @property
    def path(self) -> str | None:
        """The sample's file, if the data set tells."""
        return None if self.index is None else path_of(self.runner.loader.dataset, self.index)

    @functools.cached_property
    def fingerprint(self) -> bytes:
        """The digest of its values."""
        return fingerprint(self.values)


_MODES: dict[Mode | None, str] = {
    Mode.NATIVE: ", native",
    Mode.PARTLY_NATIVE: ", partly native",
    Mode.PYTHON: ", in Python",
}


class LoaderRunner:
    """Runs one epoch of a copy of a torch or fastload loader, with `seed` for the process's generators at its start.

    The copy has its own iterator, workers and threads, and its own states of the `generators` of all loaders that
    are compared. It shares data set, samplers and the generators themselves with the loader.
    """

    def __init__(self, loader: TorchDataLoader[Any], generators: Generators, seed: int) -> None:
        self.loader = loader
        self._fastload = CurrentLoader(loader) if isinstance(loader, DataLoader) else None
        self._is_in_order = loader.num_workers == 0 or self.is_native or getattr(loader, "in_order", True)
        self._clone = _observed_clone(loader)
        self.generators = generators
        self._seed = seed
        self._states = generators.seeded(seed)
        self._iterator: Any = None
        self._num_batches = 0
        self._last: Outcome | None = None  # only in a twin
        self._twin: LoaderRunner | None = None
        self._last_reports: list[Any] = []

    @property
    def is_batched(self) -> bool:
        """Whether the loader collates samples into batches; else each item it gives is one sample."""
        return bool(self.loader._auto_collation)

    @functools.cached_property
    def mode(self) -> Mode | None:
        """The way in which the loader makes its batches; None: torch's class makes them."""
        return None if self._fastload is None else self._fastload.plan().mode

    @property
    def is_native(self) -> bool:
        """Whether native code does all of the work, and so can report what it did."""
        return self.mode is Mode.NATIVE

    @property
    def runs_python_in_threads(self) -> bool:
        """Whether fastload's threads run the user's code."""
        if self.loader.num_workers == 0 or self._fastload is None or self.is_native:
            return False
        return not self._fastload.form(self._fastload.plan()).is_of_processes

    @property
    def rng(self) -> str:
        """The kind of random numbers that its samples get: "torch" or "sample"."""
        return "torch" if self._fastload is None else self._fastload.settings.rng

    @property
    def batch_functions(self) -> dict[str, Callable[[Any], Any] | None]:
        """The functions that make a batch from samples and change it, by the names of the loader's arguments."""
        on_device = None if self._fastload is None else self._fastload.settings.device_transform
        return {"collate_fn": self.loader.collate_fn, "device_transform": on_device}

    @property
    def has_torchs_batches(self) -> bool:
        """Whether torch's own collate function alone makes its batches."""
        functions = self.batch_functions
        return functions["collate_fn"] in (default_collate, default_convert) and functions["device_transform"] is None

    def describe(self) -> str:
        """Describes the loader in a line."""
        loader = self.loader
        sampler = type(loader.sampler if loader.batch_size is not None else loader._index_sampler).__qualname__
        return f"{described(loader)}, {sampler}{_MODES.get(self.mode, '')}"

    def parts(self, index: Any) -> SampleParts | str:
        """Takes a sample of the loader's data set apart; see `find_parts`."""
        return find_parts(self.loader.dataset, index, self.generators)

    def start(self) -> None:
        """Begins the epoch; raises what iter(loader) raises."""
        with self.generators.swapped(self._states), self._pillow():
            self._iterator = iter(self._clone)

    def next(self) -> Outcome | None:
        """Takes the next batch, or the error that replaces it; None at the end."""
        self._num_batches += 1
        with self.generators.swapped(self._states), self._pillow():
            try:
                batch, error = next(self._iterator), None
            except StopIteration:
                return None
            except Exception as raised:  # noqa: BLE001 - the loaders' errors are compared, too
                # The traceback's frames would hold the iterator and the loader.
                batch, error = None, raised.with_traceback(None)
        batch = self._on_host(batch)
        indices = self._listed(self._clone.index_recorder.take())
        reports = self._new_reports(has_failed=error is not None)
        if reports is not None:
            indices = [report.index for report in reports]
        return Outcome(batch, error, indices, reports)

    def samples_of(self, delivery: Outcome) -> list[DeliveredSample]:
        """Splits a batch into samples; one that cannot be split counts as one sample of unknown index."""
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
        """Returns a sample of the last batch as it is without a cache; None if that is not known.

        For this, the epoch runs once more from its start to the last batch.
        """
        if self._num_batches == 0 or self._fastload is None or self._fastload.settings.cache is None:
            return None
        try:
            if self._twin is None:
                self._twin = LoaderRunner(without_cache(self._fastload), self.generators, self._seed)
                self._twin.start()
            while self._twin._num_batches < self._num_batches:
                self._twin._last = self._twin.next()
        except Exception:  # noqa: BLE001 - the user's code decides what is raised; then nothing is known
            return None
        delivery = self._twin._last
        if delivery is None or delivery.error is not None:
            return None
        return next((sample for sample in self._twin.samples_of(delivery) if sample.index == index), None)

    def _pillow(self) -> contextlib.AbstractContextManager[None]:
        """Makes images Pillow's in a torch loader and its workers, even if register_opener() was called."""
        return as_reference() if self._fastload is None else contextlib.nullcontext()

    def _on_host(self, batch: Any) -> Any:
        """Copies the batch to the host if the loader delivers to a device."""
        state = getattr(self._clone, "_fastload", None)
        device: Device | None = None if state is None else state.device
        if device is None or batch is None:
            return batch
        device.synchronize()
        return moved(batch, lambda tensor: tensor.cpu(), lambda value: object_to(value, "cpu"))

    def _listed(self, indices: Any) -> list[Any] | None:
        """Lists the indices of a batch; None if they are not known."""
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
        """Returns the reports of a native iterator, unless they are still those on the batch before."""
        if not hasattr(self._iterator, "batch_report"):
            return None
        before, self._last_reports = self._last_reports, self._iterator.batch_report()
        return None if has_failed and before == self._last_reports else self._last_reports

    def leaves_generators_as(self, new: LoaderRunner) -> bool:
        """Returns whether both loaders leave the process's generators and their own in equal states."""
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
    """Gives the iterators their index batches, and notes the batches of the iteration that began last.

    With workers, torch begins two iterations of a sampler in each epoch and uses the second.
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
        """Takes the sampler's indices for the next batch; None if it gave nothing."""
        return self._taken.popleft() if self._taken else None


def _observed_clone(loader: TorchDataLoader[Any]) -> Any:
    """Returns a shallow copy without workers or iterator, whose iterators take their index batches through a recorder.

    Its class differs in the one property that torch's iterators read. The samplers stay the same objects, so that
    fastload lowers them as it would without an observer.
    """
    clone: Any = copy.copy(loader)
    namespace = {"_index_sampler": property(lambda self: self.index_recorder), "__module__": type(loader).__module__}
    clone.__class__ = type(type(loader).__name__, (type(loader),), namespace)
    clone.__dict__.update(_iterator=None, index_recorder=_Recorder(loader._index_sampler))
    return clone
