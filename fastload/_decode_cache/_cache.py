"""The user's name for a store on disk."""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from fastload import _native
from fastload._decode_cache._store import KINDS, ImageFiles, RecordKind
from fastload._display._progress import Progress
from fastload._display._units import bytes_of, counted, in_bytes
from fastload._process import _config
from fastload._process._limits import num_auto_workers

# Enough for five million photographs of ImageNet's kind.
DEFAULT_MAX_BYTES = 4 << 30


What = RecordKind | tuple[RecordKind, ...]
Validation = Literal["stat", "content"]
_TAKES = {
    "coefficients": "about 1.7 times the bytes of the images",
    "pixels": "3 bytes for each pixel of an image before the first random step, 150 kB for one of 224 x 224",
}


@dataclass(frozen=True, init=False, repr=False)
class Cache:
    """A store on disk that keeps results of decoding for later runs and other processes.

    All processes that name the same folder share it: the ranks of a machine, later runs, other programs. Batches,
    errors and warnings are the same with and without it. Nothing is ever evicted: once `max_bytes` are used up, the
    store keeps its records and takes no more.

    Every store keeps an index of each JPEG file by its contents: the places where the decoder may begin. Loaders write
    indexes while they run. A file that changes is another file; no rule about times or names is needed.

    A store with ``what="coefficients"`` also keeps the coefficients of the files, which saves the larger part of
    decoding and takes about 1.7 times the files' bytes. Loaders only read them; ``fill(loader)`` or ``fastload cache
    build`` writes them before training. They are found by path, and are used while the file's size, times and inode
    stay the same. ``what="pixels"`` keeps the image as it is before the first random step of the transform, by path
    and by the steps before; it suits transforms that begin with a Resize or a crop without draws, as evaluations do.
    With ``what=("coefficients", "pixels")`` one cache serves both sorts of loaders: pixels for a loader that has such
    steps, coefficients for any other.

    Args:
        path: Folder on a local disk; created if it is missing. None: ``decode`` in the cache folder
            ($FASTLOAD_CACHE, else fastload in $XDG_CACHE_HOME or ~/.cache). On a network file system loaders only
            read, and ``fastload cache build`` writes; coefficients and pixels are neither written nor read there.
        max_bytes: Limit of all files in it together, as a number or as "200G" or "1.5TiB". None: 4 GiB, an index
            of each of 4 million photographs; required with coefficients or pixels.
        what: "index", "coefficients" or "pixels", or a tuple of these; the index is always part of it, and serves the
            images for which there is no room.
        validate: When coefficients and pixels are used. "stat": if the file still has its size, times and inode.
            On a file server it is opened for that; on FUSE, whose times may stand still, they are never used.
            "content": the file is read, too, and must have the same bytes.

    Attributes:
        max_bytes: The limit of all its files together.
        what: The kinds of records: the name of one, or a tuple of names.
        validate: The rule that decides whether coefficients and pixels are used.

    Raises:
        ValueError: `max_bytes` is not a size, below 1 MiB or missing; `what` or `validate` has none of these values.

    Example:
        >>> loader = fastload.DataLoader(dataset, batch_size=4, cache=fastload.Cache("/tmp/decode-cache"))
        >>> loader.cache.max_bytes
        4294967296
    """

    _path: Path | None
    max_bytes: int
    what: What
    validate: Validation

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        max_bytes: int | str | None = None,
        what: RecordKind | Iterable[RecordKind] = "index",
        validate: Validation = "stat",
    ) -> None:
        own_path = None if path is None else Path(os.path.abspath(os.path.expanduser(os.fspath(path))))  # noqa: PTH100, PTH111
        vars(self).update(_path=own_path, what=_checked_what(what))
        if max_bytes is None and (large := kinds_of(self)[1:]):
            takes = " and ".join(_TAKES[kind] for kind in large)
            raise ValueError(f"max_bytes must be given with what={what!r}, which takes {takes}")
        size = DEFAULT_MAX_BYTES if max_bytes is None else _checked_size(max_bytes)
        vars(self).update(max_bytes=size, validate=_one_of(validate, "validate", get_args(Validation)))

    @property
    def path(self) -> Path:
        """The folder.

        Raises:
            RuntimeError: None was given, and there is no home folder for the cache folder.
        """
        return default_path() if self._path is None else self._path

    def fill(self, loader: _config.TorchDataLoader[Any], progress: bool = True) -> int:
        """Writes the records of all files that `loader` reads, as ``fastload cache build`` does.

        The loader decides which kind: indexes, coefficients or pixels. Files that have their records are skipped, so an
        interrupted build goes on; finished records are published in any case. Call it before training, in one process.
        The next epoch of the loader finds the records.

        Args:
            loader: fastload.DataLoader over files, with this cache or another one.
            progress: Whether standard error shows the progress, if it takes longer than two seconds.

        Returns:
            Number of files that have a record now. A warning says why others have none.

        Raises:
            TypeError: `loader` is no fastload.DataLoader.
            ValueError: The files that the loader reads are not known, or its pixels are not worth keeping.
            OSError: The store cannot be opened or written to.

        Example:
            >>> cache = fastload.Cache("/tmp/decode-cache", "1G", what="coefficients")
            >>> loader = fastload.DataLoader(dataset, batch_size=4, cache=cache)
            >>> num_known = cache.fill(loader, progress=False)
        """
        files_of: Callable[[Cache], tuple[RecordKind, ImageFiles]] | None = getattr(loader, "__image_files__", None)
        if files_of is None:
            raise TypeError(f"loader must be a fastload.DataLoader, got {type(loader).__name__}")
        from fastload._decode_cache._build import FileRun, begin_build  # memory that most programs never need

        kind, files = files_of(self)
        build = begin_build(self.path, self.max_bytes, kind, files)
        try:
            run = FileRun(
                files.paths, [build.action() for _ in range(num_auto_workers())], lambda: build.trouble() is not None
            )
            with Progress(f"filling {self.path}", "files", is_shown=progress) as shown:
                run.run(shown.advance)
        finally:
            build.close()
        num_known = build.num_kept(run.counts["kept"]) + run.counts["known"] + run.counts["different"]
        if (left := len(files.paths) - num_known - run.counts["none"]) > 0:
            _warn_of_rest(left, kind, build.trouble(), run.counts)
        return num_known

    @staticmethod
    def clear_memory() -> None:
        """Releases all indexes that this process has in memory, which ``cache="auto"`` keeps.

        Example:
            >>> fastload.Cache.clear_memory()
        """
        _native.clear_index_memory()

    def __repr__(self) -> str:
        path = "" if self._path is None else f"{str(self._path)!r}, "
        defaults = {"what": "index", "validate": "stat"}
        named = [name for name, value in defaults.items() if getattr(self, name) != value]
        others = "".join(f", {name}={getattr(self, name)!r}" for name in named)
        return f"Cache({path}max_bytes={self.max_bytes}{others})"


class NoPixelsError(ValueError):
    """Raised for a cache of pixels if the loader has none worth keeping; `why` is the reason, as a clause."""

    def __init__(self, why: str) -> None:
        super().__init__(
            'cache=Cache(what="pixels") keeps each image as it is before the first random step; '
            f'what="coefficients" or "index" fits any transform. Here {why}'
        )


def kinds_of(cache: Cache) -> tuple[RecordKind, ...]:
    """Returns the kinds of all records in it, indexes first."""
    asked = (cache.what,) if isinstance(cache.what, str) else cache.what
    return tuple(kind for kind in KINDS if kind == "index" or kind in asked)


def for_loader(setting: Any, why_no_pixels: Callable[[], str | None]) -> Any:
    """Returns the cache argument as a loader uses it, which has one kind besides indexes.

    `why_no_pixels` says why the loader has no pixels that are worth keeping, or returns None.
    """
    if not isinstance(setting, Cache) or isinstance(setting.what, str):
        return setting
    kinds = [kind for kind in kinds_of(setting) if kind != "pixels" or why_no_pixels() is None]
    return Cache(setting._path, setting.max_bytes, kinds[-1], setting.validate)


def is_of_pixels(setting: object) -> bool:
    """Returns whether a loader's setting means pixels."""
    return isinstance(setting, Cache) and setting.what == "pixels"


def default_path() -> Path:
    """Returns the default folder of a store. Raises RuntimeError where there is no home folder."""
    return _config.cache_folder() / "decode"


def _one_of(value: Any, name: str, allowed: tuple[Any, ...]) -> Any:
    if value not in allowed:
        raise ValueError(f"{name} must be {' or '.join(map(repr, allowed))}, got {value!r}")
    return value


def _checked_what(what: RecordKind | Iterable[RecordKind]) -> What:
    """Raises ValueError."""
    if isinstance(what, str):
        kind: RecordKind = _one_of(what, "what", KINDS)
        return kind
    kinds = tuple(what)
    if not kinds or any(kind not in KINDS for kind in kinds):
        raise ValueError(f"what must be {' or '.join(map(repr, KINDS))}, or a tuple of these, got {what!r}")
    return kinds


def _checked_size(max_bytes: int | str) -> int:
    size = bytes_of(max_bytes)
    if not 1 << 20 <= size < 1 << 63:
        raise ValueError(f"max_bytes must be at least 1 MiB ({in_bytes(1 << 20)}), got {max_bytes!r}")
    return size


def _warn_of_rest(left: int, kind: RecordKind, trouble: str | None, counts: Counter[_native.BuildOutcome]) -> None:
    reasons = [
        trouble,
        "files that were changed in the last minute have theirs when it is called again" if counts["too new"] else "",
        f"{counted(counts['unread'], 'file')} cannot be read" if counts["unread"] else "",
    ]
    why = "; ".join(filter(None, reasons)) or "they are too large, or damaged records are in their place"
    warnings.warn(f"{counted(left, 'file')} have no {kind}: {why}", RuntimeWarning, stacklevel=3)
