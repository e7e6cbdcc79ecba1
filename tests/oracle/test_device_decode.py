"""Samples made by the kernels that decode on a device, run on the host, have the pixels of Pillow."""

from __future__ import annotations

import io
import math
import random
import re
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch
from cpp import build
from numpy.typing import NDArray
from PIL import Image, ImageOps

sys.path.insert(0, str(Path(__file__).parent))
import jpeg_writer
from corpora_files import corpora_root, manifest_rows
from jpeg_oracle import IN_ONE_SCAN, noisy_pixels, random_region, written_by_pillow

from fastload._images._source import resize_order_of_pillow
from fastload._native import cuda_kernels

Pixels = NDArray[np.uint8]
Region = tuple[int, int, int, int]

FILTERS = {"box": Image.Resampling.BOX, "bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC}
# The numbers of Interpolation, ResizeOrder and IndexLevel.
INTERPOLATIONS = {"box": 1, "bilinear": 2, "bicubic": 4}
ORDERS = ["horizontal_first", "pillow12_2", "pillow13"]
LEVELS = {"rows": 1, "dense": 2}
MADE, NO_INDEX = 0, 1


class Sample(NamedTuple):
    """The part `crop` of an image is resized to `to`, of which `kept` is the sample, mirrored or not.

    `box` is the part of the crop that is resized, in float32 as (left, top, right, bottom); None: all of it.
    """

    crop: Region
    to: tuple[int, int]
    kept: Region
    interpolation: str = "bilinear"
    is_mirrored: bool = False
    box: tuple[float, ...] | None = None

    def of_pillow(self, image: Image.Image) -> Pixels:
        left, top, width, height = self.crop
        part = image.crop((left, top, left + width, top + height))
        resized = part.resize(self.to, FILTERS[self.interpolation], self.box)
        left, top, width, height = self.kept
        kept = resized.crop((left, top, left + width, top + height))
        return np.asarray(ImageOps.mirror(kept) if self.is_mirrored else kept)


class Device:
    """The program that runs the kernels on the host."""

    def __init__(self, program: Path) -> None:
        self._child = subprocess.Popen([str(program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._order = ORDERS.index(resize_order_of_pillow())
        self._file = b""
        self._level = ""

    def make(self, file: bytes, level: str, sample: Sample) -> Pixels | None:
        """Returns the sample, uint8 [height, width, 3]; None for a file without an index."""
        if not self._ask(file, level, sample):
            return None
        width, height = sample.kept[2:]
        return np.frombuffer(self._read(3 * width * height), np.uint8).reshape(height, width, 3)

    def scan_form(self, file: bytes, level: str, sample: Sample) -> tuple[bytes, int]:
        """Returns the sample in scan form, and the bytes of scratch memory that it needs."""
        assert self._ask(file, level, sample, wants_scan=True)
        scratch, size = struct.unpack("<2i", self._read(8))
        return self._read(size), scratch

    def _ask(self, file: bytes, level: str, sample: Sample, *, wants_scan: bool = False) -> bool:
        """Returns whether the file has an index, and the answer follows."""
        is_new = (file, level) != (self._file, self._level)
        self._file, self._level = file, level
        numbers = (
            len(file) if is_new else 0, LEVELS[level], *sample.crop, *sample.to, *sample.kept,
            INTERPOLATIONS[sample.interpolation], self._order, sample.is_mirrored, wants_scan,
            *(sample.box or (0, 0, *sample.crop[2:])),
        )  # fmt: skip
        assert self._child.stdin is not None
        self._child.stdin.write(struct.pack("<16i4f", *numbers) + (file if is_new else b""))
        self._child.stdin.flush()
        answer: int = struct.unpack("<i", self._read(4))[0]
        assert answer in (MADE, NO_INDEX), (answer, level, sample)
        return answer == MADE

    def _read(self, size: int) -> bytes:
        assert self._child.stdout is not None
        data = self._child.stdout.read(size)
        assert len(data) == size, "the program has ended"
        return data

    def close(self) -> None:
        self._child.communicate()


@pytest.fixture(scope="module")
def device() -> Iterator[Device]:
    opened = Device(build.build("quick", "device_decode") / "device_decode")
    yield opened
    opened.close()


def any_sample(rng: random.Random, size: tuple[int, int]) -> Sample:
    crop = random_region(rng, *size)
    to = (rng.randint(1, 90), rng.randint(1, 90))
    if rng.random() < 0.2:
        to = crop[2:]
    box = None
    if rng.random() < 0.3:
        left, top = (rng.randrange(8 * side) / 8 for side in crop[2:])
        right, bottom = (
            rng.randrange(int(8 * a) + 1, 8 * side + 1) / 8 for a, side in zip((left, top), crop[2:], strict=True)
        )
        box = (left, top, right, bottom)
    return Sample(crop, to, random_region(rng, *to), rng.choice(list(FILTERS)), rng.random() < 0.5, box)


def training_sample(rng: random.Random, size: tuple[int, int]) -> Sample:
    """Draws a sample as RandomResizedCrop(224) and a flip do."""
    width, height = size
    area, ratio = width * height * rng.uniform(0.08, 1.0), math.exp(rng.uniform(math.log(3 / 4), math.log(4 / 3)))
    w, h = (min(width, round(math.sqrt(area * ratio))), min(height, round(math.sqrt(area / ratio))))
    crop = (rng.randint(0, width - w), rng.randint(0, height - h), w, h)
    return Sample(crop, (224, 224), (0, 0, 224, 224), is_mirrored=rng.random() < 0.5)


def evaluation_sample(size: tuple[int, int]) -> Sample:
    """Returns the sample of Resize(256) and CenterCrop(224)."""
    width, height = size
    to = (256, int(256 * height / width)) if width <= height else (int(256 * width / height), 256)
    return Sample((0, 0, width, height), to, (round((to[0] - 224) / 2), round((to[1] - 224) / 2), 224, 224))


def check(device: Device, file: bytes, samples: list[Sample], levels: tuple[str, ...] = ("rows", "dense")) -> None:
    image = Image.open(io.BytesIO(file)).convert("RGB")
    for level in levels:
        for sample in samples:
            made = device.make(file, level, sample)
            assert made is not None
            np.testing.assert_array_equal(made, sample.of_pillow(image), err_msg=f"{level} {sample}")


@pytest.mark.parametrize("name", IN_ONE_SCAN)
def test_any_window_of_any_coefficients_is_pillows(device: Device, name: str) -> None:
    rng = random.Random(name)
    for round_number in range(4):
        size = (rng.randint(30, 300), rng.randint(130, 300))
        numbers = np.random.default_rng(round_number)
        file = jpeg_writer.encode(jpeg_writer.random_file(numbers, size, IN_ONE_SCAN[name]))
        check(device, file, [any_sample(rng, size) for _ in range(20)])


@pytest.mark.parametrize("subsampling", ["4:4:4", "4:2:2", "4:2:0", "gray"])
def test_files_of_any_quality_have_pillows_pixels(device: Device, subsampling: str) -> None:
    rng = random.Random(subsampling)
    for quality in (1, 10, 50, 75, 90, 95, 100):
        size = (rng.randint(100, 500), rng.randint(130, 500))
        pixels = noisy_pixels(np.random.default_rng(quality), *size, share=rng.random())
        file = written_by_pillow(pixels, quality=quality, subsampling=subsampling)
        samples = [training_sample(rng, size), evaluation_sample(size)]
        check(device, file, samples + [any_sample(rng, size) for _ in range(5)])


def test_a_file_without_an_index_has_no_scan_form(device: Device) -> None:
    pixels = noisy_pixels(np.random.default_rng(1), 300, 200)
    for options in ({"progressive": 1}, {"restart_marker_rows": 1}):
        file = written_by_pillow(pixels, **options)
        assert device.make(file, "rows", Sample((0, 0, 300, 200), (40, 40), (0, 0, 40, 40))) is None


@pytest.mark.skipif(corpora_root() is None, reason="the corpora are not there")
@pytest.mark.parametrize("windows", [4, pytest.param(200, marks=pytest.mark.weekly)])
def test_all_files_of_the_corpora_that_have_an_index_have_pillows_pixels(device: Device, windows: int) -> None:
    rng = random.Random(windows)
    whole = Sample((0, 0, 1, 1), (1, 1), (0, 0, 1, 1))
    num_checked = 0
    for row in manifest_rows():
        if row.pillow_format not in ("JPEG", "MPO") or row.pillow_error != "-":
            continue
        file = row.path.read_bytes()
        if device.make(file, "rows", whole) is None:
            continue
        size = Image.open(io.BytesIO(file)).size
        samples = [training_sample(rng, size), evaluation_sample(size)]
        check(device, file, samples + [any_sample(rng, size) for _ in range(windows)])
        num_checked += 1
    assert num_checked > 100


SCAN_FORM, PIXEL_FORM = 1, 0


def wire_of(samples: list[tuple[int, bytes, int]], scratch_bytes: int) -> NDArray[np.uint8]:
    """Returns the wire of samples, each with its form, bytes and need of scratch memory: Note [decoded batch]."""
    entries, parts = np.zeros((len(samples), 4), np.uint32), b""
    used = 0
    for number, (form, data, scratch) in enumerate(samples):
        used = 0 if used + scratch > scratch_bytes else used
        padded = data + bytes(-len(data) % 16)
        entries[number] = form, len(samples) + len(parts) // 16, len(padded) // 16, used // 16
        parts, used = parts + padded, used + scratch
    return np.frombuffer(entries.tobytes() + parts, np.uint8)


@pytest.mark.gpu
@pytest.mark.parametrize("share", [1.0, 0.3])
@pytest.mark.parametrize("to", [(61, 47), (64, 48)])
def test_a_gpu_makes_pillows_pixels(device: Device, share: float, to: tuple[int, int]) -> None:
    """A batch of 300 samples, of which every fifth is in pixel form, in one run and in several.

    Some have more pieces than a block has threads. The pixels of a sample are 16-byte aligned in one of the sizes.
    """
    kernels = cuda_kernels()
    assert kernels is not None, "the CUDA kernels are not built"
    rng, samples, expected = random.Random(1), [], []
    for number in range(60):
        size = (700, 900) if number % 10 == 0 else (rng.randint(30, 300), rng.randint(130, 300))
        name = rng.choice(list(IN_ONE_SCAN))
        file = jpeg_writer.encode(jpeg_writer.random_file(np.random.default_rng(number), size, IN_ONE_SCAN[name]))
        image = Image.open(io.BytesIO(file)).convert("RGB")
        for place in range(5):
            sample = any_sample(rng, size)._replace(to=to, kept=(0, 0, *to))
            expected.append(sample.of_pillow(image))
            form = (PIXEL_FORM, expected[-1].tobytes(), 0)
            samples.append((SCAN_FORM, *device.scan_form(file, "dense", sample)) if place else form)
    num_places = [struct.unpack_from("<I", data, 8)[0] for form, data, _ in samples if form == SCAN_FORM]
    assert max(num_places) > 128
    scratch_bytes = max(max(need for *_, need in samples), int(share * sum(need for *_, need in samples)))
    host = torch.from_numpy(wire_of(samples, scratch_bytes).copy()).pin_memory()
    wire, scratch = host.cuda(), torch.empty(scratch_bytes, dtype=torch.uint8, device="cuda")
    pixels = torch.empty((len(samples), to[1], to[0], 3), dtype=torch.uint8, device="cuda")
    faults = torch.empty(len(samples), dtype=torch.int32, device="cuda")
    index, stream = torch.cuda.current_device(), torch.cuda.current_stream().cuda_stream
    assert kernels.load(index) == (0, "")
    assert kernels.decode(
        host_wire=host.data_ptr(), wire=wire.data_ptr(), scratch=scratch.data_ptr(), pixels=pixels.data_ptr(),
        faults=faults.data_ptr(), samples=len(samples), pixel_bytes=3 * to[0] * to[1], device=index, stream=stream,
    ) == (0, "")  # fmt: skip
    assert faults.tolist() == [0] * len(samples)
    np.testing.assert_array_equal(pixels.cpu().numpy(), np.stack(expected))


def test_doubles_are_for_the_weights_alone() -> None:
    folder = build.ROOT / "csrc" / "cuda" / "decode"
    with_doubles = [path.name for path in folder.iterdir() if re.search(r"\b(double|float)\b", path.read_text())]
    assert with_doubles == ["weights.h"]
