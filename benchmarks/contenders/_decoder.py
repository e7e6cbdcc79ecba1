"""The common part of the contenders in the "decode" rows: files in memory, decoded one after the other."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from benchmarks._protocol import LoaderSettings
from benchmarks.contenders._base import Batches, Contender, list_samples


class DecoderContender(Contender):
    def open(self, settings: LoaderSettings) -> Batches:
        # torch warns of views of read-only memory; nothing writes here.
        warnings.filterwarnings("ignore", message="The given .* is not writable")
        return DecodedFiles(settings, self.decode)

    @abstractmethod
    def decode(self, data: bytes) -> Any:
        """Returns the file's pixels as an array: uint8 [height, width, 3], RGB."""


class DecodedFiles:
    """Iterates over (pixels, label) as batches of one; the files are read beforehand."""

    def __init__(self, settings: LoaderSettings, decode: Callable[[bytes], Any]) -> None:
        self._samples = [(Path(path).read_bytes(), torch.tensor([label])) for path, label in list_samples(settings)]
        self._decode = decode

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        for data, label in self._samples:
            yield torch.from_numpy(self._decode(data))[None], label
