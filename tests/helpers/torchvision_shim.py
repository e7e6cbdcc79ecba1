"""Importing this makes torchvision importable, also one whose operators are built for another kind of torch.

torchvision from a package index is built for CUDA torch. On a CPU torch its library cannot be loaded, and its Python
part then fails on two operators that nothing in these tests uses; declaring them is enough.
"""

from __future__ import annotations

import sys

import torch

try:
    import torchvision
except RuntimeError:
    for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
        del sys.modules[name]
    for operator in ("nms", "qnms"):
        torch.library.define(f"torchvision::{operator}", "(Tensor x) -> Tensor")
    import torchvision  # noqa: F401
