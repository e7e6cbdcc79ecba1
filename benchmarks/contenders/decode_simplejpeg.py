"""simplejpeg, which brings its own libjpeg-turbo; its defaults are the exact IDCT and upsampling."""

from __future__ import annotations

from typing import Any

from benchmarks.contenders._decoder import DecoderContender


class DecodeSimplejpeg(DecoderContender):
    packages = ("numpy", "simplejpeg")

    def unavailable_because(self) -> str | None:
        try:
            import simplejpeg  # noqa: F401
        except ImportError as error:
            return f"{type(error).__name__}: {error}"
        return None

    def decode(self, data: bytes) -> Any:
        from simplejpeg import decode_jpeg

        return decode_jpeg(data, colorspace="RGB")
