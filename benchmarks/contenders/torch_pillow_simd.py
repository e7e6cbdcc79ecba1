"""The reference's code with pillow-simd instead of Pillow.

The harness starts this child with pillow-simd's folder in front of its path (`benchmarks._pillow_simd`).
"""

from __future__ import annotations

from benchmarks.contenders.torch_pil import TorchPil


class TorchPillowSimd(TorchPil):
    packages = ("torch", "torchvision", "pillow-simd", "numpy")

    def unavailable_because(self) -> str | None:
        import PIL

        if ".post" not in PIL.__version__:
            return f"the child found Pillow {PIL.__version__}, not pillow-simd"
        return super().unavailable_because()
