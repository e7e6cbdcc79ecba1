"""SampleDecoder.check_bytes and read_open: Pillow decodes what they accept without an error."""

from __future__ import annotations

import io
import os
import random
from pathlib import Path

import pytest
from corpora_files import corpora_root, manifest_rows
from image_folders import synthetic_image
from jpeg_mutants import mutated
from PIL import Image

from fastload import _native


def _decoder() -> _native.SampleDecoder:
    return _native.SampleDecoder(max_file_bytes=1 << 30, max_pixels=89_478_485, native_jpeg=True)


def _jpeg(**options: object) -> bytes:
    stream = io.BytesIO()
    synthetic_image(1, 75, 53).save(stream, "JPEG", **options)
    return stream.getvalue()


FILES = {
    "baseline": _jpeg(),
    "444": _jpeg(subsampling=0, quality=95, optimize=True),
    "progressive": _jpeg(progressive=True),
    "restart": _jpeg(restart_marker_blocks=1),
}


def _assert_loads(data: bytes, facts: tuple[int, int, int, int]) -> None:
    width, height, components, end = facts
    for block in (65536, 100):
        image = Image.open(io.BytesIO(data))
        image.decodermaxblock = block  # type: ignore[attr-defined]
        image.load()
        assert image.size == (width, height)
        assert image.mode == ("L" if components == 1 else "RGB")
    assert data[end - 2 : end] == b"\xff\xd9"


@pytest.mark.parametrize("kind", FILES)
def test_clean_files(kind: str) -> None:
    data = FILES[kind]
    facts = _decoder().check_bytes(data)
    assert facts == (75, 53, 3, len(data))
    assert _decoder().check_bytes(data + b"more") == facts


def test_an_open_file_is_read_from_its_beginning_wherever_it_stands(tmp_path: Path) -> None:
    data, decoder = FILES["baseline"], _decoder()
    for contents in (data, data[:-1], b""):
        path = tmp_path / "file.jpg"
        path.write_bytes(contents)
        with path.open("rb") as file:
            file.seek(7)
            assert decoder.read_open(file.fileno()) == (contents, decoder.check_bytes(contents), b"")
            assert file.tell() == 7


def test_a_file_that_is_not_regular_or_too_large_is_not_read(tmp_path: Path) -> None:
    read_end, write_end = os.pipe()
    os.write(write_end, FILES["baseline"])
    assert _decoder().read_open(read_end) is None
    os.close(write_end)
    assert os.read(read_end, 1 << 16) == FILES["baseline"], "nothing was taken from it"
    os.close(read_end)
    assert _decoder().read_open(read_end) is None, "a closed descriptor"
    path = tmp_path / "large.jpg"
    path.write_bytes(FILES["baseline"])
    small = _native.SampleDecoder(max_file_bytes=100, max_pixels=89_478_485, native_jpeg=True)
    with path.open("rb") as file:
        assert small.read_open(file.fileno()) is None


@pytest.mark.parametrize("kind", FILES)
def test_every_truncation_is_refused(kind: str) -> None:
    decoder, data = _decoder(), FILES[kind]
    assert not any(decoder.check_bytes(data[:size]) for size in range(len(data)))
    assert decoder.fallback_reason


@pytest.mark.parametrize("seed", range(8))
def test_mutants(seed: int) -> None:
    """Many mutants of all kinds are accepted, and Pillow loads each of these."""
    choose, decoder = random.Random(seed), _decoder()
    taken = 0
    for _ in range(400):
        data = mutated(choose.choice(list(FILES.values())), choose)
        facts = decoder.check_bytes(data)
        if facts is not None:
            _assert_loads(data, facts)
            taken += 1
    assert taken > 40


@pytest.mark.skipif(corpora_root() is None, reason="no corpora: set FASTLOAD_CORPORA")
def test_corpora() -> None:
    decoder, taken = _decoder(), 0
    for row in manifest_rows():
        data = row.path.read_bytes()
        facts = decoder.check_bytes(data)
        if facts is not None:
            _assert_loads(data, facts)
            taken += 1
    assert taken > 40


def _with_large_differences(data: bytes) -> bytes:
    """Makes the first DC table allow differences of 11 bits."""
    at = data.index(b"\xff\xc4") + 5
    count = sum(data[at : at + 16])
    symbols = bytearray(data[at + 16 : at + 16 + count])
    symbols[-1] = 11
    return data[: at + 16] + bytes(symbols) + data[at + 16 + count :]


def test_dc_predictions_stay_inside_of_32_bits() -> None:
    """libjpeg refuses a progressive file if its prediction does not; 2047 * 1,049,088 blocks is the bound."""
    stream = io.BytesIO()
    Image.new("L", (8208, 8208)).save(stream, "JPEG", progressive=True)
    assert _decoder().check_bytes(stream.getvalue()) is not None
    decoder = _decoder()
    assert decoder.check_bytes(_with_large_differences(stream.getvalue())) is None
    assert decoder.fallback_reason == "DC predictions that may leave 32 bits"
    stream = io.BytesIO()
    Image.new("L", (8208, 8176)).save(stream, "JPEG", progressive=True)
    assert _decoder().check_bytes(_with_large_differences(stream.getvalue())) is not None
