"""Files of all kinds, and changes to them between opening and loading."""

from __future__ import annotations

import bz2
import gzip
import io
import os
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from comparison import assert_same, is_deferred, native_opener, needs_deferral
from jpeg_kinds import KINDS
from PIL import Image

DATA = KINDS["420"]


class ShortReads(io.BytesIO):
    """Returns less than it is asked for."""

    def read(self, size: int | None = -1) -> bytes:
        return super().read(min(777, size) if size and size > 0 else size)


class OwnBytes(io.BytesIO):
    pass


class Failing(io.BytesIO):
    """Reads the header and then fails."""

    def read(self, size: int | None = -1) -> bytes:
        if self.tell() == 0 and size and size > 1000:
            raise OSError("the network is gone")
        return super().read(size)


def _zipped(data: bytes) -> BinaryIO:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.jpg", data)
    return zipfile.ZipFile(stream).open("a.jpg")  # type: ignore[return-value]


def _tarred(data: bytes) -> BinaryIO:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        info = tarfile.TarInfo("a.jpg")
        info.size = len(data)
        archive.addfile(info, io.BytesIO(data))
    stream.seek(0)
    return tarfile.open(fileobj=stream).extractfile("a.jpg")  # type: ignore[return-value]


def _spooled(data: bytes) -> BinaryIO:
    file = tempfile.SpooledTemporaryFile(max_size=100)  # noqa: SIM115 - the image reads it
    file.write(data)
    return file  # type: ignore[return-value]


def _in_folder(data: bytes, folder: Path, how: Callable[[Path], BinaryIO]) -> BinaryIO:
    path = folder / "a.jpg"
    path.write_bytes(data)
    return how(path)


OBJECTS: dict[str, Callable[[bytes, Path], BinaryIO]] = {
    "BytesIO": lambda data, folder: io.BytesIO(data),
    "own BytesIO": lambda data, folder: OwnBytes(data),
    "short reads": lambda data, folder: ShortReads(data),
    "failing": lambda data, folder: Failing(data),
    "file": lambda data, folder: _in_folder(data, folder, lambda path: path.open("rb")),
    "unbuffered": lambda data, folder: _in_folder(data, folder, lambda path: path.open("rb", buffering=0)),
    "file to write": lambda data, folder: _in_folder(data, folder, lambda path: path.open("r+b")),
    "gzip": lambda data, folder: gzip.GzipFile(fileobj=io.BytesIO(gzip.compress(data))),  # type: ignore[dict-item, return-value]
    "bz2": lambda data, folder: bz2.BZ2File(io.BytesIO(bz2.compress(data))),  # type: ignore[dict-item, return-value]
    "zip": lambda data, folder: _zipped(data),
    "tar": lambda data, folder: _tarred(data),
    "spooled": lambda data, folder: _spooled(data),
}


@pytest.mark.parametrize("kind", ["420", "gray", "truncated", "broken", "bytes behind"])
@pytest.mark.parametrize("name", OBJECTS)
def test_file_objects(name: str, kind: str, tmp_path: Path) -> None:
    """Compares pixels, verdicts, and the position of the user's file object after the image."""
    data = KINDS[kind] + b"x" * (200_000 if kind == "bytes behind" else 0)
    made: list[BinaryIO] = []

    def source() -> BinaryIO:
        made.append(OBJECTS[name](data, tmp_path))
        return made[-1]

    positions: list[Any] = []

    def program(image: Any) -> Any:
        try:
            return image.convert("RGB")
        finally:
            positions.append((made[-1].closed, None if made[-1].closed else made[-1].tell()))

    assert_same(source, program, (name, kind))
    # Pillow may not read damaged data to the end, which matters if it reads little at a time.
    assert positions[0] == positions[-1] or (kind, name) == ("broken", "short reads")


@needs_deferral
def test_gzip_is_read_as_its_contents() -> None:
    with native_opener():
        image = Image.open(gzip.GzipFile(fileobj=io.BytesIO(gzip.compress(DATA))))  # type: ignore[arg-type]
        assert is_deferred(image.convert("RGB"))


def _change(path: Path, how: str) -> None:
    if how == "removed":
        path.unlink()
    elif how == "truncated":
        os.truncate(path, len(DATA) // 2)
    elif how == "replaced":
        other = path.with_suffix(".other")
        other.write_bytes(KINDS["baseline"])
        other.replace(path)
    elif how == "overwritten":
        path.write_bytes(KINDS["baseline"])
    elif how == "grown":
        with path.open("ab") as file:
            file.write(b"more")


@pytest.mark.parametrize("how", ["removed", "truncated", "replaced", "grown"])
@pytest.mark.parametrize("is_ours", [False, True], ids=["Pillow's file", "the user's file"])
def test_changed_between_open_and_use(how: str, is_ours: bool, tmp_path: Path) -> None:
    path = tmp_path / "a.jpg"

    def program(image: Any) -> Any:
        _change(path, how)
        return image.convert("RGB")

    def source() -> Any:
        path.write_bytes(DATA + b"x" * 100_000)
        return path.open("rb") if is_ours else path

    assert_same(source, program, how)


@needs_deferral
def test_written_to_after_use() -> None:
    with native_opener():
        stream = io.BytesIO(DATA)
        image = Image.open(stream).convert("RGB")
        assert is_deferred(image)
        stream.seek(0)
        stream.write(b"\0" * len(DATA))
        assert image == Image.open(io.BytesIO(DATA)).convert("RGB")


def _overwrite(image: Any) -> None:
    image.fp.seek(0)
    image.fp.write(KINDS["baseline"])


CHANGES: dict[str, Callable[[Any], Any]] = {
    "closed": lambda image: image.fp.close(),
    "written to": _overwrite,
    "mode": lambda image: setattr(image, "_mode", "L"),
    "size": lambda image: setattr(image, "_size", (20, 20)),
    "tile": lambda image: setattr(image, "tile", []),
    "config": lambda image: setattr(image, "decoderconfig", (2, 0)),
}


@pytest.mark.parametrize("change", CHANGES)
def test_images_changed_between_open_and_use_are_pillows(change: str) -> None:
    assert_same(lambda: io.BytesIO(DATA), lambda image: (CHANGES[change](image), image.convert("RGB"))[1], change)


@pytest.mark.parametrize("block", [1, 100, 1000, 1 << 20])
@pytest.mark.parametrize("kind", ["420", "progressive", "truncated", "broken"])
def test_blocks_of_any_size(block: int, kind: str) -> None:
    def program(image: Any) -> Any:
        image.decodermaxblock = block
        return image.convert("RGB")

    assert_same(KINDS[kind], program, (block, kind))


def test_truncated_images_are_loaded_where_the_user_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    from PIL import ImageFile

    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
    for kind in KINDS:
        assert_same(KINDS[kind], lambda image: image.convert("RGB"), kind)
