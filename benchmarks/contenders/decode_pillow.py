"""Pillow's decoder, ending in an array as the others do: the reference of the "decode" rows."""

from __future__ import annotations

import io
from typing import Any

from benchmarks.contenders._decoder import DecoderContender


class DecodePillow(DecoderContender):
    packages = ("numpy", "pillow")

    def unavailable_because(self) -> str | None:
        try:
            import PIL  # noqa: F401
        except ImportError as error:
            return f"{type(error).__name__}: {error}"
        return None

    def details(self) -> dict[str, str]:
        from PIL import features

        return {"libjpeg-turbo of Pillow": str(features.version("libjpeg_turbo"))}

    def decode(self, data: bytes) -> Any:
        import numpy as np
        from PIL import Image

        return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))
