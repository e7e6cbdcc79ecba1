"""One module a contender, each with one class of its own name in CamelCase that derives from `_base.Contender`."""

from __future__ import annotations

import importlib

from benchmarks.contenders._base import Contender

REFERENCE = "torch_pil"
NAMES = ("torch_pil", "torch_pillow_simd", "torch_tensors", "dali", "ffcv", "fastload_loader")


def load_contender(name: str) -> Contender:
    """The contender of that name. Importing it never fails: what it needs is imported by `unavailable_because`."""
    module = importlib.import_module(f"benchmarks.contenders.{name}")
    contender: Contender = getattr(module, "".join(part.capitalize() for part in name.split("_")))()
    return contender
