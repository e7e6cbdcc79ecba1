"""Lists a folder's directories in threads, in torchvision's order; known directories are not listed again."""

from __future__ import annotations

import errno
import functools
import os
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from fastload import _native
from fastload._process._trust import open_folder
from fastload.sources._folder_table import (
    IS_LINK,
    IS_ON_FUSE,
    IS_RECENT,
    IS_UNSURE,
    FolderArrays,
    FolderTable,
)
from fastload.sources._scan_threads import ScanThreads

# os.path uses the strings as given; pathlib would normalise them and so change the samples.
# ruff: noqa: PTH110, PTH116, PTH118, PTH120

# Listing waits for the disk or the network, not for the processor.
NUM_THREADS = 16
_MOST_DIRECTORIES_AT_ONCE = 64

# A directory that changed less than this before its listing is listed again the next time: a file that was added just
# afterwards may have left the same time stamp. File systems count in steps of up to 2 s (FAT); the rest allows for a
# file server whose clock lags.
SETTLED_AFTER_NS = 60 * 10**9

# Many threads that open directories at once, and signals, may cause these; the directory can be listed alone then.
_MAY_BE_OUR_DOING = (errno.EMFILE, errno.ENFILE, errno.EINTR)

NameFilter = Callable[[str], bool]


@dataclass
class Listing:
    """The contents of one directory.

    Attributes:
        state: mtime and ctime in ns, inode; no device number, which changes with each mount of a network file system.
        flags: Flags of a directory in FolderTable.
        directories: (name, is a link) of each subdirectory, in any order.
        names: uint8, names of the sample files, sorted and concatenated.
        name_ends: uint32, end of each name.
    """

    state: tuple[int, int, int] = (0, 0, 0)
    flags: int = IS_UNSURE
    directories: Sequence[tuple[str, bool]] = ()
    names: NDArray[np.uint8] = field(default_factory=lambda: np.zeros(0, dtype=np.uint8))
    name_ends: NDArray[np.uint32] = field(default_factory=lambda: np.zeros(0, dtype=np.uint32))

    def file_names(self) -> list[str]:
        ends = self.name_ends.tolist()
        names = self.names.tobytes()
        return [os.fsdecode(names[begin:end]) for begin, end in zip([0, *ends], ends, strict=False)]

    def set_file_names(self, names: Iterable[str]) -> None:
        encoded = [os.fsencode(name) for name in names]
        self.names = np.frombuffer(b"".join(encoded), dtype=np.uint8)
        self.name_ends = np.array(list(accumulate(map(len, encoded))), dtype=np.uint32)


class Directory:
    """A directory on the way down from a class folder, for noticing a link that leads back up.

    `name` is its path below the root.
    """

    def __init__(self, path: str, name: str = "", parent: Directory | None = None, is_link: bool = False) -> None:
        self.path = path
        self.name = name
        self.parent = parent
        self.is_link = is_link
        # Whether a link was followed on the way from the class folder; the class folder itself may be one.
        self.is_below_link: bool = parent is not None and (is_link or parent.is_below_link)
        self.listing = Listing()

    @functools.cached_property
    def identity(self) -> tuple[int, int]:
        """The device and inode, read from the system only if there are links."""
        status = os.stat(self.path)
        return status.st_dev, status.st_ino

    def container(self) -> Directory | None:
        """Returns the same directory higher up in the tree, or None."""
        return next((directory for directory in self._containers() if directory.identity == self.identity), None)

    def _containers(self) -> Iterator[Directory]:
        """Yields the directories on the way to the class folder, then all that physically contain that."""
        top = self
        while top.parent is not None:
            top = top.parent
            yield top
        path = os.path.realpath(top.path)
        while (parent := os.path.dirname(path)) != path:
            yield Directory(parent)
            path = parent


class FolderScan:
    """One scan of a folder; `num_listed` counts the directories that were listed for it.

    Files without one of the `extensions`, in lower case, are no samples; None: every file is one. If `known` is an
    earlier scan of the same folder, only its directories with the numbers `changed` are listed again.
    """

    def __init__(
        self,
        root: str,
        extensions: Sequence[str] | None,
        known: FolderTable | None = None,
        changed: Sequence[int] = (),
    ) -> None:
        self._root = root
        self._extensions = tuple(extensions or ())
        self._begin_ns = time.time_ns()
        self._known = {} if known is None else _unchanged_listings(known, changed)
        self._unlisted: list[tuple[str, int]] = []
        self.num_listed = 0

    def run(self, is_valid_file: NameFilter | None = None) -> FolderArrays:
        """Returns the folder's current contents; `is_valid_file` gets each path, in order, to decide which are samples.

        A directory that cannot be listed is left out, as ``os.walk`` does by default, with a warning. Unlike os.walk,
        the scan does not enter a directory from below itself. Raises FileNotFoundError if the root is missing or has no
        class folder, and OSError if it cannot be listed.
        """
        root = Directory(self._root)
        root.listing = self._known.get("") or self._list_root()
        classes = [
            Directory(os.path.join(self._root, name), name, is_link=is_link)
            for name, is_link in sorted(root.listing.directories)
        ]
        if not classes:
            raise FileNotFoundError(f"Couldn't find any class folder in {self._root}.")
        with ScanThreads(NUM_THREADS) as threads:
            by_class = self._walk(classes, threads)
        self._warn_of_unlisted()
        for directories in by_class:
            directories.sort(key=lambda directory: directory.name)
            if is_valid_file is not None:
                _select_files(directories, is_valid_file)
        return _arrays(root, by_class)

    def _walk(self, classes: Sequence[Directory], threads: ScanThreads) -> list[list[Directory]]:
        """Returns the directories of each class, including its own, in any order."""
        by_class: list[list[Directory]] = [[] for _ in classes]
        level = list(enumerate(classes))
        while level:
            self._list([directory for _, directory in level], threads)
            for label, directory in level:
                by_class[label].append(directory)
            level = [(label, child) for label, directory in level for child in _children(directory)]
        return by_class

    def _list_root(self) -> Listing:
        """Returns the classes, found like torchvision's; errors that it does not catch are raised here, too."""
        self.num_listed += 1
        with open_folder(self._root) as (fd, status):
            state = (status.st_mtime_ns, status.st_ctime_ns, _signed(status.st_ino))
            flags = self._flags(state, _native.is_on_fuse(fd))
        directories = []
        with os.scandir(self._root) as entries:
            for entry in entries:
                if entry.is_dir():
                    directories.append((entry.name, entry.is_symlink()))
                elif entry.is_symlink() and not os.path.exists(entry.path):
                    flags |= IS_UNSURE
        return Listing(state, flags, directories)

    def _list(self, directories: Sequence[Directory], threads: ScanThreads) -> None:
        """Gives each directory its listing, without asking the system if it is known."""
        to_list = []
        for directory in directories:
            if (known := self._known.get(directory.name)) is not None:
                directory.listing = known
            else:
                to_list.append(directory)
        self.num_listed += len(to_list)
        size = min(max(1, len(to_list) // (4 * NUM_THREADS)), _MOST_DIRECTORIES_AT_ONCE)
        chunks = [to_list[begin : begin + size] for begin in range(0, len(to_list), size)]
        again = []
        for chunk, listings in zip(chunks, threads.map(self._ask_system, chunks), strict=True):
            for directory, listing in zip(chunk, listings, strict=True):
                if listing["errno"] in _MAY_BE_OUR_DOING:
                    again.append(directory)
                else:
                    self._take(directory, listing)
        for directory in again:
            self._take(directory, *self._ask_system([directory]))

    def _ask_system(self, directories: Sequence[Directory]) -> list[_native.FolderListing]:
        paths = [os.fsencode(directory.path) for directory in directories]
        return _native.list_directories(paths, [os.fsencode(extension) for extension in self._extensions])

    def _take(self, directory: Directory, found: _native.FolderListing) -> None:
        if found["errno"]:
            self._unlisted.append((directory.path, found["errno"]))
            return
        directory.listing = listing = Listing(
            found["state"],
            self._flags(found["state"], found["is_on_fuse"]) | (IS_UNSURE if found["has_unresolved_link"] else 0),
            [(os.fsdecode(name), is_link) for name, is_link in found["directories"]],
            np.frombuffer(found["names"], dtype=np.uint8),
            found["name_ends"],
        )
        if not found["is_sorted"]:
            names = listing.file_names()
            if self._extensions:
                names = [name for name in names if name.lower().endswith(self._extensions)]
            listing.set_file_names(sorted(names))

    def _flags(self, state: tuple[int, int, int], is_on_fuse: bool) -> int:
        mtime_ns, ctime_ns, _ = state
        is_recent = self._begin_ns - max(mtime_ns, ctime_ns) < SETTLED_AFTER_NS
        return (IS_RECENT if is_recent else 0) | (IS_ON_FUSE if is_on_fuse else 0)

    def _warn_of_unlisted(self) -> None:
        if not self._unlisted:
            return
        path, number = self._unlisted[0]
        others = f" and {len(self._unlisted) - 1} more" if len(self._unlisted) > 1 else ""
        warnings.warn(
            f"{path!r}{others} cannot be listed ({os.strerror(number)}): the files in it are left out", stacklevel=2
        )


def _signed(inode: int) -> int:
    return inode - (1 << 64) if inode >= 1 << 63 else inode


def _unchanged_listings(table: FolderTable, changed: Sequence[int]) -> dict[str, Listing]:
    """Returns the known listings of directories not in `changed`, by their path below the root."""
    rows, starts = table.arrays.directories, table.arrays.starts
    paths = [table.directory(number) for number in range(table.num_directories)]
    to_list = {paths[number] for number in changed}
    # A link whose target is no longer a directory is a file of the directory above.
    to_list |= {_parent(paths[number]) for number in changed if rows[number, 4] & IS_LINK}
    children: dict[str, list[tuple[str, bool]]] = {path: [] for path in paths}
    for path, flags in zip(paths[1:], rows[1:, 4].tolist(), strict=True):
        children[_parent(path)].append((path.rpartition("/")[2], bool(flags & IS_LINK)))
    listings = {}
    for number, path in enumerate(paths):
        if path in to_list:
            continue
        (sample, name, _), (sample_end, name_end, _) = starts[number : number + 2].tolist()
        mtime_ns, ctime_ns, inode, _, flags = rows[number].tolist()
        listings[path] = Listing(
            (mtime_ns, ctime_ns, inode),
            flags & ~IS_LINK,
            children[path],
            table.arrays.names[name:name_end],
            table.arrays.name_ends[sample:sample_end],
        )
    return listings


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def _children(directory: Directory) -> Iterator[Directory]:
    """Yields the subdirectories to enter."""
    for name, is_link in directory.listing.directories:
        child = Directory(os.path.join(directory.path, name), f"{directory.name}/{name}", directory, is_link)
        if not _leads_back(child):
            yield child
        else:
            directory.listing.flags |= IS_UNSURE


def _leads_back(directory: Directory) -> bool:
    if not directory.is_below_link:
        return False
    try:
        container = directory.container()
    except OSError:  # removed since it was listed; listing it will report that
        return False
    if container is not None:
        warnings.warn(
            f"{directory.path!r} leads back to {container.path!r}, which contains it: its files are not indexed again",
            stacklevel=2,
        )
    return container is not None


def _select_files(directories: Sequence[Directory], is_valid_file: NameFilter) -> None:
    for directory in directories:
        prefix = os.path.join(directory.path, "")
        listing = directory.listing
        listing.set_file_names([name for name in listing.file_names() if is_valid_file(prefix + name)])


def _arrays(root: Directory, by_class: Sequence[Sequence[Directory]]) -> FolderArrays:
    labelled = [(label, directory) for label, directories in enumerate(by_class) for directory in directories]
    rows, sizes, paths, listings = [], [(0, 0, 0)], [], []
    for label, directory in [(-1, root), *labelled]:
        listing = directory.listing
        path = os.fsencode(directory.name) + b"/" if directory.name else b""
        rows.append((*listing.state, label, listing.flags | (IS_LINK if directory.is_link else 0)))
        sizes.append((len(listing.name_ends), len(listing.names), len(path)))
        paths.append(path)
        listings.append(listing)
    return FolderArrays(
        np.array(rows, dtype=np.int64),
        np.cumsum(sizes, axis=0, dtype=np.int64),
        np.frombuffer(b"".join(paths), dtype=np.uint8),
        np.concatenate([listing.name_ends for listing in listings]),
        np.concatenate([listing.names for listing in listings]),
    )
