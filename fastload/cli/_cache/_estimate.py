"""What a store would bring: of a few files records are made, and a real loader is measured without and with them."""

from __future__ import annotations

import itertools
import os
import random
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch

from fastload._decode_cache._cache import Cache, place_of
from fastload._decode_cache._report import report_of
from fastload._decode_cache._store import OpenStore, RecordKind
from fastload._display._progress import Progress
from fastload._display._units import in_bytes, in_percent, in_seconds
from fastload._loader._loader import DataLoader
from fastload._tools.benchmark import benchmark
from fastload.cli._cache._files import TargetFiles, why_unread
from fastload.cli._cache._kinds import Kind, up_to
from fastload.cli._cache._run import builders, gone_through, record_action
from fastload.cli._errors import LoaderFailedError, UsageError, one_line
from fastload.cli._folder_loader import training_transform
from fastload.sources import ImageFiles

_NUM_FILES = 256
_BATCH_SIZE = 32
_NUM_EPOCHS = 2  # that are compared
_NUM_TURNS = 3
_TURN_SECONDS = 2.0
# Of the temporary store: more than the records take, what is reserved before it is used included.
_ROOM_BYTES = 256 << 20
_ROOM_OF_FILES = 4


@dataclass(frozen=True)
class KindEstimate:
    """Of one kind of records.

    Attributes:
        num_with_record: Of the files that were looked at.
        num_too_new: Of them, changed so lately that they have none yet.
        record_bytes: On disk, a file that has a record.
        all_bytes: On disk, for all files of the target.
        build_seconds: To build the records of all files here.
        is_equal: Whether the loader gave the same batches without and with a store.
        rate: Images a second with all records there; None where batches differ.
    """

    num_with_record: int
    num_too_new: int
    record_bytes: float
    all_bytes: float
    build_seconds: float
    is_equal: bool
    rate: float | None

    def rows(self, file_bytes: float, num_files: int, plain_rate: float | None) -> Iterator[tuple[str, ...]]:
        """For people."""
        yield "with record", f"{self.num_with_record:,}", in_percent(self.num_with_record, num_files)
        if self.num_too_new:
            yield "too new", f"{self.num_too_new:,}", "changed in the last minute: ask again a minute later"
        yield "a record", in_bytes(self.record_bytes), f"{in_percent(self.record_bytes, file_bytes)} of its file"
        yield "for all files", in_bytes(self.all_bytes), f"built in about {in_seconds(self.build_seconds)}"
        yield "compared", f"{_NUM_EPOCHS} epochs", "0 differences" if self.is_equal else "the batches differ"
        if plain_rate is not None and self.rate is not None:
            yield "images/s", f"{self.rate:,.0f}", f"{self.rate / plain_rate:.2f} times as fast"


@dataclass(frozen=True)
class Estimate:
    """By a few files.

    Attributes:
        num_files: Of the target.
        num_looked_at: Of them, that could be read.
        file_bytes: Mean size of a file.
        num_workers: Threads.
        plain_rate: Images a second without a store; None where batches differ.
        kinds: What a store of each kind brings, that of indexes first, which is part of the others.
        transform: Whose the loaders that were measured had.
    """

    num_files: int
    num_looked_at: int
    file_bytes: float
    num_workers: int
    plain_rate: float | None
    kinds: Mapping[RecordKind, KindEstimate]
    transform: str

    @property
    def is_equal(self) -> bool:
        """Whether the loaders gave the same batches without and with any store."""
        return all(kind.is_equal for kind in self.kinds.values())

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {**asdict(self), "is_equal": self.is_equal}

    def rows(self) -> Iterator[tuple[str, ...]]:
        """For people."""
        looked_at = f"{self.num_looked_at:,} of {self.num_files:,}"
        yield "files", "looked at", looked_at, f"{in_bytes(self.file_bytes)} each"
        if self.plain_rate is not None:
            yield "without", "images/s", f"{self.plain_rate:,.0f}", f"with {self.transform}, files in memory"
        for name, kind in self.kinds.items():
            for row in kind.rows(self.file_bytes, self.num_looked_at, self.plain_rate):
                yield name, *row


def estimate(files: TargetFiles, num_workers: int, kind: Kind) -> Estimate:
    """Looks at some of the files.

    Raises:
        UsageError: None of them can be read, there is no torchvision, or no room for temporary files.
        LoaderFailedError: The loader fails.
    """
    paths = files.paths
    source = files.source if kind.name == "pixels" else None
    transform = training_transform() if source is None else source.transform
    places = sorted(random.Random(0).sample(range(len(paths)), min(len(paths), _NUM_FILES)))
    chosen = [paths[place] for place in places]
    sizes = {path: size for path in chosen if (size := _size_of(path)) is not None}
    if not sizes:
        raise UsageError(f"none of {len(chosen)} files can be read: {os.fsdecode(chosen[0])}: {why_unread(chosen[0])}")
    try:
        with tempfile.TemporaryDirectory(prefix="fastload-estimate-") as folder:
            return _estimated(files, sizes, num_workers, transform, Path(folder), up_to(kind))
    except OSError as error:
        raise UsageError(one_line(error)) from error


def _estimated(
    files: TargetFiles,
    sizes: Mapping[bytes, int],
    num_workers: int,
    transform: Any,
    folder: Path,
    kinds: Sequence[Kind],
) -> Estimate:
    max_bytes = _ROOM_BYTES + _ROOM_OF_FILES * sum(sizes.values())
    caches = [Cache(folder, max_bytes, what=kind.name) for kind in kinds]
    chosen, num_files = replace(files, paths=list(sizes)), len(files.paths)
    built = [_build(chosen, num_workers, cache, kind) for cache, kind in zip(caches, kinds, strict=True)]
    images = ImageFiles(list(sizes), [0] * len(sizes), transform)
    loaders = [_loader(images, num_workers, setting) for setting in (None, *caches)]
    try:
        are_equal = _give_the_same(loaders)
        plain, *rates = _rates(loaders) if all(are_equal) else [None] * len(loaders)
    except Exception as error:
        raise LoaderFailedError(one_line(error)) from error
    finally:
        for loader in loaders:
            loader.close()
    found = {
        kind.name: each.estimate(num_files / len(sizes), is_equal, rate)
        for kind, each, is_equal, rate in zip(kinds, built, are_equal, rates, strict=True)
    }
    whose = "the loader's transform" if kinds[-1].name == "pixels" else "the usual training transform"
    return Estimate(num_files, len(sizes), statistics.mean(sizes.values()), num_workers, plain, found, whose)


def _size_of(path: bytes) -> int | None:
    """None of a file that cannot be read. It is in memory then, whoever reads it next."""
    try:
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - bytes, as the system has them
            return len(file.readall())
    except OSError:
        return None


class _Built(NamedTuple):
    """Attributes are as those of a KindEstimate, but of the files that were looked at."""

    num_with_record: int
    num_too_new: int
    used_bytes: int
    seconds: float

    def estimate(self, files_of_each: float, is_equal: bool, rate: float | None) -> KindEstimate:
        """For so many files of each that was looked at."""
        return KindEstimate(
            num_with_record=self.num_with_record,
            num_too_new=self.num_too_new,
            record_bytes=self.used_bytes / max(1, self.num_with_record),
            all_bytes=self.used_bytes * files_of_each,
            build_seconds=self.seconds * files_of_each,
            is_equal=is_equal,
            rate=rate,
        )


def _build(files: TargetFiles, num_workers: int, cache: Cache, kind: Kind) -> _Built:
    paths = files.paths
    store = OpenStore(place_of(cache, kind.name))
    used_before = _used_bytes(cache)
    begin = time.perf_counter()
    try:
        store_cache = kind.make_cache(store.native, len(paths))
        actions = [record_action(builder, store) for builder in builders(kind, store_cache, files, num_workers)]
        run, is_whole = gone_through(f"building {kind.plural}", paths, actions)
        seconds = time.perf_counter() - begin
    finally:
        store.close()
    if not is_whole:
        raise KeyboardInterrupt
    if (trouble := store.why_nothing_is_kept()) is not None:
        raise UsageError(f"there is no room for {kind.plural} of {len(paths)} files in {cache.path}: {trouble}")
    num_with_record = run.counts["kept"] + run.counts["known"]
    return _Built(num_with_record, run.counts["too new"], _used_bytes(cache) - used_before, seconds)


def _used_bytes(cache: Cache) -> int:
    return report_of(cache.path, is_shared=False, reads_records=False).used_bytes


def _loader(images: ImageFiles, num_workers: int, cache: Cache | None) -> DataLoader[Any]:
    return DataLoader(
        images, _BATCH_SIZE, num_workers=num_workers, rng="sample", seed=0, cache=cache, on_error="skip", max_errors=1
    )


def _give_the_same(loaders: Sequence[DataLoader[Any]]) -> list[bool]:
    """Of each loader but the first, whether it gives the first one's batches."""
    are_equal = [True] * (len(loaders) - 1)
    with Progress("comparing"):
        for _ in range(_NUM_EPOCHS):
            for plain, *others in itertools.zip_longest(*loaders):
                are_equal = [so_far and _is_same(plain, each) for so_far, each in zip(are_equal, others, strict=True)]
                if not any(are_equal):
                    return are_equal
    return are_equal


def _is_same(old: Any, new: Any) -> bool:
    return old is not None and new is not None and all(map(torch.equal, old, new))


def _rates(loaders: Sequence[DataLoader[Any]]) -> list[float]:
    """Images a second, by turns."""
    found: list[list[float]] = [[] for _ in loaders]
    for turn in range(_NUM_TURNS):
        for loader, rates in zip(loaders, found, strict=True):
            with Progress(f"measuring, turn {turn + 1} of {_NUM_TURNS}", "%") as progress:
                result = benchmark(loader, _TURN_SECONDS, warmup_seconds=_TURN_SECONDS / 10, progress=progress.advance)
            rates.append(result.samples_per_second)
    return [statistics.median(rates) for rates in found]
