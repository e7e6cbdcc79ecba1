"""Builds fastload._core, and fastload._cuda_kernels where it is of use; pyproject.toml has the rest of the package.

Where torch can be imported (pip install --no-build-isolation .) its BuildExtension compiles with ninja. Where it cannot
(an isolated build) plain setuptools compiles the same sources with the same flags. Neither adds a torch header or
library, so one build serves every torch version.

Environment: CXX names the compiler, MAX_JOBS limits the compile jobs; setup_cuda.py has what decides on the kernels.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import BaseError

ROOT = Path(__file__).resolve().parent
EXPORTS = "csrc/bindings/exports.map"
CUDA_BINDING = "csrc/bindings/cuda_kernels.cpp"

sys.path.insert(0, str(ROOT))  # an isolated build does not look here
import setup_cuda  # noqa: E402

# One thing of each kind the sources rely on: C++17 syntax, its library, and the overflow built-ins of GCC and Clang.
PROBE = """
#include <charconv>
#include <cstddef>
#include <new>
#include <optional>
[[nodiscard]] inline constexpr bool is_odd(std::size_t n) { if constexpr (sizeof n > 4) return n & 1; else return 0; }
void* probe(std::size_t a) {
    std::optional<std::size_t> product = a;
    if (__builtin_mul_overflow(a, a, &*product) || is_odd(*product)) return nullptr;
    return ::operator new(*product, std::align_val_t{64}, std::nothrow);
}
"""


def choose_base_command() -> type[build_ext]:
    """Returns torch's BuildExtension if torch can be imported, else setuptools' own command, compiling in parallel."""
    try:
        from torch.utils.cpp_extension import BuildExtension
    except (ImportError, OSError):  # OSError: torch is there, but one of its libraries is not
        from pybind11.setup_helpers import ParallelCompile

        ParallelCompile("MAX_JOBS").install()
        return build_ext
    # A virtual environment that is not activated has its ninja beside its interpreter.
    os.environ["PATH"] = os.pathsep.join([os.environ.get("PATH", os.defpath), str(Path(sys.executable).parent)])
    return BuildExtension


def pybind11_include() -> str:
    """Returns the folder of pybind11's headers: the installed package's, else the copy that every torch carries."""
    try:
        import pybind11
    except ImportError:
        import torch

        return str(Path(torch.__file__).parent / "include")
    return pybind11.get_include()


def check_compiler() -> None:
    """Ends the build with one sentence if the compiler or Python's headers cannot build the extension."""
    compiler = os.environ["CXX"]
    need = "fastload: building needs a C++17 compiler"
    cure = "Install one (Debian and Ubuntu: apt install g++) or name one in CXX."
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "probe.cpp"
        source.write_text(PROBE)
        command = [*shlex.split(compiler), "-std=c++17", "-fPIC", "-c", str(source), "-o", f"{source}.o"]
        try:
            result = subprocess.run(command, capture_output=True, text=True, errors="replace")
        except OSError as error:
            sys.exit(f"{need}, but {compiler!r} cannot be run ({error.strerror}). {cure}")
    if result.returncode != 0:
        reason = next((line for line in result.stderr.splitlines() if "error" in line), "no message").strip()
        sys.exit(f"{need}, but {compiler!r} fails on a small C++17 program ({reason}). {cure}")
    headers = sysconfig.get_path("include")
    if not Path(headers, "Python.h").exists():
        sys.exit(f"fastload: building needs Python.h, not found in {headers}. Debian: apt install python3-dev.")


Base = choose_base_command()


class BuildExtensions(Base):
    def build_extensions(self) -> None:
        check_compiler()
        for extension in self.extensions:
            extension.define_macros.append(("FASTLOAD_VERSION", self.distribution.get_version()))
        super().build_extensions()

    def compile_bindings(self) -> list[str]:
        """Compiles the bindings with little optimisation: it is most of their compile time, and they run once a batch.

        They are linked after the other files, so that the optimised copy of an inline function in both is kept.
        """
        return self.compiler.compile(
            BINDINGS,
            output_dir=str(Path(self.build_temp, "bindings")),  # a folder of its own: ninja keeps its file there
            macros=CORE.define_macros,
            include_dirs=CORE.include_dirs,
            extra_postargs=[*CORE.extra_compile_args, "-Og"],
            depends=CORE.depends,
        )

    def build_extension(self, extension: Extension) -> None:
        if extension is CORE:
            extension.extra_objects += self.compile_bindings()
        if extension is not CUDA_KERNELS:
            super().build_extension(extension)
            return
        try:
            extension.extra_objects += TOOLKIT.compile(str(ROOT / "csrc"), self.build_temp)
            extension.library_dirs += TOOLKIT.library_folders()
            super().build_extension(extension)
        except (OSError, RuntimeError, ValueError, BaseError, subprocess.CalledProcessError) as error:
            self.warn(setup_cuda.report_failure(error))


def new_extension(name: str, sources: list[str], **more: object) -> Extension:
    """Paths are relative to this folder, as an sdist's file list wants them."""
    # -ldl: dlopen, which glibc has in its own library only since 2.34.
    link_args = [f"-Wl,--version-script={EXPORTS}", "-ldl"] if sys.platform == "linux" else []
    headers = [str(path.relative_to(ROOT)) for path in sorted((ROOT / "csrc").rglob("*.h"))]
    return Extension(
        f"fastload.{name}",
        sources=sources,
        depends=[EXPORTS, *setup_cuda.SOURCES, *headers],
        include_dirs=[str(ROOT / "csrc"), pybind11_include()],
        # No contraction to fused multiply-add, which some processors do by default: resize weights must be Pillow's.
        extra_compile_args=["-std=c++17", "-O3", "-g0", "-ffp-contract=off", "-fvisibility=hidden", "-pthread"],
        extra_link_args=["-pthread", *link_args],
        language="c++",
        **more,
    )


# Set before any command starts, so that every builder takes the compiler that is checked.
os.environ.setdefault("CXX", next(filter(shutil.which, ("c++", "g++", "clang++")), "c++"))

torch = sys.modules.get("torch")
TOOLKIT = setup_cuda.choose_toolkit(torch.version.cuda if torch else None)
SOURCES = [str(path.relative_to(ROOT)) for path in sorted((ROOT / "csrc").rglob("*.cpp"))]
BINDINGS = [path for path in SOURCES if path.startswith("csrc/bindings/") and path != CUDA_BINDING]
CORE = new_extension("_core", [path for path in SOURCES if not path.startswith("csrc/bindings/")])
CORE.depends += BINDINGS
# With a runtime of its own, so that it imports where there is no driver, and beside any torch.
CUDA_KERNELS = new_extension(
    "_cuda_kernels", [CUDA_BINDING], libraries=["cudart_static", "dl", "rt"], optional=not setup_cuda.is_required()
)

setup(
    license="BSD-3-Clause",
    ext_modules=[CORE, CUDA_KERNELS] if TOOLKIT else [CORE],
    cmdclass={"build_ext": BuildExtensions},
)
