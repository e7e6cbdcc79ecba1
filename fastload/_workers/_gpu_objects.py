"""Finds objects of a GPU in the user's objects. A forked process can use neither them nor, mostly, the GPU."""

from __future__ import annotations

import sys
import types
from typing import Any

import torch

from fastload._workers._user_code import NAMES, UserCode
from fastload._workers._walk import walk

_MAX_OBJECTS = 100_000
# Packages that exist for GPUs.
_PACKAGES = ("cucim", "cupy", "kaolin", "nvidia.dali", "nvidia.nvimgcodec", "nvimgcodec", "warp")
_HOST_DEVICES = ("cpu", "meta")
_FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType)


def gpu_object(code: UserCode) -> str | None:
    """Returns what was found and where, as a clause: "dataset.mean is a Tensor on cuda:0"; None if nothing was.

    Calls no method of the user's, and does not ask CUDA whether there is a GPU: forked processes could not use it then.
    """
    has_cuda = torch.backends.cuda.is_built()  # type: ignore[no-untyped-call]
    if not has_cuda and not any(package in sys.modules for package in _PACKAGES):
        return None
    found = ((path, _described(thing)) for path, thing in walk(code.roots, NAMES, _MAX_OBJECTS))
    return next((f"{path} is {what}" for path, what in found if what is not None), None)


def _described(thing: Any) -> str | None:
    bases = type.__dict__["__mro__"].__get__(type(thing))
    kind: Any
    for kind in (torch.Tensor, torch.Generator):
        if kind in bases:
            with torch._C.DisableTorchFunctionSubclass():  # a subclass may run code of its own
                device = kind.device.__get__(thing)
            return None if device.type in _HOST_DEVICES else f"a {kind.__name__} on {device}"
    if torch.cuda.Stream in bases or torch.cuda.Event in bases:
        return f"a {type(thing).__qualname__} of CUDA"
    makers = [type.__dict__["__module__"].__get__(base) for base in bases]
    if type(thing) in _FUNCTIONS:
        makers.append(thing.__module__)
    package = next((name for maker in makers if (name := _package_of(maker)) is not None), None)
    return None if package is None else f"made by {package}, which works on a GPU"


def _package_of(module: object) -> str | None:
    """Returns the package for GPUs that a module is part of, or None."""
    if not isinstance(module, str):
        return None
    return next((name for name in _PACKAGES if module == name or module.startswith(f"{name}.")), None)
