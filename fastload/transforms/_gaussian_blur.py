"""The native step of GaussianBlur, used after a proof that it equals torch's, to the last bit.

The proof is for one kernel, range of sigma and size of image. torch's convolution comes from a library that chooses its
algorithm by the processor and by sizes, and its exp comes from another library. No documentation says how they round.
So torch is tried when a loader is made, and its results are compared with those that native code makes.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fastload import _native
from fastload._pillow._pillow import rgb_image
from fastload._process._exit import exit_state
from fastload._process._forked_cache import forked_cache
from fastload._process._interrupts import equal_arrays
from fastload.transforms import _parameters, _recognize
from fastload.transforms._stage import Family, RunsInPythonError, Size, StageContext

_MAX_SIGMA = 64.0  # a table of torch.exp grows with its logarithm
# From here on, exp(-q^2 / 2) is 0 in float32.
_LARGEST_Q = 14.5
_EXP_CHUNK = 1 << 18
_SUM_LANES = (16, 8, 4)
_PROBED_WEIGHTS = 256
_PROBED_IMAGES = 6


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
    return [_proved(kernel, size)]


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


@dataclass(frozen=True)
class BlurKernel:
    """The parameters that decide a blur's weights, with the float32 bounds between which torch draws sigma."""

    family: Family
    width: int
    height: int
    sigma_from: float
    sigma_to: float


def _proved(kernel: BlurKernel, size: Size) -> _native.GaussianBlur:
    """Returns the native step of a blur of images of `size`, or raises RunsInPythonError if torch makes other bytes.

    The proof takes 0.1 s once in a process; for v1, the first range of sigma takes 0.7 s more.
    """
    settings = _settings()
    step = _step_with_torch_weights(kernel, settings)
    if step is None:
        raise RunsInPythonError(f"torch {torch.__version__} computes its weights in a way that is not known here")
    if not _adds_as_torch(kernel, size, settings):
        raise RunsInPythonError(f"torch {torch.__version__} adds up pixels in an order that is not known here")
    return step


def _settings() -> tuple[object, ...]:
    """Returns the settings that can change how torch or native code compute, from one loader to the next."""
    conv = getattr(torch.backends.mkldnn, "conv", None)
    return (
        _native.active_kernel_table(),
        torch.mm(torch.ones(1, 1), torch.ones(1, 1)).dtype,  # autocast
        bool((torch.tensor(1e-40) * 1).item()),  # False if denormal numbers are flushed to zero
        torch.backends.mkldnn.enabled,
        getattr(conv, "fp32_precision", None),
        torch.get_float32_matmul_precision(),
        torch.are_deterministic_algorithms_enabled(),
    )


@functools.lru_cache(maxsize=64)
def _step_with_torch_weights(kernel: BlurKernel, settings: tuple[object, ...]) -> _native.GaussianBlur | None:
    """Returns the step, or None if native weights differ from torch's."""
    lanes = _lanes_of_torch(kernel, settings)
    return None if lanes is None else _step_with_lanes(kernel, lanes)


@forked_cache
def _lanes_of_torch(kernel: BlurKernel, settings: tuple[object, ...]) -> int | None:
    """Returns the number of lanes in which native weights are torch's; None: there is none."""
    sigmas = _sigmas(kernel, _PROBED_WEIGHTS)
    for lanes in _SUM_LANES:
        step = _step_with_lanes(kernel, lanes)
        sizes = {kernel.width, kernel.height}
        if step is not None and all(_weights_are_torchs(step, size, sigmas) for size in sizes):
            return lanes
    return None


def _step_with_lanes(kernel: BlurKernel, lanes: int) -> _native.GaussianBlur | None:
    """Returns the step; None if its table cannot hold torch's numbers."""
    table = None
    if kernel.family == "v1":
        table = torch_gaussian(math.floor(-math.log2(kernel.sigma_to)))
        if table is None:
            return None
    return _native.GaussianBlur(
        sigma=(kernel.sigma_from, kernel.sigma_to),
        columns=_positions(kernel.family, kernel.width),
        rows=_positions(kernel.family, kernel.height),
        family=kernel.family,
        sum_lanes=lanes,
        torch_gaussian=table,
    )


def _sigmas(kernel: BlurKernel, count: int) -> NDArray[np.float32]:
    """Returns both bounds of sigma, and numbers between them."""
    inner = np.random.default_rng(0).uniform(kernel.sigma_from, kernel.sigma_to, count - 2)
    return np.array([kernel.sigma_from, kernel.sigma_to, *inner], np.float32)


def _positions(family: Family, size: int) -> list[float]:
    """Returns the positions of torchvision's weights, by its own arithmetic."""
    end = (size - 1) * 0.5 if family == "v1" else (size - 1) / (2.0 * math.sqrt(2.0))
    positions: list[float] = torch.linspace(-end, end, steps=size, dtype=torch.float32, device="cpu").tolist()
    return positions


def _weights_are_torchs(step: _native.GaussianBlur, size: int, sigmas: NDArray[np.float32]) -> bool:
    ours = _native.gaussian_weights(step, _positions(step.family, size), sigmas)
    compute = _recognize.gaussian_functions(step.family)._get_gaussian_kernel1d
    device = torch.device("cpu")
    return all(
        equal_arrays(compute(size, float(sigma), torch.float32, device).numpy(), weights)
        for sigma, weights in zip(sigmas, ours, strict=True)
    )


@functools.cache
def torch_gaussian(first_octave: int) -> _native.TorchGaussian | None:
    """Returns torch.exp(-q^2 / 2) for all float32 q from 2^first_octave on; None if the table cannot hold it.

    A table of 2 MB for a sigma up to 2.
    """
    corrections = _gaussian_corrections(first_octave)
    return None if corrections is None else _native.TorchGaussian(_smallest_q(first_octave), _LARGEST_Q, corrections)


def _smallest_q(first_octave: int) -> float:
    return float(2.0**first_octave * (1 - 2.0**-20))


@forked_cache
def _gaussian_corrections(first_octave: int) -> bytes | None:
    table = _native.TorchGaussian(_smallest_q(first_octave), _LARGEST_Q)
    exit_state.watch()
    for first in range(0, len(table), _EXP_CHUNK):
        exit_state.sleep_if_begun()
        exponents = torch.from_numpy(table.inputs(first, min(_EXP_CHUNK, len(table) - first)))
        if not table.add(first, torch.exp(exponents).numpy()):
            return None
    return table.corrections


@forked_cache
def _adds_as_torch(kernel: BlurKernel, size: Size, settings: tuple[object, ...]) -> bool:
    """Returns whether both make the same sums of random images, which show the order of additions, and round alike."""
    step = _step_with_torch_weights(kernel, settings)
    assert step is not None
    for seed, sigma in enumerate(_sigmas(kernel, _PROBED_IMAGES)):
        pixels = np.random.default_rng(seed).integers(0, 256, (*size, 3), dtype=np.uint8)
        sums = native_sums(step, float(sigma), pixels)
        if not equal_arrays(sums, torch_sums(kernel, float(sigma), pixels)):
            return False
        if not equal_arrays(np.rint(sums).astype(np.uint8), torch_blur(kernel, float(sigma), pixels)):
            return False
    return True


def native_sums(step: _native.GaussianBlur, sigma: float, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Returns the native blur before it is rounded, [height, width, 3]."""
    sums = _native.gaussian_sums(step, sigma, np.ascontiguousarray(pixels.transpose(2, 0, 1)))
    shown: NDArray[np.float32] = sums[:, :, : pixels.shape[1]].transpose(1, 2, 0)
    return shown


def torch_sums(kernel: BlurKernel, sigma: float, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Returns torchvision's blur of the image as float32, which it does not round."""
    image = torch.from_numpy(pixels).permute(2, 0, 1).to(torch.float32)
    blurred: NDArray[np.float32] = _torchvision_blur(kernel, sigma, image).permute(1, 2, 0).numpy()
    return blurred


def torch_blur(kernel: BlurKernel, sigma: float, pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Returns torchvision's blur of the PIL image."""
    image = rgb_image(pixels)
    return np.asarray(_torchvision_blur(kernel, sigma, image))


def _torchvision_blur(kernel: BlurKernel, sigma: float, image: Any) -> Any:
    functional = _recognize.functional(kernel.family)
    return functional.gaussian_blur(image, [kernel.width, kernel.height], [sigma, sigma])
