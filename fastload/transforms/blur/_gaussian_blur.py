"""The native step of GaussianBlur. It computes in float32 like torch, and is used only if its results were the same."""

from __future__ import annotations

from typing import Any

import numpy as np

from fastload import _native
from fastload.transforms import _parameters, _recognize
from fastload.transforms._stage import RunsInPythonError, StageContext
from fastload.transforms.blur._blur_proof import BlurKernel, prove

_MAX_SIGMA = 64.0  # a table of torch.exp grows with its logarithm


def lower_gaussian_blur(transform: Any, context: StageContext) -> list[_native.Step]:
    if not _native.has_fast_blur():
        raise RunsInPythonError("torch's is faster without AVX2 or AVX-512")
    kernel = BlurKernel(context.family, *_kernel_size(transform.kernel_size), *_sigma(transform.sigma))
    size = context.size
    if size is None:
        raise RunsInPythonError(
            "the size of its image depends on the file",
            "after a CenterCrop, a RandomResizedCrop or a Resize to height and width",
        )
    if kernel.height // 2 >= size[0] or kernel.width // 2 >= size[1]:
        raise RunsInPythonError(
            f"a kernel of {kernel.height} x {kernel.width} reaches over more than an image of {size[0]} x {size[1]}"
        )
    replaced = _recognize.replaced_blur_function(context.family)
    if replaced is not None:
        raise RunsInPythonError(f"{replaced} of torchvision's functions was replaced")
    return [prove(kernel, size)]


def _kernel_size(value: object) -> tuple[int, int]:
    """Returns (width, height), as torchvision stores it."""
    if isinstance(value, (list, tuple)) and len(value) == 2 and all(map(_is_kernel_side, value)):
        return value[0], value[1]
    raise RunsInPythonError(f"kernel_size {value!r}", f"odd ints up to {_native.MAX_BLUR_SIZE}")


def _is_kernel_side(value: object) -> bool:
    return type(value) is int and 1 <= value <= _native.MAX_BLUR_SIZE and value % 2 == 1


def _sigma(value: object) -> tuple[float, float]:
    """Returns the float32 bounds between which torch draws sigma."""
    low, high = (float(np.float32(bound)) for bound in _parameters.interval(value, "sigma"))
    if low <= 0 or high > _MAX_SIGMA:
        raise RunsInPythonError(f"sigma {value!r}", f"more than 0, up to {_MAX_SIGMA:g}")
    return low, high
