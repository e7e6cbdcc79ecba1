"""The benchmark's sample set: its promises about count, mix, distinctness and determinism."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from PIL import Image

from benchmarks import _sample_set

COUNT = 80


@pytest.fixture(scope="module")
def sample_set(tmp_path_factory: pytest.TempPathFactory) -> _sample_set.SampleSet:
    return _sample_set.ensure_sample_set(tmp_path_factory.mktemp("set") / "images", COUNT)


def digests(root: Path) -> dict[str, str]:
    return {str(p.relative_to(root)): hashlib.sha256(p.read_bytes()).hexdigest() for p in root.glob("*/*.jpg")}


def markers(data: bytes) -> set[int]:
    return {data[i + 1] for i in range(len(data) - 1) if data[i] == 0xFF and data[i + 1] not in (0x00, 0xFF)}


def test_every_file_is_there_and_distinct(sample_set: _sample_set.SampleSet) -> None:
    found = digests(sample_set.root)
    assert len(found) == COUNT
    assert len(set(found.values())) == COUNT
    assert len({Path(name).parent for name in found}) == len(list(_sample_set.PHOTO_FOLDER.glob("*.jpg")))


def test_mix_is_that_of_imagenet(sample_set: _sample_set.SampleSet) -> None:
    mix = _sample_set.measure_mix(sorted(sample_set.root.glob("*/*.jpg")))
    assert mix == sample_set.mix
    assert mix.bits_per_pixel == pytest.approx(_sample_set.MEAN_BITS_PER_PIXEL, rel=0.05)
    for sampling, share in {"4:4:4": 0.76, "4:2:0": 0.20, "4:2:2": 0.015, "grey": 0.025}.items():
        assert mix.sampling_shares[sampling] == pytest.approx(share, abs=1 / COUNT), sampling
    assert mix.size_shares["500x375"] == pytest.approx(0.45, abs=1 / COUNT)
    assert mix.size_shares["375x500"] == pytest.approx(0.15, abs=1 / COUNT)


def test_files_are_baseline_without_restart_markers(sample_set: _sample_set.SampleSet) -> None:
    start_of_frame_baseline, define_restart_interval = 0xC0, 0xDD
    for path in sample_set.root.glob("*/*.jpg"):
        found = markers(path.read_bytes())
        assert start_of_frame_baseline in found
        assert define_restart_interval not in found
        assert not found & set(range(0xD0, 0xD8))


def test_huffman_tables_are_optimised(sample_set: _sample_set.SampleSet, tmp_path: Path) -> None:
    path = next(sample_set.root.glob("*/*.jpg"))
    with Image.open(path) as image:
        image.save(tmp_path / "default_tables.jpg", quality="keep", optimize=False)
    assert path.stat().st_size < (tmp_path / "default_tables.jpg").stat().st_size


def test_same_parameters_give_the_same_files(sample_set: _sample_set.SampleSet, tmp_path: Path) -> None:
    again = _sample_set.ensure_sample_set(tmp_path / "again", COUNT)
    assert not again.was_reused
    assert digests(again.root) == digests(sample_set.root)


def test_complete_set_is_reused(sample_set: _sample_set.SampleSet) -> None:
    before = digests(sample_set.root)
    again = _sample_set.ensure_sample_set(sample_set.root, COUNT)
    assert again.was_reused
    assert again.mix == sample_set.mix
    assert digests(sample_set.root) == before


def test_set_with_a_missing_file_is_made_again(tmp_path: Path) -> None:
    first = _sample_set.ensure_sample_set(tmp_path / "set", 8)
    next(first.root.glob("*/*.jpg")).unlink()
    second = _sample_set.ensure_sample_set(tmp_path / "set", 8)
    assert not second.was_reused
    assert len(digests(second.root)) == 8
    assert [p.name for p in tmp_path.iterdir()] == ["set"]


def test_other_seed_replaces_the_set_with_other_files(tmp_path: Path) -> None:
    first = digests(_sample_set.ensure_sample_set(tmp_path / "set", 8, seed=0).root)
    second = digests(_sample_set.ensure_sample_set(tmp_path / "set", 8, seed=1).root)
    assert not set(first.values()) & set(second.values())


def test_photographs_are_small_and_each_has_its_licence() -> None:
    photos = sorted(_sample_set.PHOTO_FOLDER.glob("*.jpg"))
    licences = (_sample_set.PHOTO_FOLDER / "LICENSES.md").read_text()
    assert 8 <= len(photos) <= 14
    assert sum(p.stat().st_size for p in photos) <= 2_000_000
    for photo in photos:
        row = next((line for line in licences.splitlines() if line.startswith(f"| {photo.name} |")), "")
        assert any(word in row for word in ("CC0-1.0", "CC-BY-4.0", "public domain")), photo.name


def test_manifest_names_its_parameters(sample_set: _sample_set.SampleSet) -> None:
    manifest = json.loads((sample_set.root / _sample_set.MANIFEST_NAME).read_text())
    assert manifest["count"] == COUNT
    assert len(manifest["parameters"]) == 64


@pytest.fixture(scope="module")
def progressive_set(tmp_path_factory: pytest.TempPathFactory) -> _sample_set.SampleSet:
    return _sample_set.ensure_sample_set(tmp_path_factory.mktemp("set") / "progressive", 12, kind="progressive")


def test_progressive_files_are_progressive(progressive_set: _sample_set.SampleSet) -> None:
    start_of_frame_progressive = 0xC2
    paths = list(progressive_set.root.glob("*/*.jpg"))
    assert len(paths) == 12
    for path in paths:
        assert start_of_frame_progressive in markers(path.read_bytes())
        with Image.open(path) as image:
            assert image.info["progressive"]


def test_progressive_files_have_the_rates_of_the_sequential_ones(progressive_set: _sample_set.SampleSet) -> None:
    assert progressive_set.mix.bits_per_pixel == pytest.approx(_sample_set.MEAN_BITS_PER_PIXEL, rel=0.1)


def test_large_photographs_have_2_to_12_megapixels_halved_chroma_and_detail(tmp_path: Path) -> None:
    mix = _sample_set.ensure_sample_set(tmp_path / "photos", 3, kind="photos").mix
    sizes = [tuple(map(int, size.split("x"))) for size in mix.size_shares]
    assert all(2e6 <= width * height <= 12e6 for width, height in sizes)
    assert {width * height for width, height in _sample_set._LARGE_SIZE_SHARES} >= {4000 * 3000, 1920 * 1080}
    assert mix.sampling_shares == {"4:2:0": 1.0}
    # Cameras' files of these qualities; smooth pictures would have less than one.
    assert 1.4 < mix.bits_per_pixel < 3.5


def test_large_photographs_are_the_same_again_and_all_distinct(tmp_path: Path) -> None:
    first = digests(_sample_set.ensure_sample_set(tmp_path / "first", 2, kind="photos").root)
    assert first == digests(_sample_set.ensure_sample_set(tmp_path / "second", 2, kind="photos").root)
    assert len(set(first.values())) == 2
