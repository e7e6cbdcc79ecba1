"""Records of coefficients: their pixels equal the file's, and an incomplete file has no record."""

from __future__ import annotations

import random
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
import jpeg_writer
from corpora_files import corpora_root, manifest_rows
from jpeg_mutants import mutated
from jpeg_oracle import (
    ODD_SAMPLINGS,
    SAMPLINGS,
    START_OF_JPEG,
    crop,
    decode_natively,
    frame_size,
    picture,
    random_region,
    written_by_pillow,
)
from jpeg_writer import BandScan

_core = pytest.importorskip("fastload._core")

Region = tuple[int, int, int, int]
KEY = np.random.default_rng(0).bytes(_core.STORE_KEY_BYTES)
# Scans of a progressive file: first and last position, the lowest bit known before and after the scan.
BANDS = [(0, 0, 0, 1), (1, 9, 0, 0), (10, 63, 0, 2), (0, 0, 1, 0), (10, 63, 2, 1), (10, 63, 1, 0)]
ALL_SAMPLINGS = SAMPLINGS | ODD_SAMPLINGS


def record_of(data: bytes) -> bytes | None:
    record: bytes | None = _core.record_coefficients(data, KEY)[0]
    return record


def compare(data: bytes, rng: random.Random, windows: int) -> bytes:
    """Returns the record of a decodable file after comparing random windows and the whole."""
    record = record_of(data)
    assert record is not None, _core.record_coefficients(data, KEY)
    pixels = decode_natively(data)
    height, width = pixels.shape[:2]
    for region in [(0, 0, width, height), *(random_region(rng, width, height) for _ in range(windows))]:
        recorded, status, detail = _core.decode_coefficients(record, region, KEY)
        assert (status, detail) == ("ok", ""), region
        np.testing.assert_array_equal(recorded, crop(pixels, region), err_msg=str(region))
    return record


@pytest.mark.parametrize("name", ALL_SAMPLINGS)
def test_any_window_of_any_sampling_has_the_pixels_of_the_file(name: str) -> None:
    """One scan, restart markers, a scan per component, progressive: all have the same record."""
    rng = random.Random(name)
    factors = ALL_SAMPLINGS[name]
    numbers = np.random.default_rng(1)
    for _ in range(2):
        size = (rng.randint(1, 130), rng.randint(1, 130))
        file = jpeg_writer.random_file(numbers, size, factors)
        apart = replace(file, scans=[(i,) for i in range(len(factors))])
        script = [BandScan((i,), *band) for band in BANDS for i in range(len(factors))]
        records = {
            compare(jpeg_writer.encode(apart), rng, 20),
            compare(jpeg_writer.encode_progressive(file, script), rng, 20),
        }
        if len(factors) == 1 or sum(h * v for h, v in factors) <= 10:
            records.add(compare(jpeg_writer.encode(file), rng, 20))
            records.add(compare(jpeg_writer.encode(replace(file, restart_interval=3)), rng, 20))
        assert len(records) == 1


@pytest.mark.parametrize("options", [{}, {"progressive": True}, {"restart_marker_rows": 2}])
@pytest.mark.parametrize("subsampling", [0, 1, 2])
@pytest.mark.parametrize("quality", [30, 92, 98])
def test_photographs_have_the_pixels_of_the_file(quality: int, subsampling: int, options: dict[str, int]) -> None:
    rng = random.Random(quality)
    compare(written_by_pillow(picture(1, 500, 375), quality=quality, subsampling=subsampling, **options), rng, 60)


def test_coefficients_of_any_size_have_the_pixels_of_the_file() -> None:
    """Coefficients fill the classes of packed blocks; a DC coefficient that is too large leaves no record."""
    numbers = np.random.default_rng(3)
    rng = random.Random(3)
    for dc_range, ac_range, density in [(1, 7, 0.9), (900, 100, 0.02), (1000, 1000, 0.3), (1023, 1023, 1.0)]:
        file = jpeg_writer.random_file(
            numbers, (90, 70), SAMPLINGS["420"], dc_range=dc_range, ac_range=ac_range, density=density
        )
        compare(jpeg_writer.encode(file), rng, 30)
    for largest in (2047, -2048, 2048, -2049):
        file = jpeg_writer.random_file(numbers, (40, 40), SAMPLINGS["gray"])
        file.components[0].blocks[0, :3, 0] = [largest // 2, largest, largest // 2]
        data = jpeg_writer.encode(file)
        if -2048 <= largest <= 2047:
            compare(data, rng, 30)
        else:
            assert _core.decode_jpeg(data)[1] == "ok"
            assert record_of(data) is None


@pytest.mark.skipif(corpora_root() is None, reason="no corpora: set FASTLOAD_CORPORA")
def test_every_corpus_file_has_the_pixels_of_the_file_or_no_record() -> None:
    rng = random.Random(5)
    recorded = 0
    for row in manifest_rows():
        data = row.path.read_bytes()
        width, height = frame_size(data) if data.startswith(START_OF_JPEG) else (0, 0)
        if not 0 < width * height < 10_000_000:
            continue
        if _core.decode_jpeg(data)[1] == "ok":
            recorded += compare(data, rng, 40) is not None
        else:
            assert record_of(data) is None
    assert recorded > 100


def test_partly_damaged_files_have_no_record() -> None:
    rng = random.Random(7)
    whole = written_by_pillow(picture(1, 300, 260), quality=85)
    faults = taken = 0
    for _ in range(2000):
        data = mutated(whole, rng)
        if _core.decode_jpeg(data)[1] == "ok":
            compare(data, rng, 2)
            taken += 1
        else:
            assert record_of(data) is None
            faults += 1
    assert faults > 100
    assert taken > 100


def test_the_size_of_records() -> None:
    """Photographs of ImageNet's kind take at most 1.75 times the file."""
    sizes = [
        (len(data), len(record_of(data) or b""))
        for data in (written_by_pillow(picture(seed, 500, 375), quality=96, subsampling=2) for seed in range(4))
    ]
    assert sum(record for _, record in sizes) < 1.75 * sum(file for file, _ in sizes)
