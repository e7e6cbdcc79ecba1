"""What a store would bring: of a few files indexes are made, and a real loader is measured without and with them."""

from __future__ import annotations

import itertools
import os
import random
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch

from fastload._benchmark import benchmark
from fastload._decode_cache._cache import Cache, place_of
from fastload._decode_cache._report import report_of
from fastload._decode_cache._store import OpenStore
from fastload._display._units import in_bytes, in_percent, in_seconds
from fastload._loader._loader import DataLoader
from fastload._progress import Progress
from fastload.cli._cache._files import why_unread
from fastload.cli._cache._run import builders, gone_through
from fastload.cli._errors import LoaderFailedError, UsageError, one_line
from fastload.cli._folder_loader import training_transform
from fastload.sources import ImageFiles

_NUM_FILES = 256
_BATCH_SIZE = 32
_NUM_EPOCHS = 2  # that are compared
_NUM_TURNS = 3
_TURN_SECONDS = 2.0


@dataclass(frozen=True)
class Estimate:
    """By a few files.

    Attributes:
        num_files: Of the target.
        num_looked_at: Of them, that could be read.
        num_with_index: Of these.
        file_bytes: Mean size of a file.
        index_bytes: On disk, a file that has an index.
        all_bytes: On disk, for all files of the target.
        build_seconds: To build the indexes of all files here.
        num_workers: Threads.
        is_equal: Whether the loader gave the same batches without and with a store.
        plain_rate: Images a second without a store; None where the batches differ.
        cached_rate: With all indexes there.
    """

    num_files: int
    num_looked_at: int
    num_with_index: int
    file_bytes: float
    index_bytes: float
    all_bytes: float
    build_seconds: float
    num_workers: int
    is_equal: bool
    plain_rate: float | None
    cached_rate: float | None

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)

    def rows(self) -> Iterator[tuple[str, ...]]:
        """For people."""
        yield "looked at", f"{self.num_looked_at:,} of {self.num_files:,}", f"files, {in_bytes(self.file_bytes)} each"
        yield "with index", f"{self.num_with_index:,}", in_percent(self.num_with_index, self.num_looked_at)
        share = in_percent(self.index_bytes, self.file_bytes)
        yield "an index", in_bytes(self.index_bytes), f"{share} of its file"
        yield "for all files", in_bytes(self.all_bytes), f"built in about {in_seconds(self.build_seconds)}"
        yield "compared", f"{_NUM_EPOCHS} epochs", "0 differences" if self.is_equal else "the batches differ"
        if self.plain_rate is not None and self.cached_rate is not None:
            yield "without", f"{self.plain_rate:,.0f}", "images/s, with the usual training transform, files in memory"
            yield "with it", f"{self.cached_rate:,.0f}", f"{self.cached_rate / self.plain_rate:.2f} times as fast"


def estimate(paths: Sequence[bytes], num_workers: int) -> Estimate:
    """Looks at some of the files.

    Raises:
        UsageError: None of them can be read, there is no torchvision, or no room for temporary files.
        LoaderFailedError: The loader fails.
    """
    transform = training_transform()
    places = sorted(random.Random(0).sample(range(len(paths)), min(len(paths), _NUM_FILES)))
    chosen = [paths[place] for place in places]
    try:
        with tempfile.TemporaryDirectory(prefix="fastload-estimate-") as folder:
            return _estimated(len(paths), chosen, num_workers, transform, Cache(folder))
    except OSError as error:
        raise UsageError(one_line(error)) from error


def _estimated(num_files: int, chosen: Sequence[bytes], num_workers: int, transform: Any, cache: Cache) -> Estimate:
    sizes = {path: size for path in chosen if (size := _size_of(path)) is not None}
    if not sizes:
        raise UsageError(f"none of {len(chosen)} files can be read: {os.fsdecode(chosen[0])}: {why_unread(chosen[0])}")
    num_with_index, seconds = _build(list(sizes), num_workers, cache)
    used_bytes = report_of(cache.path, is_shared=False, reads_records=False).used_bytes if num_with_index else 0
    images = ImageFiles(list(sizes), [0] * len(sizes), transform)
    loaders = [_loader(images, num_workers, setting) for setting in (None, cache)]
    try:
        is_equal = _give_the_same(loaders)
        rates = _rates(loaders) if is_equal else [None, None]
    except Exception as error:
        raise LoaderFailedError(one_line(error)) from error
    finally:
        for loader in loaders:
            loader.close()
    return Estimate(
        num_files=num_files,
        num_looked_at=len(sizes),
        num_with_index=num_with_index,
        file_bytes=statistics.mean(sizes.values()),
        index_bytes=used_bytes / max(1, num_with_index),
        all_bytes=used_bytes / len(sizes) * num_files,
        build_seconds=seconds / len(sizes) * num_files,
        num_workers=num_workers,
        is_equal=is_equal,
        plain_rate=rates[0],
        cached_rate=rates[1],
    )


def _size_of(path: bytes) -> int | None:
    """None of a file that cannot be read. It is in memory then, whoever reads it next."""
    try:
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - bytes, as the system has them
            return len(file.readall())
    except OSError:
        return None


def _build(paths: Sequence[bytes], num_workers: int, cache: Cache) -> tuple[int, float]:
    """Files that have an index now, and seconds that it took."""
    store = OpenStore(place_of(cache))
    begin = time.perf_counter()
    try:
        actions = [builder.build for builder in builders(store.native.make_decode_cache(len(paths)), num_workers)]
        run, is_whole = gone_through("building indexes", paths, actions)
        seconds = time.perf_counter() - begin
    finally:
        store.close()
    if not is_whole:
        raise KeyboardInterrupt
    return run.counts["kept"] + run.counts["known"], seconds


def _loader(images: ImageFiles, num_workers: int, cache: Cache | None) -> DataLoader[Any]:
    return DataLoader(
        images, _BATCH_SIZE, num_workers=num_workers, rng="sample", seed=0, cache=cache, on_error="skip", max_errors=1
    )


def _give_the_same(loaders: Sequence[DataLoader[Any]]) -> bool:
    with Progress("comparing"):
        for _ in range(_NUM_EPOCHS):
            for old, new in itertools.zip_longest(*loaders):
                if old is None or new is None or not all(map(torch.equal, old, new)):
                    return False
    return True


def _rates(loaders: Sequence[DataLoader[Any]]) -> list[float]:
    """Images a second, by turns."""
    found: list[list[float]] = [[] for _ in loaders]
    for turn in range(_NUM_TURNS):
        for loader, rates in zip(loaders, found, strict=True):
            with Progress(f"measuring, turn {turn + 1} of {_NUM_TURNS}", "%") as progress:
                result = benchmark(loader, _TURN_SECONDS, warmup_seconds=_TURN_SECONDS / 10, progress=progress.advance)
            rates.append(result.samples_per_second)
    return [statistics.median(rates) for rates in found]
