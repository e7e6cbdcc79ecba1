"""torchvision.io.decode_jpeg. Its planar pixels are handed over unchanged, seen as [height, width, 3]."""

from __future__ import annotations

from typing import Any

import torch

from benchmarks._torchvision import compiled_operators_error
from benchmarks.contenders._decoder import DecoderContender


class DecodeTorchvision(DecoderContender):
    packages = ("torch", "torchvision")

    def unavailable_because(self) -> str | None:
        reason = compiled_operators_error("image.so")
        return None if reason is None else f"torchvision's image.so does not load: {reason}"

    def decode(self, data: bytes) -> Any:
        from torchvision.io import ImageReadMode, decode_jpeg

        encoded = torch.frombuffer(data, dtype=torch.uint8)
        return decode_jpeg(encoded, mode=ImageReadMode.RGB).permute(1, 2, 0).numpy()
