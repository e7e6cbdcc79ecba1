"""The only importer of torchvision in the benchmarks."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from types import ModuleType

import torch


def load_torchvision() -> ModuleType:
    """Imports torchvision, even if its compiled operators were built for another torch, such as CPU torch.

    That torchvision stops at import because two of its operators do not exist. They are declared here, and only then:
    transforms and datasets need none of them, and `compiled_operators_error` still reports that they are missing.
    """
    if compiled_operators_error() is not None:
        for name in ("torchvision::nms", "torchvision::qnms"):
            if not _is_declared(name):
                torch.library.define(name, "(Tensor x) -> Tensor")
    return importlib.import_module("torchvision")


def compiled_operators_error(library: str = "_C.so") -> str | None:
    """Returns why torchvision's shared library of that name does not load: one line, or None if it does."""
    spec = importlib.util.find_spec("torchvision")
    if spec is None or spec.origin is None:
        return "torchvision is not installed"
    folder = Path(spec.origin).parent
    try:
        torch.ops.load_library(str(folder / library))  # type: ignore[no-untyped-call]
    except OSError as error:
        return " ".join(str(error.__cause__ or error).replace(f"{folder}/", "").split())
    return None


def _is_declared(operator: str) -> bool:
    namespace, name = operator.split("::")
    return hasattr(getattr(torch.ops, namespace), name)
