"""One module per contender, each with one class of its own name in CamelCase that derives from `_base.Contender`."""

from __future__ import annotations

import importlib
from collections.abc import Sequence

from benchmarks.contenders._base import Contender

REFERENCE = "torch_pil"
DECODE_REFERENCE = "decode_pillow"

FASTLOADS = ("fastload_loader", "fastload_avx2", "fastload_scalar")
CACHES = ("fastload_first_epoch", "fastload_coefficients", "fastload_pixels")
OTHERS = ("torch_pillow_simd", "torch_tensors", "dali", "ffcv", "ffcv_raw")
LOADERS = ("torch_pil", *OTHERS, CACHES[0], *FASTLOADS, *CACHES[1:])

DECODE_FASTLOADS = ("decode_fastload", "decode_fastload_avx2", "decode_fastload_scalar")
DECODERS = ("decode_pillow", "decode_simplejpeg", "decode_torchvision", *DECODE_FASTLOADS)

NAMES = LOADERS + DECODERS
OURS = FASTLOADS + CACHES + DECODE_FASTLOADS

KERNEL_CHOICES = (FASTLOADS, DECODE_FASTLOADS)
"""Contenders that differ in the kernels alone, in the order in which one of several with the same kernels is kept."""


def reference_of(mode: str) -> str:
    """Returns the contender whose bytes are right in that mode."""
    return DECODE_REFERENCE if mode == "decode" else REFERENCE


def contenders_of(mode: str) -> Sequence[str]:
    """Returns the contenders that support the mode."""
    if mode == "decode":
        return DECODERS
    # Training crops at random first, so the only image to keep is the whole one.
    return [name for name in LOADERS if mode == "eval" or name != "fastload_pixels"]


def load_contender(name: str) -> Contender:
    """Returns the contender of that name. Importing it never fails: `unavailable_because` imports its packages."""
    module = importlib.import_module(f"benchmarks.contenders.{name}")
    contender: Contender = getattr(module, "".join(part.capitalize() for part in name.split("_")))()
    return contender
