"""The native JPEG decoder against Pillow: if it says ok, it has Pillow's pixels and Pillow does not raise."""

from __future__ import annotations

import collections
import hashlib
import itertools
import random
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
import jpeg_writer
from corpora_files import corpora_root, manifest_rows
from jpeg_oracle import (
    ODD_SAMPLINGS,
    SAMPLINGS,
    assert_equals_pillow,
    check_mutants,
    crop,
    decode_natively,
    noisy_pixels,
    random_region,
    written_by_pillow,
)

_core = pytest.importorskip("fastload._core")


@pytest.mark.skipif(corpora_root() is None, reason="no corpora: set FASTLOAD_CORPORA")
def test_every_corpus_file_has_pillows_pixels_or_is_left_to_it(capsys: pytest.CaptureFixture[str]) -> None:
    rng = random.Random(1)
    seen: collections.Counter[str] = collections.Counter()
    native: collections.Counter[str] = collections.Counter()
    for row in manifest_rows():
        data = row.path.read_bytes()
        pixels, status, *_ = _core.decode_jpeg(data)
        if row.pillow_format in ("JPEG", "MPO") and row.pillow_error == "-":
            seen.update(row.tags.split(","))
        if status != "ok":
            assert status in ("unsupported", "irregular", "limit_exceeded"), row.path
            is_ordinary = row.kind == "valid" and "baseline" in row.tags.split(",") and "s410" not in row.tags
            assert not is_ordinary, row.path
            continue
        native.update(row.tags.split(","))
        assert row.pillow_error == "-", row.path
        assert hashlib.md5(pixels.tobytes()).hexdigest() == row.rgb_md5, row.path
        for _ in range(3):
            region = random_region(rng, pixels.shape[1], pixels.shape[0])
            np.testing.assert_array_equal(decode_natively(data, region), crop(pixels, region), err_msg=str(row.path))
    assert native["baseline"] > 100
    with capsys.disabled():
        print("\nnatively decoded, by tag of the JPEG files that Pillow decodes:")
        for tag, count in sorted(seen.items(), key=lambda item: -item[1]):
            print(f"  {tag:<20} {native[tag]:>4} of {count:>4}  {native[tag] / count:>4.0%}")


@pytest.mark.parametrize("name", SAMPLINGS)
def test_regions_equal_the_crop_for_a_thousand_regions(name: str) -> None:
    rng = random.Random(name)
    numbers = np.random.default_rng(len(name) + sum(map(ord, name)))
    factors = SAMPLINGS[name]
    for interval, is_interleaved in itertools.product((0, 1, 7), (True, False)):
        file = jpeg_writer.random_file(numbers, (rng.randint(60, 131), rng.randint(40, 99)), factors)
        file.restart_interval = interval
        file.scans = None if is_interleaved else [[i] for i in range(len(factors))]
        assert_equals_pillow(jpeg_writer.encode(file), rng, 170)


@pytest.mark.parametrize("name", [*SAMPLINGS, *ODD_SAMPLINGS])
def test_small_sizes_through_all_residues(name: str) -> None:
    factors = (SAMPLINGS | ODD_SAMPLINGS)[name]
    rng = random.Random(name)
    numbers = np.random.default_rng(7)
    period_x = 8 * max(h for h, _ in factors)
    period_y = 8 * max(v for _, v in factors)
    too_many_blocks = len(factors) > 1 and sum(h * v for h, v in factors) > 10
    for step in range(1, 2 * max(period_x, period_y) + 2):
        width = min(step, 2 * period_x + 1)
        height = (step * 5 + rng.randint(0, 2)) % (2 * period_y + 1) + 1
        for size in ((width, height), (height, width), (width, 1), (1, height)):
            file = jpeg_writer.random_file(numbers, size, factors, dc_range=60)
            if too_many_blocks or step % 3 == 0:
                file.scans = [[i] for i in range(len(factors))]
            assert_equals_pillow(jpeg_writer.encode(file), rng, 3)


@pytest.mark.parametrize("name", ["444", "420", "gray"])
@pytest.mark.parametrize("sixteen_bit", [False, True])
def test_absurd_coefficients_equal_pillow(name: str, sixteen_bit: bool) -> None:
    rng = random.Random(2)
    numbers = np.random.default_rng(3)
    for density in (0.02, 0.2, 0.9):
        for step in (1, 255, 65535 if sixteen_bit else 200):
            file = jpeg_writer.random_file(
                numbers, (64, 48), SAMPLINGS[name], dc_range=1000, ac_range=1023, density=density, largest_step=step
            )
            file.sixteen_bit_tables = sixteen_bit
            file.frame_marker = 0xC1 if sixteen_bit else 0xC0
            for long_codes in (False, True):
                assert_equals_pillow(jpeg_writer.encode(file, long_codes=long_codes), rng, 3)


def test_blocks_of_row_0_alone_wrap_as_pillow_does() -> None:
    numbers = np.random.default_rng(5)
    file = jpeg_writer.random_file(numbers, (96, 96), SAMPLINGS["gray"], dc_range=1000, density=0, largest_step=255)
    blocks = file.components[0].blocks
    for position in (1, 5, 6, 14, 15, 27, 28):
        blocks[..., position] = numbers.integers(-1023, 1024, blocks.shape[:2]) * (
            numbers.random(blocks.shape[:2]) < 0.4
        )
    assert_equals_pillow(jpeg_writer.encode(file), random.Random(1), 3)


@pytest.mark.parametrize(
    ("numbers", "segments"),
    [
        ((1, 2, 3), []),
        ((82, 71, 66), []),
        ((0, 1, 2), []),
        ((82, 71, 66), [(0xE0, b"JFIF\0\1\1\0\0\1\0\1\0\0")]),
        ((82, 71, 66), [(0xE0, b"JFIF\0\1\1\0\0\1\0\1\0")]),
        ((1, 2, 3), [(0xEE, b"Adobe\0\x64\0\0\0\0\0")]),
        ((82, 71, 66), [(0xEE, b"Adobe\0\x64\0\0\0\0\1")]),
        ((1, 2, 3), [(0xEE, b"Adobe\0\x64\0\0\0\0")]),
        ((1, 2, 3), [(0xE0, b"JFIF\0\1\1\0\0\1\0\1\0\0"), (0xEE, b"Adobe\0\x64\0\0\0\0\0")]),
    ],
)
def test_color_model_is_guessed_as_pillow_does(numbers: Sequence[int], segments: list[tuple[int, bytes]]) -> None:
    file = jpeg_writer.random_file(np.random.default_rng(1), (40, 40), SAMPLINGS["420"], numbers=numbers)
    file.app_segments = segments
    assert_equals_pillow(jpeg_writer.encode(file), random.Random(1), 5)


@pytest.mark.parametrize("scans", [[[0], [1, 2]], [[0, 1], [2]], [[2], [0], [1]], [[1, 2], [0]]])
def test_scans_of_some_components_equal_pillow(scans: list[list[int]]) -> None:
    file = jpeg_writer.random_file(np.random.default_rng(1), (90, 70), SAMPLINGS["420"])
    file.scans = scans
    assert_equals_pillow(jpeg_writer.encode(file), random.Random(1), 50)


def test_quantization_table_between_scans_counts_from_the_next_scan_on() -> None:
    file = jpeg_writer.random_file(np.random.default_rng(1), (50, 50), SAMPLINGS["444"])
    file.scans = [[0], [1], [2]]
    data = jpeg_writer.encode(file)
    scan_starts = [i for i in range(len(data) - 1) if data[i : i + 2] == b"\xff\xc4"]
    assert len(scan_starts) == 3
    new_table = jpeg_writer.segment(0xDB, b"\x01" + bytes(range(1, 65)))
    changed = data[: scan_starts[2]] + new_table + data[scan_starts[2] :]
    assert not np.array_equal(decode_natively(changed), decode_natively(data))
    assert_equals_pillow(changed, random.Random(1), 20)


@pytest.mark.parametrize("is_progressive", [False, True])
@pytest.mark.parametrize("subsampling", ["4:4:4", "4:2:2", "4:2:0", "gray"])
@pytest.mark.parametrize("restart", [{}, {"restart_marker_rows": 1}, {"restart_marker_blocks": 3}])
def test_files_pillow_wrote_equal_pillow(subsampling: str, restart: dict[str, int], is_progressive: bool) -> None:
    rng = random.Random(subsampling)
    numbers = np.random.default_rng(len(restart))
    options = {"subsampling": subsampling, "progressive": is_progressive, **restart}
    for quality, optimize in itertools.product((1, 10, 50, 75, 98, 100), (False, True)):
        pixels = noisy_pixels(numbers, rng.randint(1, 150), rng.randint(1, 150), rng.choice([0.0, 0.3, 1.0]))
        assert_equals_pillow(written_by_pillow(pixels, quality=quality, optimize=optimize, **options), rng, 20)


def hostile_seeds() -> list[bytes]:
    numbers = np.random.default_rng(11)
    seeds = []
    for name in ("444", "420", "gray"):
        for interval, is_interleaved in ((0, True), (3, True), (0, False)):
            file = jpeg_writer.random_file(numbers, (45, 37), SAMPLINGS[name])
            file.restart_interval = interval
            file.scans = None if is_interleaved else [[i] for i in range(len(SAMPLINGS[name]))]
            file.app_segments = [(0xE0, b"JFIF\0\1\1\0\0\1\0\1\0\0"), (0xFE, b"hello")]
            seeds.append(jpeg_writer.encode(file))
    noisy = noisy_pixels(numbers, 52, 40)
    for quality, options in ((75, {"subsampling": 2}), (92, {"subsampling": 0, "optimize": True}), (60, {})):
        seeds.append(written_by_pillow(noisy, quality=quality, **options))
    seeds.append(written_by_pillow(noisy, quality=80, subsampling=1, restart_marker_rows=1))
    exif = b"Exif\0\0II*\0\x08\0\0\0\x02\0\x1a\x01\x05\0\x01\0\0\0\x26\0\0\0\x28\x01\x03\0\x01\0\0\0\x02\0\0\0\0\0\0\0"
    for segments in (
        [(0xE1, exif + b"\x48\0\0\0\x01\0\0\0")],
        [(0xE2, b"ICC_PROFILE\0\x01\x01abcdef"), (0xEE, b"Adobe\0\x64\0\0\0\0\1")],
        [
            (0xED, b"Photoshop 3.0\x008BIM\x03\xed\0\0\0\0\0\x10" + bytes(16)),
            (0xE1, b"http://ns.adobe.com/xap/1.0/\0<x>"),
        ],
    ):
        file = jpeg_writer.random_file(numbers, (24, 17), SAMPLINGS["422"])
        file.app_segments = segments
        seeds.append(jpeg_writer.encode(file))
    return seeds


def test_hostile_files_that_are_taken_have_pillows_pixels() -> None:
    check_mutants(hostile_seeds(), seed=20240, count=6000, share=50)


@pytest.mark.parametrize("limit", ["pixels", "scans"])
def test_limits_leave_the_file_to_pillow(limit: str) -> None:
    file = jpeg_writer.random_file(np.random.default_rng(1), (40, 30), SAMPLINGS["444"])
    file.scans = [[0], [1], [2]]
    data = jpeg_writer.encode(file)
    arguments = {"max_pixels": 1199} if limit == "pixels" else {"max_scans": 2}
    assert _core.decode_jpeg(data, **arguments)[1] == "limit_exceeded"
    allowed = {"max_pixels": 1200} if limit == "pixels" else {"max_scans": 3}
    assert _core.decode_jpeg(data, **allowed)[1] == "ok"
