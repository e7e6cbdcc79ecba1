"""A data set whose samples are made once, and kept."""

from __future__ import annotations

import contextlib
import os
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import Dataset, IterableDataset, get_worker_info

from fastload._cached._gpus import finished
from fastload._cached._keys import Key, SampleKeys
from fastload._cached._samples import MISSING, MemorySamples, Samples
from fastload._cached._serialized import SERIALIZERS, SerializerName
from fastload._display._progress import Progress
from fastload._display._units import bytes_of
from fastload._process._distributed import rank_on_machine


class CachedDataset(Dataset[Any]):
    """Samples of a map-style data set, made once and kept: in memory, or in a file for later runs as well.

    The first to ask for a sample makes it, whichever thread or process that is, and keeps it; nothing is ever thrown
    out. Whatever draws random numbers belongs behind it: ``CachedDataset(base).map(augment)``. Where samples cannot be
    kept or read, they are made anew. It pickles as its arguments.

    Args:
        dataset: The samples, by index or by any key that `key` takes. It is asked by the thread that wants a sample.
        path: A file for them, on a disk of this machine; any number of processes may use it at once. None: they stay
            in this process, for all its threads, tensors on a GPU there.
        max_bytes: How much is kept, an int or a size such as ``"200G"`` or ``"1.5TiB"``: of the file, or about of the
            samples in memory. What comes later is made each time. None: no limit.
        key: Called with an index, returns a str, an int or bytes that names the sample. None:
            ``dataset.get_cache_key``, and where there is none, the index with the data set's class and length.
        serializer: How samples get into the file. "torch": as torch.save() writes tensors, arrays, numbers, texts,
            bytes, and lists, tuples, dicts and sets of these; reading runs no code. "pickle": anything that pickles.
        to: Device on which tensors are kept and handed out. None: the one they were made on.
        copy: Whether samples in memory are copied when they are handed out. False: all get the same objects, which
            nobody may change.
        version: Samples are found only by who gives the same text: change it when `dataset` makes others.

    Raises:
        TypeError: `dataset` is not map-style, or `key` is no function.
        ValueError: An argument has a value that is not allowed, or `path` is a file of something else or on a network.
        OSError: `path` cannot be made.

    Example:
        >>> images = fastload.ImageFiles(["cat.jpg"] * 8, range(8), transform=transform)
        >>> cached = fastload.CachedDataset(images, path="cats.samples", max_bytes="2G")
        >>> cached.fill()
        8
        >>> augmented = cached.map(lambda sample: (sample[0] + torch.rand(1), sample[1]))
        >>> for images, labels in fastload.DataLoader(augmented, batch_size=4, num_workers=2):
        ...     train(images, labels)
    """

    def __init__(
        self,
        dataset: Any,
        path: str | os.PathLike[str] | None = None,
        max_bytes: int | str | None = None,
        key: Callable[[Any], Key] | None = None,
        serializer: SerializerName = "torch",
        to: str | torch.device | None = None,
        *,
        copy: bool = True,
        version: str | None = None,
    ) -> None:
        _check(dataset, key, serializer, version)
        self._arguments = {
            **{"dataset": dataset, "path": path, "max_bytes": max_bytes, "key": key, "serializer": serializer},
            **{"to": to, "copy": copy, "version": version},
        }
        self.dataset = dataset
        self._to = None if to is None else _device(to)
        most = None if max_bytes is None else bytes_of(max_bytes, "max_bytes")
        kept_as = () if path is None else (serializer,)
        self._keys = SampleKeys(dataset, key, (*kept_as, *(() if version is None else ("version", version))))
        self._samples: Samples
        if path is None:
            self._samples = MemorySamples(most, copies=copy, to=self._to)
        else:
            from fastload._cached._file_samples import open_file_samples  # some Pythons have no SQLite

            self._samples = open_file_samples(Path(path), most, serializer, self._to)

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: Any) -> Any:
        key = self._keys.of(index)
        found = self._samples.get(key)
        if found is not MISSING:
            return found
        if self._samples.is_full:
            return self._made(index, self._to)
        with self._samples.turn(key):
            found = self._samples.get(key)  # another thread may have made it meanwhile
            return self._kept(index, key, self._to) if found is MISSING else found

    def fill(self, progress: bool = True, to: str | torch.device | None = "cpu") -> int:
        """Makes all samples that are not kept yet, in the calling thread, where the data set may use the GPU.

        The ranks of one machine share the work if they have one file. What was made stays when this is interrupted.

        Args:
            progress: Whether standard error says how far it is, if it takes longer than two seconds.
            to: Device on which tensors of these samples are kept; None: see the class.

        Returns:
            How many samples of the data set are kept. Fewer than there are: `max_bytes` or the disk has no more room,
            and the others were not made.

        Raises:
            TypeError: The data set has no length, or a sample cannot be kept.
            ValueError: `to` is no device.

        Example:
            >>> clouds = [torch.rand(100, 3) for _ in range(4)]
            >>> fastload.CachedDataset(clouds).fill(progress=False, to=None)
            4
        """
        device = self._to if to is None else _device(to)
        count = len(self)
        num_kept = 0
        with _progress(progress) as advance:
            for index in _order_of_rank(count, *rank_on_machine()):
                num_kept += self._fill_one(index, device)
                advance(num_kept, count)
        return num_kept

    def map(self, function: Callable[[Any], Any]) -> MappedDataset:
        """The data set whose samples are what `function` makes of these, each time they are asked for.

        Args:
            function: Called with a sample, in the worker that loads it, with that worker's random numbers.

        Returns:
            A map-style data set that uses the same cache.

        Raises:
            TypeError: `function` cannot be called.

        Example:
            >>> doubled = fastload.CachedDataset([1, 2, 3]).map(lambda number: number * 2)
            >>> doubled[2], len(doubled)
            (6, 3)
        """
        return MappedDataset(self, function)

    def clear(self) -> None:
        """Lets go of all samples, in a file those of other data sets, too.

        Example:
            >>> cached = fastload.CachedDataset([1, 2, 3])
            >>> cached.clear()
        """
        self._samples.clear()

    def __repr__(self) -> str:
        return f"CachedDataset({type(self.dataset).__qualname__}, {self._samples.describe()})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _with_arguments, (self._arguments,)

    def _fill_one(self, index: int, to: torch.device | None) -> bool:
        """Makes the sample if it is not kept and there is room. Returns whether it is kept now."""
        key = self._keys.of(index)
        if not self._samples.has(key) and not self._samples.is_full:
            with self._samples.turn(key):
                if not self._samples.has(key):
                    self._kept(index, key, to)
        return self._samples.has(key)

    def _kept(self, index: Any, key: bytes, to: torch.device | None) -> Any:
        """A new sample, which is kept from now on."""
        sample = self._made(index, to)
        self._samples.put(key, sample)
        if self._arguments["path"] is None:
            _warn_in_worker_process()
        return sample

    def _made(self, index: Any, to: torch.device | None) -> Any:
        return finished(self.dataset[index], to)


class MappedDataset(Dataset[Any]):
    """What :meth:`CachedDataset.map` returns: `function` of each sample of `dataset`.

    Args:
        dataset: The samples.
        function: Called with a sample, returns what is handed out.

    Raises:
        TypeError: `function` cannot be called.
    """

    def __init__(self, dataset: CachedDataset | MappedDataset, function: Callable[[Any], Any]) -> None:
        if not callable(function):
            raise TypeError(f"map() needs a function that is called with a sample, got {function!r}")
        self.dataset = dataset
        self.function = function

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: Any) -> Any:
        return self.function(self.dataset[index])

    def map(self, function: Callable[[Any], Any]) -> MappedDataset:
        """See :meth:`CachedDataset.map`."""
        return MappedDataset(self, function)

    def __repr__(self) -> str:
        return f"{self.dataset!r}.map({getattr(self.function, '__qualname__', type(self.function).__qualname__)})"


def _with_arguments(arguments: dict[str, Any]) -> CachedDataset:
    return CachedDataset(**arguments)


def _check(dataset: Any, key: Any, serializer: Any, version: Any) -> None:
    if isinstance(dataset, IterableDataset) or not hasattr(dataset, "__getitem__"):
        raise TypeError(
            f"dataset must be map-style, with __getitem__, got a {type(dataset).__qualname__}: the samples of a stream "
            "have no index by which they could be found again"
        )
    if key is not None and not callable(key):
        raise TypeError(f"key must be a function that is called with an index, got {key!r}")
    if serializer not in SERIALIZERS:
        raise ValueError(f"serializer must be 'torch' or 'pickle', got {serializer!r}")
    if version is not None and not isinstance(version, str):
        raise TypeError(f"version must be a text, got {version!r}")


def _device(to: Any) -> torch.device:
    try:
        return torch.device(to)
    except (RuntimeError, TypeError) as error:
        raise ValueError(f"to must be a device such as 'cpu' or 'cuda:0', got {to!r}") from error


def _order_of_rank(count: int, rank: int, num_ranks: int) -> Iterator[int]:
    """Yields the rank's own share of ``range(count)``, then the other shares from their ends, to help slower ranks."""
    yield from range(rank, count, num_ranks)
    for other in range(rank + 1, rank + num_ranks):
        yield from reversed(range(other % num_ranks, count, num_ranks))


@contextlib.contextmanager
def _progress(is_shown: bool) -> Iterator[Callable[[float, float], None]]:
    if not is_shown:
        yield lambda done, total: None
        return
    with Progress("making samples", "samples") as shown:
        yield shown.advance


def _warn_in_worker_process() -> None:
    """What one keeps in memory ends with it. A worker thread is not the main thread of its process."""
    info = get_worker_info()
    if info is not None and info.id == 0 and threading.current_thread() is threading.main_thread():
        warnings.warn(
            "a CachedDataset without a path keeps samples in the process, and here each worker process makes its own "
            "and loses them at its end. Call fill() before the loader starts its workers, pass path=, or load with "
            "threads",
            RuntimeWarning,
            stacklevel=4,
        )
