"""``fastload info``: what is installed and what it can do here, for people and for bug reports."""

from __future__ import annotations

import argparse
import json
import platform
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fastload import _native
from fastload._decode_cache._cache import default_path
from fastload._decode_cache._report import report_of
from fastload._display._table import Table
from fastload._display._units import counted, in_bytes
from fastload._pillow import _pillow
from fastload._process import _config
from fastload._process._limits import num_auto_workers, num_available
from fastload._tools.verify._report import image_libraries
from fastload.cli._common import FINE, add_command, show, usage_errors


def add_to(commands: Any) -> None:
    """Adds the command to the subparsers of argparse."""
    parser = add_command(commands, "info", _run, help="say what is installed and what it can do here")
    parser.add_argument("--json", action="store_true", help="print it as JSON")


def _run(options: argparse.Namespace) -> int:
    """Shows this build of fastload, the versions it runs with, and what it can do on this machine."""
    with usage_errors(ValueError):  # FASTLOAD_SIMD
        build = _native.build_info()
    rows = [*_of_software(build), *_of_gpu(build), *_of_machine()]
    if options.json:
        print(json.dumps(dict(rows), indent=2))
    else:
        show(Table(f"fastload {build.version}", rows))
    return FINE


def _of_software(build: _native.BuildInfo) -> Iterator[tuple[str, str]]:
    yield "package", str(Path(_native.__file__).parent)
    yield "compiler", f"{build.compiler}, C++{build.cxx_standard // 100 % 100}"
    yield "kernels", f"{build.active_kernel_table} (this processor runs {', '.join(build.kernel_tables)})"
    yield "Python", f"{platform.python_version()} ({sys.implementation.name})"
    cuda = f", CUDA {torch.version.cuda}" if torch.version.cuda else ", built without CUDA"
    yield "torch", f"{torch.__version__}{cuda}"
    yield from image_libraries().items()
    yield "NumPy", np.__version__
    exactness = _pillow.native_jpeg_is_exact()
    decoder = "native for clean files, Pillow for others" if exactness.is_exact else "Pillow for all files"
    yield "JPEG decoder", f"{decoder}: {exactness.reason}"


def _of_gpu(build: _native.BuildInfo) -> Iterator[tuple[str, str]]:
    if torch.cuda.is_available():
        names = ", ".join(torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count()))
        yield "GPU", names
    elif torch.version.cuda is None:
        yield "GPU", "none that torch can use: it is built without CUDA"
    else:
        yield "GPU", "none that torch can use: it finds no device or no driver"
    absent = "" if build.has_cuda_module else "; torch's operations make the same bytes"
    yield "GPU module", build.cuda_module_reason + absent


def _of_machine() -> Iterator[tuple[str, str]]:
    yield "system", f"{platform.system()} {platform.release()}, {platform.machine()}"
    yield "processors", f'{num_available()} by affinity; num_workers="auto" takes {num_auto_workers()}'
    yield "cache folder", _described(_config.cache_folder, _describe_folder)
    yield "cache of images", _described(default_path, _describe_store)


def _described(path_of: Callable[[], Path], describe: Callable[[Path], str]) -> str:
    try:
        path = path_of()
    except RuntimeError:
        return "none: there is no home folder; set FASTLOAD_CACHE"
    try:
        return f"{path}: {describe(path)}"
    except FileNotFoundError:
        return f"{path}, not made yet"
    except OSError as error:
        return f"{path}: {error.strerror}"


def _describe_store(path: Path) -> str:
    """Describes the store of fastload.Cache(), which the ranks of a machine share."""
    report = report_of(path, reads_records=False)
    return f"{counted(report.num_records, 'record')}, {in_bytes(report.used_bytes)}"


def _describe_folder(path: Path) -> str:
    sizes = [file.stat().st_size for file in path.iterdir() if file.is_file()]
    return f"{counted(len(sizes), 'file')}, {in_bytes(sum(sizes))}"
