"""Decoding with an index of the file: pixels, status and fault are the same as without, whatever the index says."""

from __future__ import annotations

import io
import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

sys.path.insert(0, str(Path(__file__).parent))
import jpeg_writer
from corpora_files import corpora_root, manifest_rows
from jpeg_mutants import mutated
from jpeg_oracle import (
    IN_ONE_SCAN,
    START_OF_JPEG,
    crop,
    frame_size,
    picture,
    random_region,
    written_by_pillow,
)

_core = pytest.importorskip("fastload._core")

Region = tuple[int, int, int, int]
HEAD_BYTES = 15


def decode_with_index(data: bytes, region: Region, record: bytes, is_dense: bool) -> tuple[Any, ...]:
    return _core.decode_jpeg(data, region, record=record, is_dense=is_dense)


def compare(data: bytes, region: Region, record: bytes, is_dense: bool) -> tuple[bytes | None, bool, bool]:
    """Returns the new index, whether the old one was wrong, and whether the region was decoded; compares the rest."""
    pixels, status, detail, *_ = _core.decode_jpeg(data, region)
    indexed, indexed_status, indexed_detail, _, known, was_wrong = decode_with_index(data, region, record, is_dense)
    assert (indexed_status, indexed_detail) == (status, detail), region
    if status == "ok":
        np.testing.assert_array_equal(indexed, pixels, err_msg=str(region))
    return known, was_wrong, status == "ok"


def walk_windows(data: bytes, size: tuple[int, int], rng: random.Random, windows: int, is_dense: bool) -> bytes:
    """Decodes random regions in succession, each with the index that the ones before have left."""
    record = b""
    for _ in range(windows):
        known, was_wrong, is_ok = compare(data, random_region(rng, *size), record, is_dense)
        assert not was_wrong
        if known is not None and is_ok and len(known) > HEAD_BYTES:
            record = known
    return record


def complete_record(data: bytes, size: tuple[int, int], is_dense: bool) -> bytes:
    return bytes(decode_with_index(data, (0, 0, *size), b"", is_dense)[4])


@pytest.mark.parametrize("is_dense", [True, False])
@pytest.mark.parametrize("name", IN_ONE_SCAN)
def test_any_sequence_of_windows_has_the_pixels_without_an_index(name: str, is_dense: bool) -> None:
    rng = random.Random(name)
    factors = IN_ONE_SCAN[name]
    for round_number in range(3):
        width, height = rng.randint(130, 420), rng.randint(130, 300)
        numbers = np.random.default_rng(round_number)
        data = jpeg_writer.encode(jpeg_writer.random_file(numbers, (width, height), factors))
        assert len(walk_windows(data, (width, height), rng, 25, is_dense)) > HEAD_BYTES


@pytest.mark.parametrize("is_dense", [True, False])
@pytest.mark.parametrize("subsampling", [0, 1, 2])
@pytest.mark.parametrize("quality", [30, 92])
def test_photographs_have_the_pixels_without_an_index(quality: int, subsampling: int, is_dense: bool) -> None:
    rng = random.Random(quality)
    for seed in range(2):
        data = written_by_pillow(picture(seed, 500, 375), quality=quality, subsampling=subsampling)
        assert len(walk_windows(data, (500, 375), rng, 40, is_dense)) > HEAD_BYTES


@pytest.mark.skipif(corpora_root() is None, reason="no corpora: set FASTLOAD_CORPORA")
@pytest.mark.parametrize("is_dense", [True, False])
def test_every_corpus_file_has_the_verdict_without_an_index(is_dense: bool) -> None:
    rng = random.Random(5)
    indexed = 0
    for row in manifest_rows():
        data = row.path.read_bytes()
        width, height = frame_size(data) if data.startswith(START_OF_JPEG) else (0, 0)
        if not 0 < width * height < 10_000_000:
            continue
        try:
            record = walk_windows(data, (width, height), rng, 6, is_dense)
        except ValueError:
            continue  # another frame header counted
        indexed += len(record) > HEAD_BYTES
    assert indexed > 50


def test_damaged_files_have_the_fault_without_an_index() -> None:
    """One fault at a random place, in the file itself or in one whose index was made before or after the fault."""
    rng = random.Random(7)
    whole = written_by_pillow(picture(1, 300, 260), quality=85)
    faults = taken = 0
    for _ in range(400):
        data = mutated(whole, rng)
        if not data.startswith(START_OF_JPEG):
            continue
        record = b""
        for _ in range(4):
            region = random_region(rng, 300, 260)
            try:
                known, was_wrong, is_ok = compare(data, region, record, True)
            except ValueError:
                break  # another frame header counted
            assert not was_wrong
            faults += not is_ok
            taken += is_ok
            if known is not None and is_ok and len(known) > HEAD_BYTES:
                record = known
    assert faults > 200
    assert taken > 200


@pytest.mark.parametrize("is_dense", [True, False])
def test_an_index_of_another_file_of_the_same_grid_is_noticed(is_dense: bool) -> None:
    """The size of its data shows it; if that is right, the checkpoints do."""
    rng = random.Random(11)
    files = [written_by_pillow(picture(seed, 400, 300), quality=90) for seed in range(6)]
    records = [complete_record(data, (400, 300), is_dense) for data in files]
    noticed = tried = refused = 0
    for data, own in zip(files, records, strict=True):
        for record in records:
            for changed in (record, record[:3] + own[3:7] + record[7:]):
                for _ in range(10):
                    region = random_region(rng, 400, 300)
                    try:
                        _, was_wrong, is_ok = compare(data, region, changed, is_dense)
                    except ValueError:
                        refused += 1  # its positions exceed so little data
                        continue
                    assert is_ok
                    if region[1] + region[3] > 16:  # in the first row of MCUs no checkpoint may be needed
                        tried += record != own
                        noticed += was_wrong
    assert noticed == tried
    assert tried > 300
    assert refused > 50


@pytest.mark.parametrize("is_dense", [True, False])
def test_records_of_any_bytes_lead_to_no_other_verdict(is_dense: bool) -> None:
    """Their contents are decoded or refused; only pixels could be wrong, and the sum of such a record is wrong, too."""
    rng = random.Random(19)
    size = (260, 180)
    data = written_by_pillow(picture(3, *size), quality=80)
    record = complete_record(data, size, is_dense)
    taken = refused = 0
    for _ in range(3000):
        changed = bytearray(record)
        for _ in range(rng.choice([1, 1, 2, 8])):
            changed[rng.randrange(len(changed))] = rng.randrange(256)
        if rng.random() < 0.2:
            del changed[rng.randrange(len(changed)) :]
        try:
            status = decode_with_index(data, random_region(rng, *size), bytes(changed), is_dense)[1]
        except ValueError:
            refused += 1
            continue
        assert status == "ok"
        taken += 1
    assert taken > 100
    assert refused > 100


def test_files_without_an_index() -> None:
    pixels = picture(2, 200, 160)
    whole = (0, 0, 200, 160)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "JPEG", progressive=True)
    assert decode_with_index(buffer.getvalue(), whole, b"", True)[4] is None
    restarts = written_by_pillow(pixels, restart_marker_rows=2)
    assert decode_with_index(restarts, whole, b"", True)[4] is None
    low = written_by_pillow(pixels[:40], subsampling=2)
    assert decode_with_index(low, (0, 0, 200, 40), b"", True)[4] is None
    assert decode_with_index(written_by_pillow(pixels), whole, b"", True)[4] is not None


def test_the_size_of_records() -> None:
    """For photographs of ImageNet's kind it is less than a hundredth of the file, with rows alone a third of that."""
    sizes = {True: 0, False: 0}
    files = 0
    for seed in range(4):
        data = written_by_pillow(picture(seed, 500, 375), quality=96, subsampling=2)
        files += len(data)
        for is_dense in sizes:
            sizes[is_dense] += len(complete_record(data, (500, 375), is_dense))
    assert sizes[True] < files / 100
    assert sizes[False] < sizes[True] / 2


def test_an_index_grows_only_where_it_gains_an_eighth_of_the_rows() -> None:
    data = written_by_pillow(picture(5, 320, 320), quality=90, subsampling=0)  # 40 rows of MCUs
    first = decode_with_index(data, (0, 0, 320, 80), b"", True)[4]
    assert int.from_bytes(first[11:15], "little") == 10
    little_more = decode_with_index(data, (0, 0, 320, 8 * 14), first, True)[4]
    assert little_more == first
    more = decode_with_index(data, (0, 0, 320, 8 * 15), first, True)[4]
    assert int.from_bytes(more[11:15], "little") == 15
    assert crop(_core.decode_jpeg(data)[0], (0, 0, 9, 9)).shape == (9, 9, 3)
