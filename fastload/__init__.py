"""A drop-in for torch.utils.data.DataLoader that reads, decodes and transforms in native threads."""

import importlib
import typing

from fastload._decode_cache._cache import Cache
from fastload._display._stats import LoaderStats
from fastload._errors import (
    DeviceError,
    FastloadError,
    ForkedProcessError,
    LoaderClosedError,
    SampleError,
    StateError,
    TooManyErrors,
)
from fastload._images._opencv import imread
from fastload._images._opener import register_opener, unregister_opener
from fastload._iteration.native._report import SampleReport, TransformStep
from fastload._loader._loader import DataLoader
from fastload._native import BuildInfo, build_info
from fastload._native import version as __version__
from fastload._pillow._decode_image import decode_image, pil_loader
from fastload._quarantine._substitutes import substitute
from fastload._workers._per_thread import PerThread, per_thread
from fastload.samplers import ShardedSampler
from fastload.sources import ImageFiles, ImageFolder
from fastload.transforms import MultiView

if typing.TYPE_CHECKING:
    from fastload._cached._dataset import CachedDataset
    from fastload._patch import TorchPatch, patch_torch
    from fastload._tools._benchmark import BenchmarkResult, benchmark
    from fastload._tools.doctor._doctor import DoctorReport, doctor
    from fastload._tools.verify._report import VerifyReport
    from fastload._tools.verify._verify import verify

__all__ = [
    "BenchmarkResult",
    "BuildInfo",
    "Cache",
    "CachedDataset",
    "DataLoader",
    "DeviceError",
    "DoctorReport",
    "FastloadError",
    "ForkedProcessError",
    "ImageFiles",
    "ImageFolder",
    "LoaderClosedError",
    "LoaderStats",
    "MultiView",
    "PerThread",
    "SampleError",
    "SampleReport",
    "ShardedSampler",
    "StateError",
    "TooManyErrors",
    "TorchPatch",
    "TransformStep",
    "VerifyReport",
    "__version__",
    "benchmark",
    "build_info",
    "decode_image",
    "doctor",
    "imread",
    "patch_torch",
    "per_thread",
    "pil_loader",
    "register_opener",
    "substitute",
    "unregister_opener",
    "verify",
]

# Names that are imported when they are used: most programs need none of them.
_MODULES = {
    "BenchmarkResult": "_tools._benchmark",
    "CachedDataset": "_cached._dataset",
    "DoctorReport": "_tools.doctor._doctor",
    "TorchPatch": "_patch",
    "VerifyReport": "_tools.verify._report",
    "benchmark": "_tools._benchmark",
    "doctor": "_tools.doctor._doctor",
    "patch_torch": "_patch",
    "verify": "_tools.verify._verify",
}


if not typing.TYPE_CHECKING:  # with it type checkers would find no misspelt name

    def __getattr__(name):
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(importlib.import_module(f"fastload.{_MODULES[name]}"), name)
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
