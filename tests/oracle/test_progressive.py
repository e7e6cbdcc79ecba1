"""Progressive files: natively decoded ones have Pillow's pixels, and those that libjpeg would repair are left to it."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
import jpeg_writer
from corpora_files import manifest_rows
from jpeg_oracle import (
    ODD_SAMPLINGS,
    SAMPLINGS,
    assert_equals_pillow,
    check_hostile_file,
    check_mutants,
    decode_with_pillow,
    noisy_pixels,
    written_by_pillow,
)
from jpeg_writer import BandScan

_core = pytest.importorskip("fastload._core")

Script = list[BandScan]
# Longer than any legal script of the tests, so the limit is not what is tested.
MANY_SCANS = 2000


def status_of(data: bytes) -> str:
    status: str = _core.decode_jpeg(data, max_scans=MANY_SCANS)[1]
    return status


# ---- files of encoders ----------------------------------------------------------------------------------------------


def test_every_clean_progressive_file_of_the_corpora_is_native(corpora: Path) -> None:
    rng = random.Random(1)
    native = 0
    for row in manifest_rows():
        tags = row.tags.split(",")
        if "progressive" not in tags or "arith-prog" in tags:
            continue
        data = row.path.read_bytes()
        if status_of(data) == "ok":
            native += 1
            assert_equals_pillow(data, rng, 5)
        else:
            assert row.kind == "corrupt" or "s441" in tags or "missing-ac" in row.path.name, row.path
    assert native >= 20


@pytest.mark.parametrize("subsampling", ["4:4:4", "4:2:2", "4:2:0", "gray"])
def test_sizes_from_one_pixel_on_equal_pillow(subsampling: str) -> None:
    rng = random.Random(subsampling)
    numbers = np.random.default_rng(4)
    for width in range(1, 36):
        pixels = noisy_pixels(numbers, width, rng.randint(1, 35))
        data = written_by_pillow(pixels, quality=85, progressive=True, subsampling=subsampling)
        assert_equals_pillow(data, rng, 4)


def test_rgb_without_a_color_transform_equals_pillow() -> None:
    rng = random.Random(3)
    pixels = noisy_pixels(np.random.default_rng(3), 61, 47)
    assert_equals_pillow(written_by_pillow(pixels, quality=88, progressive=True, keep_rgb=True), rng, 20)


# ---- scan scripts ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*SAMPLINGS, *ODD_SAMPLINGS])
@pytest.mark.parametrize("restart_interval", [0, 1, 6])
def test_random_scan_scripts_equal_pillow(name: str, restart_interval: int) -> None:
    rng = random.Random(name)
    numbers = np.random.default_rng(sum(map(ord, name)) + restart_interval)
    factors = (SAMPLINGS | ODD_SAMPLINGS)[name]
    fits_together = sum(h * v for h, v in factors) <= 10
    for longest_run in (1, 3, 32767):
        size = rng.randint(1, 60), rng.randint(1, 60)
        file = jpeg_writer.random_file(numbers, size, factors, density=rng.choice([0.02, 0.15, 0.6]))
        file.restart_interval = restart_interval
        script = one_by_one(jpeg_writer.random_script(numbers, len(factors)), fits_together)
        data = jpeg_writer.encode_progressive(file, script, longest_run=longest_run, long_codes=rng.random() < 0.3)
        assert_equals_pillow(data, rng, 8, max_scans=MANY_SCANS)


def one_by_one(script: Script, may_be_together: bool) -> Script:
    """Splits interleaved scans whose MCU would have too many blocks."""
    if may_be_together:
        return script
    return [replace(scan, components=(c,)) for scan in script for c in scan.components]


@pytest.mark.parametrize("name", ["420", "gray"])
def test_absurd_coefficients_and_shifts_equal_pillow(name: str) -> None:
    rng = random.Random(name)
    numbers = np.random.default_rng(8)
    for ac_range in (1023, 200):
        for step in (1, 255):
            file = jpeg_writer.random_file(
                numbers, (40, 33), SAMPLINGS[name], dc_range=1000, ac_range=ac_range, density=0.5, largest_step=step
            )
            script = jpeg_writer.random_script(numbers, len(SAMPLINGS[name]), highest_shift=12)
            assert_equals_pillow(jpeg_writer.encode_progressive(file, script), rng, 5, max_scans=MANY_SCANS)


def default_script(component_count: int = 1) -> Script:
    """Returns bands and shifts like libjpeg's own script, for all components alike."""
    everything = tuple(range(component_count))
    script = [BandScan(everything, 0, 0, 0, 1)]
    for low, high, start in ((2, 0, 1), (2, 0, 6), (1, 2, 1), (0, 1, 1)):
        end = 5 if (low, start) == (2, 1) else 63
        script += [BandScan((c,), start, end, high, low) for c in everything]
    return [*script, BandScan(everything, 0, 0, 1, 0)]


@pytest.mark.parametrize("gaps", [[2**n for n in range(15)], [2**n - 1 for n in range(1, 15)], [37_799]])
def test_runs_of_empty_blocks_of_every_length_equal_pillow(gaps: list[int]) -> None:
    """Few of 37800 blocks are not empty: the ends of band EOB0 to EOB14 occur, and a run that needs two."""
    numbers = np.random.default_rng(len(gaps))
    file = jpeg_writer.random_file(numbers, (8 * 4200, 8 * 9), SAMPLINGS["gray"], density=0)
    flat = file.components[0].blocks.reshape(-1, 64)
    chosen = np.cumsum([0, *gaps])
    flat[chosen, 1:] = numbers.integers(-9, 10, (len(chosen), 63))
    data = jpeg_writer.encode_progressive(file, default_script())
    assert_equals_pillow(data, random.Random(1), 5)


def test_quantization_table_counts_from_the_first_scan_of_a_component() -> None:
    file = jpeg_writer.random_file(np.random.default_rng(1), (50, 50), SAMPLINGS["gray"])
    data = jpeg_writer.encode_progressive(file, default_script())
    new_table = jpeg_writer.segment(0xDB, b"\0" + bytes(range(1, 65)))
    tables = [i for i in range(len(data) - 1) if data[i : i + 2] == b"\xff\xc4"]
    before, after = (data[:at] + new_table + data[at:] for at in (tables[0], tables[1]))
    plain, changed, unchanged = map(decode_with_pillow, (data, before, after))
    assert np.array_equal(plain, unchanged)
    assert not np.array_equal(plain, changed)
    for variant in (before, after):
        assert status_of(variant) == "ok"
        assert_equals_pillow(variant, random.Random(1), 5)


def test_restart_interval_and_comments_between_scans_equal_pillow() -> None:
    file = jpeg_writer.random_file(np.random.default_rng(2), (70, 40), SAMPLINGS["420"])
    data = jpeg_writer.encode_progressive(file, default_script(3))
    at = data.index(b"\xff\xda")
    at = data.index(b"\xff\xc4", at)
    assert_equals_pillow(data[:at] + jpeg_writer.segment(0xFE, b"comment") + data[at:], random.Random(1), 5)
    interval = jpeg_writer.segment(0xDD, b"\0\3")
    assert status_of(data[:at] + interval + data[at:]) == "irregular"  # the scans after it have no restart markers


# ---- what is left to libjpeg ----------------------------------------------------------------------------------------


def without(script: Script, unwanted: Callable[[BandScan], bool]) -> Script:
    return [scan for scan in script if not unwanted(scan)]


def swapped(script: Script, i: int, k: int) -> Script:
    out = list(script)
    out[i], out[k] = out[k], out[i]
    return out


FAULTY_SCRIPTS: dict[str, Script] = {
    "no AC at all": [BandScan((0,), 0, 0, 0, 0)],
    "no last bit of DC": without(default_script(), lambda s: s.start == 0 and s.high == 1),
    "no last bit of AC": without(default_script(), lambda s: s.start == 1 and s.high == 1),
    "no high frequencies": without(default_script(), lambda s: s.start == 6),
    "one coefficient missing": [BandScan((0,), 0, 0, 0, 0), BandScan((0,), 1, 62, 0, 0)],
    "first coefficients not exact": [
        BandScan((0,), 0, 0, 0, 0),
        BandScan((0,), 1, 5, 0, 1),
        BandScan((0,), 6, 63, 0, 0),
    ],
    "a bit left out": without(default_script(), lambda s: s.high == 2),
    "refined before it is there": swapped(default_script(), 2, 3),
    "DC refined twice": [*default_script(), BandScan((0,), 0, 0, 1, 0)],
    "AC refined twice": [*default_script(), BandScan((0,), 1, 63, 1, 0)],
    "AC from the start again": [*default_script(), BandScan((0,), 1, 5, 0, 0)],
    "DC from the start again": [*default_script(), BandScan((0,), 0, 0, 0, 0)],
    "AC before DC": [*default_script()[1:], default_script()[0]],
    "bands overlap": [BandScan((0,), 0, 0, 0, 0), BandScan((0,), 1, 10, 0, 0), BandScan((0,), 10, 63, 0, 0)],
    "DC and AC in one scan": [BandScan((0,), 0, 63, 0, 0)],
    "band reversed": [BandScan((0,), 0, 0, 0, 0), BandScan((0,), 9, 3, 0, 0)],
    "shift of two steps": [BandScan((0,), 0, 0, 0, 2), BandScan((0,), 0, 0, 2, 0), BandScan((0,), 1, 63, 0, 0)],
    "no step down": [BandScan((0,), 0, 0, 0, 1), BandScan((0,), 0, 0, 1, 1), BandScan((0,), 1, 63, 0, 0)],
    "shift of 14": [BandScan((0,), 0, 0, 0, 14), BandScan((0,), 1, 63, 0, 0)],
}


@pytest.mark.parametrize("fault", FAULTY_SCRIPTS)
def test_incomplete_and_illegal_scripts_are_left_to_pillow(fault: str) -> None:
    file = jpeg_writer.random_file(np.random.default_rng(1), (45, 37), SAMPLINGS["gray"])
    data = jpeg_writer.encode_progressive(file, FAULTY_SCRIPTS[fault])
    assert status_of(data) in ("irregular", "unsupported")
    assert status_of(jpeg_writer.encode_progressive(file, default_script())) == "ok"


def test_a_component_without_all_of_its_scans_is_left_to_pillow() -> None:
    file = jpeg_writer.random_file(np.random.default_rng(1), (45, 37), SAMPLINGS["420"])
    script = default_script(3)
    assert status_of(jpeg_writer.encode_progressive(file, script)) == "ok"
    for number in range(len(script)):
        data = jpeg_writer.encode_progressive(file, script[:number] + script[number + 1 :])
        assert status_of(data) in ("irregular", "unsupported"), script[number]
    dc_of_luma_alone = [BandScan((0,), 0, 0, 0, 1), *script[1:]]
    assert status_of(jpeg_writer.encode_progressive(file, dc_of_luma_alone)) == "irregular"


def test_random_changes_of_a_script_are_left_to_pillow_or_equal_it() -> None:
    rng = random.Random(5)
    numbers = np.random.default_rng(5)
    taken = 0
    for _ in range(300):
        name = rng.choice(["gray", "420", "444"])
        file = jpeg_writer.random_file(numbers, (rng.randint(1, 40), rng.randint(1, 40)), SAMPLINGS[name])
        script = jpeg_writer.random_script(numbers, len(SAMPLINGS[name]))
        at = rng.randrange(len(script))
        match rng.randrange(4):
            case 0:
                del script[at]
            case 1:
                script.insert(rng.randrange(len(script)), script[at])
            case 2:
                script = swapped(script, at, rng.randrange(len(script)))
            case _:
                script[at] = replace(script[at], low=rng.randint(0, 3))
        try:
            data = jpeg_writer.encode_progressive(file, script)
        except (KeyError, ValueError):  # nothing to write, e.g. a correction of a missing coefficient
            continue
        taken += check_hostile_file(data, rng)
    assert taken > 30  # most swaps of scans are legal


def test_scans_above_the_limit_are_left_to_pillow() -> None:
    file = jpeg_writer.random_file(np.random.default_rng(1), (40, 30), SAMPLINGS["gray"])
    data = jpeg_writer.encode_progressive(file, default_script())
    assert _core.decode_jpeg(data, max_scans=5)[1] == "limit_exceeded"
    assert _core.decode_jpeg(data, max_scans=6)[1] == "ok"
    one_bit_at_a_time = [BandScan((0,), 0, 0, 0, 0)] + [
        BandScan((0,), k, k, high, low) for k in range(1, 64) for high, low in ((0, 1), (1, 0))
    ]
    data = jpeg_writer.encode_progressive(file, one_bit_at_a_time)
    assert _core.decode_jpeg(data)[1] == "limit_exceeded"
    assert_equals_pillow(data, random.Random(1), 3, max_scans=MANY_SCANS)


# ---- damage ---------------------------------------------------------------------------------------------------------


def progressive_seeds() -> list[bytes]:
    numbers = np.random.default_rng(12)
    seeds = []
    for name in ("444", "420", "gray"):
        for interval, longest_run in ((0, 32767), (3, 2)):
            file = jpeg_writer.random_file(numbers, (45, 37), SAMPLINGS[name])
            file.restart_interval = interval
            script = jpeg_writer.random_script(numbers, len(SAMPLINGS[name]), highest_shift=2)
            seeds.append(jpeg_writer.encode_progressive(file, script, longest_run=longest_run))
    pixels = noisy_pixels(numbers, 52, 40)
    for quality, options in ((75, {"subsampling": 2}), (92, {"subsampling": 0}), (40, {"restart_marker_rows": 1})):
        seeds.append(written_by_pillow(pixels, quality=quality, progressive=True, **options))
    return seeds


def test_damaged_files_that_are_taken_have_pillows_pixels() -> None:
    check_mutants(progressive_seeds(), seed=20250, count=4000, share=100)
