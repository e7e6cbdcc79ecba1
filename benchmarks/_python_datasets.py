"""Data sets written in Python as users write them, for `benchmarks.python_path`: one for each way to spend time."""

from __future__ import annotations

import io
import random
import re
import time
import zlib
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch.utils.data import Dataset


class Sleeping(Dataset[Any]):
    """Waits 5 ms per sample, as for a row of a database, and makes a vector of 256 floats from it."""

    def __init__(self, num_samples: int) -> None:
        self.num_samples = num_samples

    def __len__(self) -> int:
        return self.num_samples

    def __getitem__(self, index: int) -> Any:
        time.sleep(0.005)
        return torch.full((256,), float(index)), index


class Spectrograms(Dataset[Any]):
    """Clips of 4 s at 16 kHz in a mapped array of int16, as log-mel spectrograms, in NumPy."""

    SECONDS = 4
    RATE = 16000
    NUM_CLIPS = 64
    _FRAME = 400
    _HOP = 160
    _NUM_BANDS = 80

    def __init__(self, path: Path, num_samples: int) -> None:
        self.clips: NDArray[np.int16] = np.load(path, mmap_mode="r")
        self.num_samples = num_samples
        self.window = np.hanning(self._FRAME).astype(np.float32)
        self.bands = _triangles(self._FRAME // 2 + 1, self._NUM_BANDS)

    @classmethod
    def make_file(cls, path: Path) -> None:
        generator = np.random.default_rng(1)
        noise = generator.normal(0, 3000, (cls.NUM_CLIPS, cls.SECONDS * cls.RATE))
        np.save(path, noise.clip(-32768, 32767).astype(np.int16))

    def __len__(self) -> int:
        return self.num_samples

    def __getitem__(self, index: int) -> Any:
        samples = self.clips[index % len(self.clips)].astype(np.float32) / 32768
        samples = (samples - samples.mean()) / samples.std()
        frames = np.lib.stride_tricks.sliding_window_view(samples, self._FRAME)[:: self._HOP]
        power = np.abs(np.fft.rfft(frames * self.window, axis=1)).astype(np.float32) ** 2
        return torch.from_numpy(np.log(power @ self.bands + np.float32(1e-6))), index


def _triangles(num_bins: int, num_bands: int) -> NDArray[np.float32]:
    """Returns overlapping triangular bands, evenly spaced on the mel scale, as a matrix [bins, bands]."""
    nyquist_mel = 2595 * np.log10(1 + 8000 / 700)
    edges = 700 * (10 ** (np.linspace(0, nyquist_mel, num_bands + 2) / 2595) - 1) / 8000 * (num_bins - 1)
    bins = np.arange(num_bins)[:, None]
    rising = (bins - edges[:-2]) / (edges[1:-1] - edges[:-2])
    falling = (edges[2:] - bins) / (edges[2:] - edges[1:-1])
    return np.clip(np.minimum(rising, falling), 0, None).astype(np.float32)


def jpeg_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.suffix.lower() in {".jpg", ".jpeg"})


class Photographs(Dataset[Any]):
    """JPEG files, decoded, converted and resized by Pillow in the data set's own code."""

    def __init__(self, folder: Path, num_samples: int) -> None:
        self.paths = jpeg_files(folder)
        self.num_samples = num_samples

    def __len__(self) -> int:
        return self.num_samples

    def __getitem__(self, index: int) -> Any:
        data = self.paths[index % len(self.paths)].read_bytes()
        image = Image.open(io.BytesIO(data)).convert("RGB").resize((224, 224), Image.Resampling.BILINEAR)
        pixels = torch.from_numpy(np.asarray(image).copy())
        return pixels.permute(2, 0, 1), index


class Tokens(Dataset[Any]):
    """Sentences, split into words and pieces of words by a loop in Python."""

    LENGTH = 128

    def __init__(self, num_samples: int) -> None:
        self.num_samples = num_samples
        letters = "abcdefghijklmnopqrstuvwxyz"
        generator = random.Random(1)
        words = ["".join(generator.choices(letters, k=generator.randint(2, 11))) for _ in range(5000)]
        pieces = sorted({word[:cut] for word in words for cut in (2, 3, 4)} | set(letters))
        self.vocabulary = {piece: number for number, piece in enumerate(pieces, 1)}
        self.sentences = [" ".join(generator.choices(words, k=60)) + "." for _ in range(512)]

    def __len__(self) -> int:
        return self.num_samples

    @cached_property
    def _word(self) -> re.Pattern[str]:
        return re.compile(r"\w+|[^\w\s]")

    def __getitem__(self, index: int) -> Any:
        words = self._word.findall(self.sentences[index % len(self.sentences)])
        numbers = [number for word in words for number in self._numbers_of(word)][: self.LENGTH]
        return torch.tensor(numbers + [0] * (self.LENGTH - len(numbers))), index

    def _numbers_of(self, word: str) -> Sequence[int]:
        """Returns the numbers of the longest known pieces from the left; 0 for an unknown character."""
        numbers, begin = [], 0
        while begin < len(word):
            end = next((end for end in range(len(word), begin, -1) if word[begin:end] in self.vocabulary), begin)
            numbers.append(self.vocabulary.get(word[begin:end], 0))
            begin = max(end, begin + 1)
        return numbers


class Mixed(Dataset[Any]):
    """Computes about a millisecond per sample: a share of it in a loop of Python, the rest in zlib.

    Args:
        share: the loop's share, in percent.
    """

    _LOOPS = 320  # in 10 microseconds or so
    _BYTES = 450

    def __init__(self, num_samples: int, share: int) -> None:
        self.num_samples = num_samples
        self.share = share
        self.data = random.Random(1).randbytes(self._BYTES * (100 - share))

    def __len__(self) -> int:
        return self.num_samples

    def __getitem__(self, index: int) -> Any:
        total = len(zlib.compress(self.data, 1))
        for number in range(self._LOOPS * self.share):
            total += number & index
        return torch.tensor(total), index
