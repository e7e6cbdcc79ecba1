"""A data set that keeps its samples."""

from __future__ import annotations

import contextlib
import hashlib
import operator
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import Dataset, IterableDataset, get_worker_info

from fastload._cached._copies import finished
from fastload._cached._samples import MISSING, MemorySamples, Samples
from fastload._cached._serialized import SERIALIZERS, SerializerName
from fastload._display._progress import Progress
from fastload._display._units import bytes_of
from fastload._process._distributed import rank_on_machine
from fastload._process._worker_process import warn

Key = str | int | bytes


class CachedDataset(Dataset[Any]):
    """Keeps the samples of a map-style data set: in memory, or in a file for later runs as well.

    The first thread that asks for a sample makes and keeps it; samples are never thrown out. Two processes with one
    file may both make a sample that they need at the same time. Random transforms belong after it:
    ``CachedDataset(base).map(augment)``. Samples that cannot be kept or read are made anew. It pickles as its
    arguments.

    Args:
        dataset: The samples, by index or by any key that `key` takes. The thread that needs a sample calls it.
        path: A file for the samples, on a disk of this machine; any number of processes may use it at once. None: they
            stay in this process, for all its threads, and tensors stay on a GPU.
        max_bytes: Limit on the file, or on the estimated size of the samples in memory: an int, or a size such as
            ``"200G"`` or ``"1.5TiB"``. Further samples are made each time. None: no limit.
        key: A function that takes an index and returns a str, an int or bytes as the name of the sample. None:
            ``dataset.get_cache_key``, or if there is none, the index with the data set's class and length.
        serializer: The format in the file. "torch": torch.save() with tensors, arrays, numbers, texts, bytes, and
            lists, tuples, dicts and sets of these; reading runs no code. "pickle": anything that pickles.
        to: Device on which tensors are kept and handed out. None: the one they were made on.
        copy: Whether samples in memory are copied when they are handed out. False: every caller gets the same objects,
            which must not be changed.
        version: A text that is part of every sample's name: change it when `dataset` makes other samples.

    Raises:
        TypeError: `dataset` is not map-style, or `key` is not a function.
        ValueError: An argument has a value that is not allowed, or `path` is a file of something else or on a network.
        OSError: `path` cannot be created.

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
        most = None if max_bytes is None else bytes_of(max_bytes)
        kept_as = () if path is None else (serializer,)
        self._keys = _SampleKeys(dataset, key, (*kept_as, *(() if version is None else ("version", version))))
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
            return finished(self.dataset[index], self._to)
        with self._samples.turns.turn(key):
            found = self._samples.get(key)  # another thread may have made it meanwhile
            return self._kept(index, key, self._to) if found is MISSING else found

    def fill(self, progress: bool = True, to: str | torch.device | None = "cpu") -> int:
        """Makes all samples that are not kept yet, in the calling thread, where the data set may use the GPU.

        The ranks on one machine share the work if they use one file: each rank begins with its own share, and then
        makes samples that the others have not made yet. An interrupt loses no finished sample.

        Args:
            progress: Whether to show the progress on standard error if it takes longer than two seconds.
            to: Device on which tensors of these samples are kept; None: see the class.

        Returns:
            The number of samples that are kept. If it is less than the length, `max_bytes` or the disk has no more
            room, and the other samples were not made.

        Raises:
            TypeError: The data set has no length, or a sample cannot be kept.
            ValueError: `to` is not a device.

        Example:
            >>> clouds = [torch.rand(100, 3) for _ in range(4)]
            >>> fastload.CachedDataset(clouds).fill(progress=False, to=None)
            4
        """
        device = self._to if to is None else _device(to)
        count = len(self)
        num_kept = 0
        with Progress("making samples", "samples", is_shown=progress) as shown:
            for index in _order_of_rank(count, *rank_on_machine()):
                num_kept += self._fill_one(index, device)
                shown.advance(num_kept, count)
        return num_kept

    def map(self, function: Callable[[Any], Any]) -> MappedDataset:
        """Returns a data set that applies `function` to the samples of this one, each time they are asked for.

        Args:
            function: A function of a sample. It runs in the worker that loads the sample, with that worker's random
                numbers.

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
        """Drops all samples, in a file also the samples of other data sets.

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
            with self._samples.turns.turn(key):
                if not self._samples.has(key):
                    self._kept(index, key, to)
        return self._samples.has(key)

    def _kept(self, index: Any, key: bytes, to: torch.device | None) -> Any:
        """Makes a sample and keeps it."""
        sample = finished(self.dataset[index], to)
        self._samples.put(key, sample)
        if self._arguments["path"] is None:
            _warn_in_worker_process()
        return sample


class MappedDataset(Dataset[Any]):
    """The result of :meth:`CachedDataset.map`: applies `function` to each sample of `dataset`.

    Args:
        dataset: The samples.
        function: A function that takes a sample and returns the sample to hand out.

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
        """Returns a data set that applies a further function; see :meth:`CachedDataset.map`."""
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


def _warn_in_worker_process() -> None:
    """Warns once in a worker process, which loses its memory at its end. Worker threads are not the main thread."""
    info = get_worker_info()
    if info is not None and info.id == 0 and threading.current_thread() is threading.main_thread():
        warn(
            "a CachedDataset without a path keeps samples in the process, and here each worker process makes its own "
            "and loses them at its end. Call fill() before the loader starts its workers, pass path=, or load with "
            "threads",
            stacklevel=4,
        )


class _SampleKeys:
    """The keys of one data set's samples. `parts` are texts in the name of each."""

    def __init__(self, dataset: Any, key: Callable[[Any], Key] | None, parts: tuple[str, ...]) -> None:
        self._key = key if key is not None else getattr(dataset, "get_cache_key", None)
        self._parts = parts
        self._length = -1
        if self._key is None:
            # The file that an index means changes with the number of files.
            with contextlib.suppress(TypeError):
                self._length = len(dataset)
            self._parts += (type(dataset).__module__, type(dataset).__qualname__, str(self._length))

    def of(self, index: Any) -> bytes:
        """Returns the key of one sample: 16 bytes, as good as random. Raises TypeError for a name of another type."""
        name = self._name(index) if self._key is None else self._key(index)
        if not isinstance(name, (str, int, bytes)):
            raise TypeError(
                f"the key of sample {index!r} must be a str, an int or bytes, got {name!r} ({type(name).__name__}). "
                "Return one that names the sample from key= or get_cache_key()"
            )
        own = name if isinstance(name, bytes) else str(name).encode("utf-8", "surrogatepass")
        hashed = hashlib.blake2b(digest_size=16)
        for part in (*(part.encode("utf-8", "surrogatepass") for part in self._parts), own):
            hashed.update(len(part).to_bytes(8, "big") + part)
        hashed.update(b"b" if isinstance(name, bytes) else b"i" if isinstance(name, int) else b"s")
        return hashed.digest()

    def _name(self, index: Any) -> Key:
        """Returns the name of an index; a negative one counts from the end, and names the same sample."""
        if isinstance(index, (str, bytes)):
            return index
        try:
            number = operator.index(index)
        except TypeError:
            raise TypeError(
                f"sample {index!r} of the data set has no key: only ints, str and bytes name samples by themselves. "
                "Pass key=, a function that makes one of them of such an index"
            ) from None
        return number + self._length if -self._length <= number < 0 else number
