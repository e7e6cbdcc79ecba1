"""Native reading of the headers of ordinary JPEG files, instead of Pillow's parser, which is written in Python."""

from __future__ import annotations

import functools
import io
from collections.abc import Callable
from typing import Any

from PIL import ImageFile
from PIL.JpegImagePlugin import JpegImageFile

from fastload import _native
from fastload._images._tally import native_tally
from fastload._pillow import _pillow

_Method = Callable[[JpegImageFile], None]


def open_file(pillows: _Method) -> _Method:
    """Returns a replacement for ``JpegImageFile._open``, which is `pillows`."""

    def _open(self: JpegImageFile) -> None:
        is_native = native_tally() is not None and not _pillow.is_reference() and _is_known(pillows)
        if not is_native or not _read_natively(self):
            pillows(self)

    return _open


def _read_natively(image: JpegImageFile) -> bool:
    """Returns False if Pillow has to read the header; nothing has changed then."""
    file: Any = image.fp
    if type(file) is io.BufferedReader and type(file.raw) is io.FileIO:
        contents = file.peek()  # reads nothing: Image.open() has already looked at the first bytes
    elif type(file) is io.BytesIO and file.tell() == 0:
        contents = file.getvalue()
    else:
        return False
    size = _native.read_plain_header(vars(image), contents)
    if size is None:
        return False
    file.read(size)
    # Pillow's _open() does this at the first scan.
    image.tile = [ImageFile._Tile("jpeg", (0, 0, *image.size), 0, (image.mode, ""))]
    if "exif" in image.info:
        vars(image)["_exif_offset"] += file.tell() - size
        image._read_dpi_from_exif()
    return True


@functools.cache
def _is_known(pillows: _Method) -> bool:
    """Returns whether the installed Pillow keeps the same of a header as native code, tried with all plain segments."""
    try:
        return all(_read(pillows, probe) == _read(_read_natively, probe) for probe in _probes())
    except Exception:  # noqa: BLE001 - raised by some other Pillow
        return False


def _read(read: Callable[[JpegImageFile], Any], contents: bytes) -> dict[str, Any]:
    """Returns the attributes that `read` gives an image whose header was not read yet."""
    image = _Unread(io.BytesIO(contents))
    read(image)
    assert image.fp is not None
    return {**vars(image), "fp": image.fp.tell()}


class _Unread(JpegImageFile):
    def _open(self) -> None:
        self._mode, self._size = "L", (1, 1)


def _segment(code: int, payload: bytes) -> bytes:
    return bytes((0xFF, code)) + (len(payload) + 2).to_bytes(2, "big") + payload


def _probes() -> tuple[bytes, ...]:
    tables = b"".join(bytes((number, *range(number, 64 + number))) for number in range(2))
    exif = b"Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0"
    color = (
        _segment(0xE0, b"JFIF\0\1\2\1\0\x48\0\x60\0\0"),
        _segment(0xE1, exif),
        _segment(0xE1, b"http://ns.adobe.com/xap/1.0/\0<x/>\0"),
        _segment(0xE2, b"ICC_PROFILE\0\1\1profile"),
        _segment(0xE5, b"any"),
        _segment(0xEE, b"Adobe\0\x64\0\0\0\0\1"),
        _segment(0xFE, b"a comment"),
        _segment(0xDB, tables),
        _segment(0xC0, b"\x08\0\7\0\x09\3\1\x22\0\2\x11\1\3\x11\1"),
        _segment(0xC4, bytes(17)),
        _segment(0xDD, b"\0\2"),
        _segment(0xDA, b"\3\1\0\2\x11\3\x11\0\x3f\0"),
    )
    gray = (
        _segment(0xE0, b"JFIF\0\1\1\0\0\1\0\1\0\0"),
        _segment(0xE2, b"ICC_PROFILE\0\1\2part"),
        _segment(0xC2, b"\x08\0\7\0\x09\1\1\x11\0"),
        _segment(0xE1, exif),
        _segment(0xDA, b"\1\1\0\0\0\0"),
    )
    return tuple(b"\xff\xd8" + b"".join(segments) for segments in (color, gray))
