"""fastload.imread against cv2.imread on the same file."""

from __future__ import annotations

import os
import re
import struct
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from corpora_files import manifest_rows
from gil import runs_beside
from image_folders import make_mixed_folder, synthetic_image
from jpeg_kinds import KINDS, jpeg

import fastload
from fastload._images import _opencv

cv2 = pytest.importorskip("cv2", reason="opencv-python-headless is in tests/requirements.txt")

COLOR, RGB, IGNORE = cv2.IMREAD_COLOR, cv2.IMREAD_COLOR_RGB, cv2.IMREAD_IGNORE_ORIENTATION
NATIVE_FLAGS = (COLOR, RGB, COLOR | IGNORE, RGB | IGNORE)
NATIVE_KINDS = ("baseline", "420", "gray", "progressive", "restart", "rotated", "one pixel", "bytes behind")
ALL_FLAGS = sorted({value for name, value in vars(cv2).items() if name.startswith("IMREAD_")} | set(NATIVE_FLAGS))
XMP = b"http://ns.adobe.com/xap/1.0/\0<x:xmpmeta/>"


@pytest.fixture(autouse=True)
def _asked_anew() -> Iterator[None]:
    """Makes each test examine the installed OpenCV anew."""
    _opencv._exact_plans.cache_clear()
    yield
    _opencv._exact_plans.cache_clear()


class LeftToOpenCV(Exception):
    pass


def natively(path: str | os.PathLike[str], flags: int = COLOR) -> Any:
    """Calls fastload.imread in a state in which it must not call cv2.imread."""

    def fail(*arguments: object) -> None:
        raise LeftToOpenCV(arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cv2, "imread", fail)
        return fastload.imread(path, flags)


def is_native(path: Path, flags: int = COLOR) -> bool:
    try:
        natively(path, flags)
    except LeftToOpenCV:
        return False
    return True


def outcome(read: Callable[..., Any], *arguments: Any) -> Any:
    """Returns the result of `read`, or the type and text of its error."""
    try:
        return read(*arguments)
    except (cv2.error, TypeError, ValueError, SystemError) as error:
        return type(error), str(error)


def assert_equal_to_opencv(path: Any, flags: Any = COLOR) -> None:
    expected, got = outcome(cv2.imread, path, flags), outcome(fastload.imread, path, flags)
    if isinstance(expected, np.ndarray):
        assert isinstance(got, np.ndarray)
        assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
        assert np.array_equal(got, expected)
        assert got.flags.c_contiguous == expected.flags.c_contiguous
        assert got.flags.writeable
    else:
        assert got == expected


def write(path: Path, contents: bytes) -> Path:
    path.write_bytes(contents)
    return path


def app1(payload: bytes) -> bytes:
    return b"\xff\xe1" + struct.pack(">H", len(payload) + 2) + payload


def exif(orientation: int, order: str = "<", *, kind: int = 3, count: int = 1, before: bytes = b"") -> bytes:
    """Returns a segment's payload; `before` are entries of the directory, 12 bytes each."""
    value = struct.pack(order + ("I" if kind == 4 else "HH"), *((orientation,) if kind == 4 else (orientation, 0)))
    entries = before + struct.pack(order + "HHI", 0x112, kind, count) + value
    start = (b"II*\0" if order == "<" else b"MM\0*") + struct.pack(order + "IH", 8, len(entries) // 12)
    return b"Exif\0\0" + start + entries + bytes(4)


def with_segments(*payloads: bytes) -> bytes:
    photo = jpeg(3, 37, 22, subsampling="4:2:0", quality=85)
    return photo[:2] + b"".join(map(app1, payloads)) + photo[2:]


@pytest.mark.parametrize("flags", NATIVE_FLAGS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_jpeg_is_as_opencv_reads_it(tmp_path: Path, kind: str, flags: int) -> None:
    path = write(tmp_path / "a.jpg", KINDS[kind])
    assert_equal_to_opencv(path, flags)
    assert is_native(path, flags) == (kind in NATIVE_KINDS)


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("orientation", range(11))
def test_images_are_turned_natively_as_their_exif_orientation_says(
    tmp_path: Path, orientation: int, order: str
) -> None:
    path = write(tmp_path / "a.jpg", with_segments(exif(orientation, order), XMP))
    for flags in NATIVE_FLAGS:
        expected = cv2.imread(path, flags)
        assert expected.shape == ((37, 22, 3) if 5 <= orientation <= 8 and not flags & IGNORE else (22, 37, 3))
        assert np.array_equal(natively(path, flags), expected)


@pytest.mark.parametrize(
    "payloads",
    [
        (XMP, exif(6)),
        (exif(6), exif(3)),
        (b"Exif\0\1" + exif(6)[6:],),
        (exif(6, kind=4),),
        (exif(6, count=2),),
        (exif(6, before=struct.pack("<HHII", 0x10F, 2, 100, 1 << 20)),),
        (exif(6, before=struct.pack("<HHII", 0x128, 3, 1, 2)),),
        (exif(6, before=struct.pack("<HHIHH", 0x112, 3, 1, 8, 0)),),
        (exif(6)[:20],),
        (b"Exif\0\0",),
        (b"", exif(6)),
    ],
)
def test_ambiguous_exif_data_is_left_to_opencv(tmp_path: Path, payloads: tuple[bytes, ...]) -> None:
    path = write(tmp_path / "a.jpg", with_segments(*payloads))
    assert not is_native(path)
    assert_equal_to_opencv(path)


def test_other_formats_are_as_opencv_reads_them(tmp_path: Path) -> None:
    paths = sorted(path for path in make_mixed_folder(tmp_path).rglob("*") if path.is_file())
    assert len(paths) > 12
    for path in paths:
        assert_equal_to_opencv(path)


@pytest.mark.parametrize("flags", ALL_FLAGS)
def test_every_flag_means_the_same_as_for_opencv(tmp_path: Path, flags: int) -> None:
    photos = {"rotated.jpg": with_segments(exif(6)), "gray.jpg": KINDS["gray"]}
    for name, contents in photos.items():
        path = write(tmp_path / name, contents)
        assert_equal_to_opencv(path, flags)
        assert is_native(path, flags) == (flags in NATIVE_FLAGS)
    synthetic_image(1, 20, 10).save(tmp_path / "a.png")
    assert_equal_to_opencv(tmp_path / "a.png", flags)


def test_flags_default_to_bgr(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jpg", KINDS["420"])
    assert np.array_equal(fastload.imread(path), cv2.imread(path))
    assert np.array_equal(fastload.imread(path)[..., ::-1], fastload.imread(path, RGB))


@pytest.mark.parametrize("flags", [True, 1.0, "1", None, np.int64(1), 1 << 40])
def test_flags_that_are_not_int_are_left_to_opencv(tmp_path: Path, flags: Any) -> None:
    assert_equal_to_opencv(write(tmp_path / "a.jpg", KINDS["baseline"]), flags)


@pytest.mark.parametrize("path", [None, 3, b"a.jpg", "", "a.jpg\0b"])
def test_values_that_are_not_paths_are_left_to_opencv(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "a.jpg", KINDS["baseline"])
    assert_equal_to_opencv(path)


def test_a_name_that_is_not_utf8_is_an_error_and_no_crash(tmp_path: Path) -> None:
    path = write(tmp_path / "\udcff.jpg", KINDS["baseline"])
    with pytest.raises(UnicodeEncodeError, match="surrogates not allowed"):
        fastload.imread(path, cv2.IMREAD_GRAYSCALE)


def test_a_path_may_be_of_any_class_and_any_letters(tmp_path: Path) -> None:
    class Named:
        def __init__(self, path: Path) -> None:
            self.path = path

        def __fspath__(self) -> str:
            return str(self.path)

    path = write(tmp_path / "\u00e4 \U0001f600.jpg", KINDS["baseline"])
    expected = cv2.imread(str(path))
    for same in (path, str(path), Named(path)):
        assert np.array_equal(natively(same), expected)


def test_a_missing_file_is_none_with_opencvs_warning(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "none.jpg"
    assert cv2.imread(path) is None
    expected = capfd.readouterr().err
    assert fastload.imread(path) is None
    assert f"imread_('{path}'): can't open/read file" in expected
    without_time = re.compile(r"@[\d.]+")
    assert without_time.sub("", capfd.readouterr().err) == without_time.sub("", expected)


def test_a_file_that_is_not_an_image_is_none(tmp_path: Path) -> None:
    for path in (tmp_path, write(tmp_path / "empty.jpg", b""), write(tmp_path / "text.jpg", b"no image")):
        assert cv2.imread(path) is None
        assert fastload.imread(path) is None


@pytest.mark.parametrize("flags", [COLOR, cv2.IMREAD_GRAYSCALE])
def test_a_fifo_is_refused_and_not_waited_for(tmp_path: Path, flags: int) -> None:
    os.mkfifo(tmp_path / "fifo.jpg")
    with pytest.raises(OSError, match="not a regular file") as caught:
        fastload.imread(tmp_path / "fifo.jpg", flags)
    assert caught.value.filename == str(tmp_path / "fifo.jpg")


def test_an_array_is_the_callers_alone(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jpg", KINDS["420"])
    first, second = natively(path), natively(path)
    assert not np.shares_memory(first, second)
    expected = second.copy()
    first[:] = 0
    assert np.array_equal(second, expected)
    assert np.array_equal(natively(path), expected)


def test_pillows_limit_is_not_opencvs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "a.jpg", KINDS["baseline"])
    for limit in (None, 10):
        monkeypatch.setattr("PIL.Image.MAX_IMAGE_PIXELS", limit)
        assert_equal_to_opencv(path)


def test_a_file_of_more_pixels_than_opencv_takes_is_its_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    contents = KINDS["baseline"]
    frame = contents.index(b"\xff\xc0")
    huge = contents[: frame + 5] + struct.pack(">HH", 40000, 40000) + contents[frame + 9 :]
    monkeypatch.setattr("PIL.Image.MAX_IMAGE_PIXELS", None)
    path = write(tmp_path / "huge.jpg", huge)
    assert outcome(cv2.imread, path)[0] is cv2.error
    assert_equal_to_opencv(path)


def test_limits_of_the_users_own_are_left_to_opencv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "a.jpg", KINDS["baseline"])
    assert is_native(path)
    _opencv._exact_plans.cache_clear()
    monkeypatch.setenv("OPENCV_IO_MAX_IMAGE_WIDTH", "10")
    assert not is_native(path)


def test_an_opencv_that_decodes_differently_decodes_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "a.jpg", KINDS["baseline"])

    def other_decoder(contents: Any, flags: int) -> Any:
        pixels = decode(contents, flags)
        pixels[0, 0, 0] ^= flags == COLOR
        return pixels

    decode = cv2.imdecode
    monkeypatch.setattr(cv2, "imdecode", other_decoder)
    assert [is_native(path, flags) for flags in NATIVE_FLAGS] == [False, True, True, True]
    assert_equal_to_opencv(path)


def test_the_test_image_shows_how_a_decoder_works() -> None:
    """libjpeg-turbo offers two faster ways beside the accurate one."""
    simplejpeg = pytest.importorskip("simplejpeg", reason="simplejpeg is in benchmarks/requirements.txt")
    accurate = simplejpeg.decode_jpeg(_opencv._TEST_FILE)
    for way in ({"fastdct": True}, {"fastupsample": True}):
        assert (simplejpeg.decode_jpeg(_opencv._TEST_FILE, **way) != accurate).mean() > 0.5


def test_without_opencv_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cv2", None)
    with pytest.raises(
        ImportError, match=r"needs OpenCV, whose cv2\.imread it matches: pip install opencv-python-headless"
    ):
        fastload.imread(tmp_path / "a.jpg")


def test_threads_read_at_the_same_time(tmp_path: Path) -> None:
    paths = [write(tmp_path / f"{kind}.jpg", contents) for kind, contents in KINDS.items()]
    paths.append(write(tmp_path / "turned.jpg", with_segments(exif(6))))
    expected = {path: cv2.imread(path) for path in paths}

    def check(path: Path) -> bool:
        return np.array_equal(fastload.imread(path), expected[path])

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(check, paths * 20))


@pytest.mark.usefixtures("no_thread_switches")
def test_reading_lets_other_threads_run(tmp_path: Path) -> None:
    path = write(tmp_path / "large.jpg", jpeg(1, 1500, 1000))
    natively(path)  # decodes the test image first
    assert runs_beside(lambda: fastload.imread(path))


@pytest.mark.slow
@pytest.mark.usefixtures("corpora")
def test_every_corpus_file_is_as_opencv_reads_it() -> None:
    paths = [row.path for row in manifest_rows()]
    assert len(paths) > 800
    num_native = 0
    for path in paths:
        for flags in NATIVE_FLAGS:
            try:
                pixels = natively(path, flags)
            except LeftToOpenCV as left:
                assert left.args == ((path, flags),)  # noqa: PT017 - what it was called with
            else:
                assert np.array_equal(pixels, cv2.imread(path, flags)), path
                num_native += 1
    assert num_native > 170 * len(NATIVE_FLAGS)
