"""The only importer of the extension modules: fastload._core, and fastload._cuda_kernels if it is built."""

from __future__ import annotations

import functools
import importlib.machinery
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

REINSTALL = "Install fastload with this Python: python -m pip install --no-build-isolation <folder of fastload>"


def explain_import_failure(folder: Path, error: ImportError) -> str:
    """Returns why fastload._core cannot be imported from `folder`, and the next step, in one or two sentences."""
    python = f"Python {sys.version_info.major}.{sys.version_info.minor} ({sys.implementation.cache_tag})"
    built = sorted(path.name for path in folder.glob("_core.*") if path.suffix in (".so", ".pyd"))
    if not built:
        return f"fastload's compiled part is missing in {folder}. {REINSTALL}"
    if not any(name == "_core" + suffix for name in built for suffix in importlib.machinery.EXTENSION_SUFFIXES):
        return f"fastload's compiled part in {folder} ({', '.join(built)}) is not built for {python}. {REINSTALL}"
    return f"fastload's compiled part in {folder} cannot be loaded by {python}: {error}. {REINSTALL}"


try:
    from fastload import _core
    from fastload._core import *  # noqa: F403 - the rest of the package names them by this module
except ImportError as error:
    raise ImportError(explain_import_failure(Path(__file__).parent, error)) from error


@functools.cache
def _import_cuda_kernels() -> ModuleType | str:
    """Returns the module fastload._cuda_kernels, or why it is missing."""
    if not any(Path(__file__).parent.glob("_cuda_kernels.*.so")):
        return "built without CUDA kernels"
    try:
        from fastload import _cuda_kernels
    except ImportError as error:
        return str(error)
    return _cuda_kernels


def cuda_kernels() -> ModuleType | None:
    """Returns the optional extension module, imported at the first call; None if it is missing."""
    found = _import_cuda_kernels()
    return None if isinstance(found, str) else found


@dataclass(frozen=True)
class BuildInfo:
    """A description of the installed build, for bug reports and for checking which code runs.

    Attributes:
        version: fastload's version when the compiled part was built.
        compiler: name and version of the compiler that built it.
        cxx_standard: the value of __cplusplus it was built with, 201703 or later.
        kernel_tables: the instruction sets that this build has and this processor runs, best first.
        active_kernel_table: the one in use; FASTLOAD_SIMD can force another.
        has_cuda_module: whether the CUDA kernels are built and can be imported.
        cuda_module_reason: the reason for has_cuda_module.
    """

    version: str
    compiler: str
    cxx_standard: int
    kernel_tables: tuple[str, ...]
    active_kernel_table: str
    has_cuda_module: bool
    cuda_module_reason: str


def build_info() -> BuildInfo:
    """Describes the installed build.

    Returns:
        A BuildInfo: versions, compiler, instruction sets and CUDA kernels.

    Raises:
        ValueError: FASTLOAD_SIMD names a kernel table that this build or processor does not have.

    Example:
        >>> fastload.build_info().active_kernel_table in fastload.build_info().kernel_tables
        True
    """
    found = _import_cuda_kernels()
    return BuildInfo(
        version=_core.version,
        compiler=_core.compiler,
        cxx_standard=_core.cxx_standard,
        kernel_tables=tuple(_core.available_kernel_tables().split(", ")),
        active_kernel_table=_core.active_kernel_table(),
        has_cuda_module=cuda_kernels() is not None,
        cuda_module_reason=found if isinstance(found, str) else f"built with CUDA {found.cuda_version}",
    )
