"""A folder's files by directory, in the format of an index file: about 25 bytes per file of ImageNet."""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import multiprocessing.context
import multiprocessing.reduction
import os
import struct
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastload import _native
from fastload.sources._sample_table import SampleTable

_MAGIC = b"FLFOLDER"
_VERSION = 1
# In this machine's byte order, as are the arrays: a file with another order does not fit, like one of another version.
# Magic, version, mark, then sizes in bytes or counts: key, directories, samples, paths, names; then the checksums of
# everything after the header, and of the header before itself.
_HEADER = struct.Struct("=8sIIQQQQQII")
_BYTE_ORDER_MARK = 0x01020304
_ALIGNMENT = 8

# Flags of a directory.
IS_RECENT = 1  # it changed so shortly before its listing that a later change may have left the same time
IS_UNSURE = 2  # its samples depend on more than its own contents: links that lead nowhere or back, no permission
IS_ON_FUSE = 4  # some of these file systems keep a directory's times when a file is added or removed
IS_LINK = 8  # in the directory above
_ALL_FLAGS = IS_RECENT | IS_UNSURE | IS_ON_FUSE | IS_LINK

# The kernel's numbers: a Python built with old headers lacks some of their names.
_F_ADD_SEALS, _F_GET_SEALS = 1033, 1034
# Seals of memory that goes to other processes: no holder of its descriptor can add seals, shorten, lengthen or write
# it.
_SEALS = 1 | 2 | 4 | 8
# This is more than a hundred million files. A larger file is not ours, and is not read into memory.
_MAX_FILE_BYTES = 4 << 30


class ForeignIndexError(ValueError):
    """Not an index file of this version and machine, or of another folder."""


class DamagedIndexError(ValueError):
    """An index file whose bytes have changed since they were written."""


@dataclass(frozen=True)
class FolderArrays:
    """The contents of a table, in the order of an index file; each array is in the order of the samples.

    Attributes:
        directories: int64 [n, 5]: mtime and ctime in ns, inode, label, flags. The first is the root, with label -1.
        starts: int64 [n + 1, 3]: first sample, byte of `names` and byte of `paths`; the last row is the end.
        paths: uint8, paths of the directories below the root, each with a slash at its end; the root's is empty.
        name_ends: uint32 [samples]: end of each sample's name, counted from the start of its directory's names.
        names: uint8, concatenated names of the samples.
    """

    directories: NDArray[np.int64]
    starts: NDArray[np.int64]
    paths: NDArray[np.uint8]
    name_ends: NDArray[np.uint32]
    names: NDArray[np.uint8]


def pack(key: bytes, arrays: FolderArrays) -> bytes:
    """Returns the bytes of an index file."""
    sections = [memoryview(key), *(array.reshape(-1).view(np.uint8).data for array in vars(arrays).values())]
    payload = b"".join(piece for section in sections for piece in (section, bytes(-section.nbytes % _ALIGNMENT)))
    counts = len(key), len(arrays.directories), len(arrays.name_ends), len(arrays.paths), len(arrays.names)
    start = _HEADER.pack(_MAGIC, _VERSION, _BYTE_ORDER_MARK, *counts, zlib.crc32(payload), 0)[:-4]
    return start + struct.pack("=I", zlib.crc32(start)) + payload


def unpack(blob: memoryview) -> tuple[bytes, FolderArrays]:
    """Returns the key and arrays, views of `blob`, of an index file. Raises ForeignIndexError or DamagedIndexError."""
    sizes, payload_crc = _read_header(blob)
    if len(blob) != (expected := _file_bytes(sizes)):
        raise DamagedIndexError(f"it has {len(blob)} bytes instead of {expected}")
    if zlib.crc32(blob[_HEADER.size :]) != payload_crc:
        raise DamagedIndexError("its checksum is wrong")
    sections, offset = [], _HEADER.size
    for size in sizes:
        sections.append(blob[offset : offset + size])
        offset += _aligned(size)
    key, directories, starts, paths, name_ends, names = sections
    return bytes(key), FolderArrays(
        np.frombuffer(directories, dtype=np.int64).reshape(-1, 5),
        np.frombuffer(starts, dtype=np.int64).reshape(-1, 3),
        np.frombuffer(paths, dtype=np.uint8),
        np.frombuffer(name_ends, dtype=np.uint32),
        np.frombuffer(names, dtype=np.uint8),
    )


def _read_header(start: bytes | memoryview) -> tuple[tuple[int, ...], int]:
    """Returns the size of each section of an index file that begins with `start`, and the checksum of all."""
    if len(start) < _HEADER.size:
        raise DamagedIndexError(f"it has only {len(start)} bytes")
    magic, version, mark, *counts, payload_crc, header_crc = _HEADER.unpack_from(start)
    if zlib.crc32(start[: _HEADER.size - 4]) != header_crc:
        raise DamagedIndexError("its first bytes are not those of an index")
    if (magic, version, mark) != (_MAGIC, _VERSION, _BYTE_ORDER_MARK):
        raise ForeignIndexError(f"it is of version {version}")
    key_bytes, num_directories, num_samples, path_bytes, name_bytes = counts
    sizes = (key_bytes, 40 * num_directories, 24 * (num_directories + 1), path_bytes, 4 * num_samples, name_bytes)
    return sizes, payload_crc


def _aligned(size: int) -> int:
    return size + -size % _ALIGNMENT


def _file_bytes(sizes: tuple[int, ...]) -> int:
    return _HEADER.size + sum(map(_aligned, sizes))


def contents(fd: int) -> mmap.mmap:
    """Returns the bytes of the open index file `fd`, which no one can change any more.

    The memory of another process's `_descriptor` is mapped, so that processes share it. A file is read into this
    process's memory: another program may truncate it, and mapped bytes would be gone.

    Raises ForeignIndexError or DamagedIndexError if its first bytes or its size say so, and OSError.
    """
    size = os.fstat(fd).st_size
    sizes, _ = _read_header(os.pread(fd, _HEADER.size, 0))
    if size != (expected := _file_bytes(sizes)):
        raise DamagedIndexError(f"it has {size} bytes instead of {expected}")
    if size > _MAX_FILE_BYTES:
        raise DamagedIndexError(f"it has {size} bytes, more than {_MAX_FILE_BYTES}")
    if _is_sealed(fd):
        return mmap.mmap(fd, 0, prot=mmap.PROT_READ)
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with contextlib.suppress(AttributeError, OSError):  # some kernels and Pythons lack them
        memory.madvise(mmap.MADV_HUGEPAGE)  # otherwise page faults take as long as all other work of a start
    done = 0
    with memoryview(memory) as view:
        while done < size:
            with view[done:] as rest:
                count = os.preadv(fd, [rest], done)
            if count == 0:
                raise DamagedIndexError(f"it became shorter than {size} bytes while it was read")
            done += count
    return memory


def _is_sealed(fd: int) -> bool:
    try:
        return fcntl.fcntl(fd, _F_GET_SEALS) & _SEALS == _SEALS
    except OSError:  # a file, not sealed memory
        return False


class FolderTable(SampleTable):
    """Names and labels of the files below a folder.

    Sent to a process that is being spawned, it goes as a file descriptor whose pages all processes share; pickled
    otherwise, with all its bytes. `key` says which folder it is of, and how that was listed.
    """

    index: _native.FolderIndex

    def __init__(self, root: str, blob: bytes | mmap.mmap) -> None:
        """Makes a table whose paths begin with `root`, in the user's form. Raises what `unpack` raises."""
        self.root = root
        self._blob = blob
        self._shared_fd: int | None = None
        self.key, self.arrays = unpack(memoryview(blob).toreadonly())
        # torchvision's paths are os.path.join(root, ...), whatever the form of `root`.
        prefix = os.fsencode(os.path.join(root, ""))  # noqa: PTH118
        try:
            self.index = _native.FolderIndex(root=prefix, **vars(self.arrays))
        except ValueError as error:
            raise DamagedIndexError(str(error)) from None

    def check(self) -> None:
        """Checks what every scan guarantees and native code does not need. Raises DamagedIndexError."""
        names = self.class_names()
        if names != sorted(names):
            raise DamagedIndexError("its classes are not in order")
        if np.any(self.arrays.directories[:, 4] & ~_ALL_FLAGS):
            raise DamagedIndexError("a directory has unknown flags")

    def labels_of(self, files: NDArray[np.int64]) -> NDArray[np.int64]:
        # If several directories begin at the same sample, the last one has it: those before it have none.
        directories = np.searchsorted(self.arrays.starts[:, 0], files, side="right") - 1
        labels: NDArray[np.int64] = self.arrays.directories[directories, 3]
        return labels

    def all_labels(self) -> NDArray[np.int64]:
        return np.repeat(self.arrays.directories[:, 3], self.num_samples_by_directory())

    @property
    def blob(self) -> memoryview:
        """The bytes, in `pack`'s format."""
        return memoryview(self._blob).toreadonly()

    @property
    def num_directories(self) -> int:
        return len(self.arrays.directories)

    def num_samples_by_directory(self) -> NDArray[np.int64]:
        """Returns the number of samples directly in each directory."""
        return np.diff(self.arrays.starts[:, 0])

    def directory(self, number: int) -> str:
        """Returns the path of a directory below the root, without a slash at its end; the root's is empty."""
        begin, end = self.arrays.starts[number : number + 2, 2]
        return os.fsdecode(bytes(self.arrays.paths[begin : max(begin, end - 1)]))

    def class_names(self) -> list[str]:
        """Returns the class names in the order of their labels."""
        _, first = np.unique(self.arrays.directories[:, 3], return_index=True)
        return [self.directory(number) for number in first[1:]]

    def empty_classes(self) -> list[str]:
        """Returns the names of classes without a sample."""
        used = set(self.arrays.directories[self.num_samples_by_directory() > 0, 3].tolist())
        return [name for label, name in enumerate(self.class_names()) if label not in used]

    def __reduce__(self) -> tuple[Any, ...]:
        if multiprocessing.context.get_spawning_popen() is None or not hasattr(os, "memfd_create"):
            return FolderTable, (self.root, bytes(self._blob))
        return _table_of_descriptor, (self.root, multiprocessing.reduction.DupFd(self._descriptor()))

    def _descriptor(self) -> int:
        """Returns a descriptor of memory with the table's bytes, made once and kept for other processes."""
        if self._shared_fd is None:
            fd = os.memfd_create("fastload-folder-index", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
            with open(fd, "wb", closefd=False) as memory:
                memory.write(self._blob)
            fcntl.fcntl(fd, _F_ADD_SEALS, _SEALS)
            self._shared_fd = fd
        return self._shared_fd

    def __del__(self) -> None:
        if getattr(self, "_shared_fd", None) is not None:
            os.close(self._shared_fd)  # type: ignore[arg-type]


def _table_of_descriptor(root: str, descriptor: Any) -> FolderTable:
    fd = descriptor.detach()
    try:
        return FolderTable(root, contents(fd))
    finally:
        os.close(fd)
