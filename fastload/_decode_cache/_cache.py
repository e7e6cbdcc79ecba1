"""The user's name for a store on disk."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Literal, get_args

from fastload import _native
from fastload._decode_cache._store import KINDS, RecordKind, StorePlace
from fastload._display._units import bytes_of, in_bytes
from fastload._process import _config

# Of five million photographs of ImageNet's kind.
DEFAULT_MAX_BYTES = 4 << 30


What = RecordKind | tuple[RecordKind, ...]
Validation = Literal["stat", "content", "trust"]
_TAKES = {
    "coefficients": "about 1.7 times the bytes of the images",
    "pixels": "3 bytes for each pixel of an image before the first random step, 150 kB for one of 224 x 224",
}


class Cache:
    """A store on disk: what decoding a file leaves behind is there in the next run, and for other processes.

    Every process that names the same folder uses and fills it: the ranks of a machine, later runs, other programs.
    Batches are the same with and without it, and so are errors and warnings. Nothing is ever evicted: once
    `max_bytes` are used up, what is there stays, and nothing more is kept.

    What is kept is an index of each JPEG file by its contents: where the decoder may begin. A file that changes is
    another file; no rule about times or names is needed. With ``what="coefficients"`` the coefficients of the files
    are kept as well, which leaves the larger part of decoding away and takes about 1.7 times the files' bytes. They are
    found by path, and believed while size, times and inode of the file are what they were. With ``what="pixels"`` it
    is the image as it stands before the first random step of the transform, by path and by these steps; so it is for
    transforms that begin with a Resize or a crop that draws nothing, as those of evaluation do. With several of them,
    ``what=("coefficients", "pixels")``, one cache is for loaders of both sorts: pixels are kept for a loader that has
    such steps, coefficients for any other.

    Args:
        path: Folder on a local disk; made where there is none. None: ``decode`` in the cache folder
            ($FASTLOAD_CACHE, else fastload in $XDG_CACHE_HOME or ~/.cache). On a network file system loaders only
            read, and ``fastload cache build`` writes; coefficients are neither written nor read there.
        max_bytes: That all files in it may take together, as a number or as "200G" or "1.5TiB". None: 4 GiB, an index
            of each of 4 million photographs; to be given with ``what="coefficients"``.
        what: "index", "coefficients" or "pixels", or a tuple of these; the index is always part of it, and serves the
            images for which there is no room.
        validate: When coefficients and pixels are believed. "stat": the file has the size, times and inode that it
            had. On a file server it is opened for that; on FUSE, whose times may stand still, nothing is believed.
            "content": it is read, too, and must have the same bytes. "trust": as "stat", without opening and on FUSE,
            on your word.
        spot_checks: The share of images that are decoded from their files as well, and compared. The first difference
            ends the use of coefficients and pixels in the process, with a warning.
        shared: Whether folders and files of other users are believed. Who can write to them can make wrong images.

    Raises:
        ValueError: `max_bytes` is no size, below 1 MiB or missing; `what`, `validate` or `spot_checks` is none of
            those above.

    Example:
        >>> loader = fastload.DataLoader(dataset, batch_size=4, cache=fastload.Cache("/tmp/decode-cache"))
        >>> loader.cache.max_bytes
        4294967296
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        max_bytes: int | str | None = None,
        what: RecordKind | Iterable[RecordKind] = "index",
        validate: Validation = "stat",
        spot_checks: float = 1 / 256,
        shared: bool = False,
    ) -> None:
        self._path = None if path is None else Path(os.path.abspath(os.path.expanduser(os.fspath(path))))  # noqa: PTH100, PTH111
        self._what = _checked_what(what)
        if max_bytes is None and (large := kinds_of(self)[1:]):
            takes = " and ".join(_TAKES[kind] for kind in large)
            raise ValueError(f"max_bytes must be given with what={what!r}, which takes {takes}")
        self._max_bytes = DEFAULT_MAX_BYTES if max_bytes is None else _checked_size(max_bytes)
        self._validate: Validation = _one_of(validate, "validate", get_args(Validation))
        if not 0 <= spot_checks <= 1:
            raise ValueError(f"spot_checks must be a share from 0 to 1, got {spot_checks!r}")
        self._spot_checks = float(spot_checks)
        self._shared = bool(shared)

    @property
    def path(self) -> Path:
        """The folder.

        Raises:
            RuntimeError: None was given, and there is no home folder for the cache folder.
        """
        return default_path() if self._path is None else self._path

    @property
    def max_bytes(self) -> int:
        """That all its files may take together."""
        return self._max_bytes

    @property
    def what(self) -> What:
        """What is kept: the name of a kind, or a tuple of names."""
        return self._what

    @property
    def validate(self) -> Validation:
        """When coefficients are believed."""
        return self._validate

    @property
    def spot_checks(self) -> float:
        """The share of images by coefficients that are compared."""
        return self._spot_checks

    @property
    def shared(self) -> bool:
        """Whether files of other users are believed."""
        return self._shared

    @staticmethod
    def clear_memory() -> None:
        """Lets go of all indexes that this process has in memory, which are those of ``cache="auto"``.

        Example:
            >>> fastload.Cache.clear_memory()
        """
        _native.clear_index_memory()

    def __repr__(self) -> str:
        path = "" if self._path is None else f"{str(self._path)!r}, "
        defaults = {"what": "index", "validate": "stat", "spot_checks": 1 / 256, "shared": False}
        named = [name for name, value in defaults.items() if getattr(self, name) != value]
        others = "".join(f", {name}={getattr(self, name)!r}" for name in named)
        return f"Cache({path}max_bytes={self._max_bytes}{others})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Cache) and self._arguments() == other._arguments()

    def __hash__(self) -> int:
        return hash(self._arguments())

    def __reduce__(self) -> tuple[Any, ...]:
        return Cache, self._arguments()

    def _only(self, kind: RecordKind) -> Cache:
        return Cache(self._path, self._max_bytes, kind, self._validate, self._spot_checks, self._shared)

    def _arguments(self) -> tuple[Any, ...]:
        return self._path, self._max_bytes, self._what, self._validate, self._spot_checks, self._shared


class NoPixelsError(ValueError):
    """A cache of pixels where a loader has none that are worth keeping.

    Args:
        why: As a clause.
    """

    def __init__(self, why: str) -> None:
        super().__init__(
            'cache=Cache(what="pixels") keeps each image as it is before the first random step; '
            f'what="coefficients" or "index" fits any transform. Here {why}'
        )


def kinds_of(cache: Cache) -> tuple[RecordKind, ...]:
    """Of all records in it, indexes first."""
    asked = (cache.what,) if isinstance(cache.what, str) else cache.what
    return tuple(kind for kind in KINDS if kind == "index" or kind in asked)


def for_loader(setting: Any, why_no_pixels: Callable[[], str | None]) -> Any:
    """What counts of a loader's argument for that loader, which uses one kind besides indexes.

    Args:
        setting: A Cache, or another value, which is returned.
        why_no_pixels: Says why the loader has no pixels that are worth keeping, or None.
    """
    if not isinstance(setting, Cache) or isinstance(setting.what, str):
        return setting
    kinds = [kind for kind in kinds_of(setting) if kind != "pixels" or why_no_pixels() is None]
    return setting._only(kinds[-1])


def is_of_pixels(setting: object) -> bool:
    """Whether what counts for a loader is pixels."""
    return isinstance(setting, Cache) and setting.what == "pixels"


def place_of(cache: Cache, kind: RecordKind = "index") -> StorePlace:
    """Where its store of this kind is. Raises RuntimeError where that is nowhere."""
    return StorePlace(cache.path, cache.max_bytes, cache.shared, kind)


def default_path() -> Path:
    """Where a store is of which nobody says where. Raises RuntimeError where there is no home folder."""
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
    size = bytes_of(max_bytes, "max_bytes")
    if not 1 << 20 <= size < 1 << 63:
        raise ValueError(f"max_bytes must be at least 1 MiB ({in_bytes(1 << 20)}), got {max_bytes!r}")
    return size
