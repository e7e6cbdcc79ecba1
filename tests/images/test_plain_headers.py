"""JPEG headers that are read natively: the image's attributes and the file's position equal Pillow's."""

from __future__ import annotations

import io
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from comparison import assert_same_result, described, native_opener, needs_deferral, outcome
from corpora_files import manifest_rows
from jpeg_kinds import EXIF, KINDS, jpeg
from jpeg_mutants import mutated
from PIL import Image, JpegImagePlugin
from PIL.JpegImagePlugin import JpegImageFile

from fastload import _native
from fastload._images import _header

pytestmark = needs_deferral


def _segment(code: int, payload: bytes) -> bytes:
    return bytes((0xFF, code)) + (len(payload) + 2).to_bytes(2, "big") + payload


def _profile(number: int, count: int, size: int = 40) -> bytes:
    return _segment(0xE2, b"ICC_PROFILE\0" + bytes((number, count)) + bytes(size))


_JFIF = b"JFIF\0\1\2"
_TABLE = bytes(range(64))
# Segments that a header may have before its frame, and whether native code reads them.
SEGMENTS: dict[str, tuple[bytes, bool]] = {
    "JFIF": (_segment(0xE0, _JFIF + b"\1\0\x48\0\x60\0\0"), True),
    "JFIF without a unit": (_segment(0xE0, _JFIF + b"\0\0\1\0\1\0\0"), True),
    "JFIF of centimetres": (_segment(0xE0, _JFIF + b"\2\0\x48\0\x60\0\0"), False),
    "JFIF of an unknown unit": (_segment(0xE0, _JFIF + b"\7\0\x48\0\x60\0\0"), True),
    "short JFIF": (_segment(0xE0, _JFIF), False),
    "shorter JFIF": (_segment(0xE0, b"JFIF"), False),
    "JFXX": (_segment(0xE0, b"JFXX\0"), True),
    "EXIF": (_segment(0xE1, EXIF), True),
    "EXIF of nothing": (_segment(0xE1, b"Exif\0\0"), True),
    "EXIF twice": (_segment(0xE1, EXIF) + _segment(0xE1, EXIF), False),
    "XMP": (_segment(0xE1, b"http://ns.adobe.com/xap/1.0/\0<x/>\0<y/>"), True),
    "profile": (_profile(1, 1), True),
    "part of a profile": (_profile(1, 2), True),
    "profile in parts": (_profile(2, 2) + _profile(1, 2), False),
    "short profile": (_segment(0xE2, b"ICC_PROFILE\0\1"), False),
    "MPF": (_segment(0xE2, b"MPF\0" + bytes(20)), False),
    "FlashPix": (_segment(0xE2, b"FPXR\0"), False),
    "Photoshop": (_segment(0xED, b"Photoshop 3.0\0" + b"8BIM\3\xed\0\0" + bytes((0, 0, 0, 16)) + bytes(16)), False),
    "Adobe": (_segment(0xEE, b"Adobe\0\x64\0\0\0\0\1"), True),
    "short Adobe": (_segment(0xEE, b"Adobe\0\x64"), False),
    "unknown": (_segment(0xEB, b"anything"), True),
    "empty": (_segment(0xE7, b""), True),
    "comment": (_segment(0xFE, b"\xffnot a marker"), True),
    "comments": (_segment(0xFE, b"one") + _segment(0xFE, b""), True),
    "table": (_segment(0xDB, b"\x0f" + _TABLE), True),
    "wide table": (_segment(0xDB, b"\x10" + _TABLE * 2), False),
    "cut table": (_segment(0xDB, b"\0" + _TABLE[:-1]), False),
    "restart interval": (_segment(0xDD, b"\0\2"), True),
    "DNL": (_segment(0xDC, b"\0\2"), False),
    "padding": (b"\xff", False),
    "junk": (b"\0junk", False),
    "a marker without a length": (b"\xff\x01", False),
    "end of image": (b"\xff\xd9", False),
    "length of 1": (b"\xff\xe5\0\1", False),
    "second frame": (_segment(0xC0, b"\x08\0\7\0\x09\1\1\x11\0"), False),
    "lossless frame": (_segment(0xC3, b"\x08\0\7\0\x09\1\1\x11\0"), False),
}


def _with(name: str, kind: str = "420") -> bytes:
    data = KINDS[kind]
    return data[:2] + SEGMENTS[name][0] + data[2:]


def _opened(data: bytes, position: int = 0) -> Any:
    """Returns the attributes of an image that is opened but not loaded, with the order of its info."""
    file = io.BytesIO(bytes(position) + data)
    file.seek(position)

    def program() -> Any:
        image = JpegImageFile(file)
        state = {name: value for name, value in vars(image).items() if name not in ("fp", "_fp")}
        return image.mode, image.size, described(state), list(image.info), file.tell()

    return outcome(program)


def _is_native(data: bytes) -> bool:
    return _native.read_plain_header({"info": {}}, data) is not None


def _assert_same(data: bytes, what: object, position: int = 0) -> None:
    assert_same_result(lambda: _opened(data, position), what)


@pytest.mark.parametrize("name", SEGMENTS)
def test_segments(name: str) -> None:
    for kind in ("420", "gray", "progressive"):
        data = _with(name, kind)
        _assert_same(data, kind)
        assert _is_native(data) == SEGMENTS[name][1]


def test_native_code_reads_what_cameras_and_programs_write() -> None:
    profile = bytes(3000)
    kinds = [KINDS[name] for name in ("baseline", "420", "gray", "progressive", "restart", "rotated", "one pixel")]
    kinds += [jpeg(exif=EXIF, icc_profile=profile, comment=b"made here", xmp=b"<x/>", dpi=(72, 72))]
    for data in kinds:
        assert _is_native(data)
        _assert_same(data, data[:40])


def test_position_in_a_larger_file() -> None:
    for name in ("EXIF", "JFIF", "profile"):
        _assert_same(_with(name), name, position=777)


def test_files(tmp_path: Path) -> None:
    """Native code has only the buffer's contents of a buffered file."""
    large = _segment(0xFE, bytes(60_000))
    plain = KINDS["420"]
    for number, data in enumerate((_with("EXIF"), plain[:2] + large + plain[2:], b"", plain[:200])):
        path = tmp_path / f"{number}.jpg"
        for prefix in (b"", b"behind"):
            path.write_bytes(prefix + data)

            def program(path: Path = path, skipped: int = len(prefix)) -> Any:
                with path.open("rb") as file:
                    file.seek(skipped)
                    image = JpegImageFile(file)
                    state = {name: value for name, value in vars(image).items() if name not in ("fp", "_fp")}
                    return described(state), file.tell(), image.convert("RGB").tobytes()

            assert_same_result(lambda program=program: outcome(program))


def _sources() -> Iterator[bytes]:
    yield from KINDS.values()
    yield from (_with(name) for name in SEGMENTS)
    yield from (row.path.read_bytes()[:20_000] for row in manifest_rows() if row.pillow_format == "JPEG")


def _damaged(data: bytes, choose: random.Random) -> bytes:
    """Changes one byte of the header, or damages it further."""
    header = bytearray(data[: max(40, data.find(b"\xff\xda"))])
    if choose.random() < 0.5:
        return mutated(bytes(header), choose) + data[len(header) :]
    header[choose.randrange(len(header))] = choose.randrange(256)
    return bytes(header) + data[len(header) :]


def test_damaged_headers() -> None:
    sources = list(_sources())
    num_native = 0
    for seed in range(3000):
        choose = random.Random(seed)
        data = _damaged(choose.choice(sources), choose)
        num_native += _is_native(data)
        _assert_same(data, seed)
    assert 300 < num_native < 2700


def test_a_header_cut_anywhere() -> None:
    data = _with("EXIF")
    end = data.index(b"\xff\xda") + 2 + int.from_bytes(data[data.index(b"\xff\xda") + 2 :][:2], "big")
    for size in range(end + 1):
        assert _is_native(data[:size]) == (size == end)
        _assert_same(data[:size], size)


def test_too_many_segments() -> None:
    data = KINDS["420"]
    comments = _segment(0xFE, b"x") * 50
    many = data[:2] + comments + data[2:]
    assert not _is_native(many)
    _assert_same(many, "many")


def test_pillow_reads_headers_if_it_keeps_something_else(monkeypatch: pytest.MonkeyPatch) -> None:
    def comment(image: JpegImageFile, marker: int) -> None:
        JpegImagePlugin.COM(image, marker)
        image.info["comment"] = image.info["comment"].decode("latin1")

    _header._is_known.cache_clear()
    monkeypatch.setitem(JpegImagePlugin.MARKER, 0xFFFE, ("COM", "Comment", comment))
    try:
        with native_opener():
            image = Image.open(io.BytesIO(_with("comment")))
            assert image.info["comment"] == "ÿnot a marker"
            assert image.convert("RGB").tobytes()
    finally:
        _header._is_known.cache_clear()


def test_the_installed_pillow_is_known() -> None:
    with native_opener():
        pillows = _header.JpegImageFile._open.__wrapped__  # type: ignore[attr-defined]
    assert _header._is_known(pillows)


def test_reading_of_other_threads_is_pillows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is read natively without the opener."""
    monkeypatch.setattr(_native, "read_plain_header", None)
    assert Image.open(io.BytesIO(KINDS["420"])).size == (130, 87)
