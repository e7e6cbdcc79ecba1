"""One module a contender, each with one class of its own name in CamelCase that derives from `_base.Contender`."""

from __future__ import annotations

import importlib
from collections.abc import Sequence

from benchmarks.contenders._base import Contender

REFERENCE = "torch_pil"
DECODE_REFERENCE = "decode_pillow"

FASTLOADS = ("fastload_loader", "fastload_avx2", "fastload_scalar")
LOADERS = ("torch_pil", "torch_pillow_simd", "torch_tensors", "dali", "ffcv", *FASTLOADS)

DECODE_FASTLOADS = ("decode_fastload", "decode_fastload_avx2", "decode_fastload_scalar")
DECODERS = ("decode_pillow", "decode_simplejpeg", "decode_torchvision", *DECODE_FASTLOADS)

NAMES = LOADERS + DECODERS

KERNEL_CHOICES = (FASTLOADS, DECODE_FASTLOADS)
"""Contenders that differ in the kernels alone, in the order in which one of several with the same kernels is kept."""


def reference_of(mode: str) -> str:
    """The contender whose bytes are right in that mode."""
    return DECODE_REFERENCE if mode == "decode" else REFERENCE


def contenders_of(mode: str) -> Sequence[str]:
    """Those that can do what the mode asks for."""
    return DECODERS if mode == "decode" else LOADERS


def load_contender(name: str) -> Contender:
    """The contender of that name. Importing it never fails: what it needs is imported by `unavailable_because`."""
    module = importlib.import_module(f"benchmarks.contenders.{name}")
    contender: Contender = getattr(module, "".join(part.capitalize() for part in name.split("_")))()
    return contender
