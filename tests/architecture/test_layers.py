"""The layer check over this repository, and over small trees with one violation each to show that it sees them."""

from __future__ import annotations

from pathlib import Path

import pytest
from architecture import layers

CLEAN_TREE = {
    "csrc/base/status.h": "#pragma once\n#include <cstdint>\n",
    "csrc/device/backend.h": '#include "base/status.h"\n',
    "csrc/cuda/cuda_backend.h": '#include <dlfcn.h>\n#include "device/backend.h"\n',
    "csrc/kernels/dispatch.cpp": 'const char* value = std::getenv("FASTLOAD_SIMD");\n',
    "csrc/kernels/idct_avx2.cpp": "#include <immintrin.h>\n",
    "csrc/codec/decoder.h": '#include "base/status.h"\n',
    "csrc/codec/jpeg/markers.h": '#include "codec/decoder.h"\n// no getenv, no "getenv" here\n',
    "csrc/image/crop.h": "",
    "csrc/engine/engine.h": '#include <atomic>\n#include "codec/jpeg/markers.h"\n#include "device/backend.h"\n',
    "csrc/bindings/module.cpp": '#include <pybind11/pybind11.h>\n#include "engine/engine.h"\n',
    "fastload/__init__.py": "from fastload._loader._loader import DataLoader\n",
    "fastload/_errors.py": "import os\n",
    "fastload/_process/__init__.py": "",
    "fastload/_process/_config.py": "import os\nvalue = os.environ.get('X')\n",
    "fastload/_native.py": "from fastload import _core\n",
    "fastload/_pillow/__init__.py": "",
    "fastload/_pillow/_pillow.py": "from PIL import Image\nfrom fastload._errors import SampleError\n",
    "fastload/_loader.py": "import torch\nfrom ._pillow import _pillow\nfrom .transforms import lower\n",
    "fastload/transforms/__init__.py": "from ._recognize import lower\n",
    "fastload/transforms/_recognize.py": "import sys\nsys.modules.get('torchvision.transforms')\n",
    "fastload/sources/__init__.py": "",
}
# A folder of each language whose modules have levels, with a folder among them.
NESTED_LEVELS = {
    **layers.LEVELS,
    "csrc/engine": {"sample": 0, "batch": 1, "queues": 1, "engine": 2},
    "fastload/_pillow": {"_pillow": 0, "formats": 1, "_failures": 1, "__init__": 2},
}
NESTED_TREE = {
    **CLEAN_TREE,
    "csrc/engine/sample/sample_task.h": '#include "base/status.h"\n',
    "csrc/engine/sample/sample_file.cpp": '#include "engine/sample/sample_task.h"\n',
    "csrc/engine/batch/slot.h": '#include "engine/sample/sample_task.h"\n',
    "csrc/engine/queues/queue.h": "",
    "csrc/engine/engine.cpp": '#include "engine/engine.h"\n#include "engine/batch/slot.h"\n',
    "fastload/_pillow/formats/__init__.py": "from ._png import read\nfrom fastload._pillow import _pillow\n",
    "fastload/_pillow/formats/_png.py": "from fastload._pillow._pillow import opened\n",
    "fastload/_pillow/_failures.py": "from . import _pillow\n",
}

# Text that is added to a file of the clean tree, and a part of the sentence that reports it.
SEEDS = [
    ("csrc/base/status.h", '#include "codec/decoder.h"\n', "base (level 0) uses codec, which is above it (level 2)"),
    ("csrc/codec/decoder.h", '#include "image/crop.h"\n', "codec uses its sibling image (both level 2)"),
    ("csrc/engine/engine.h", '#include "cuda/cuda_backend.h"\n', "engine must not name cuda"),
    ("csrc/codec/jpeg/markers.h", '#include "markers.h"\n', "not a path relative to csrc"),
    ("csrc/extra/thing.h", '#include "base/status.h"\n', "extra has no level"),
    ("csrc/engine/engine.h", "#include <Python.h>\n", "Python's C interface is bindings/* or python/*"),
    ("csrc/engine/engine.h", "#  include <pybind11/gil.h>\n", "the home of pybind11 is bindings/*"),
    ("csrc/codec/decoder.h", "#include <mutex>\n", "the home of threads, locks, atomics is engine/*"),
    ("csrc/kernels/dispatch.cpp", "#include <immintrin.h>\n", "the home of intrinsics is kernels/*_avx2.*"),
    ("csrc/device/backend.h", "#include <dlfcn.h>\n", "the home of the CUDA runtime is cuda/*"),
    ("csrc/bindings/module.cpp", "#include <torch/extension.h>\n", "the home of torch is nowhere in csrc"),
    ("csrc/cuda/cuda_backend.h", "#include <c10/cuda/CUDAStream.h>\n", "the home of torch is nowhere in csrc"),
    ("csrc/engine/engine.h", 'auto v = getenv("X");\n', "the home of environment variables is kernels/dispatch.cpp"),
    ("fastload/_errors.py", "from fastload import sources\n", "_errors (level 0) uses sources, which is above it"),
    ("fastload/_process/_config.py", "import fastload._native\n", "_process uses its sibling _native (both level 0)"),
    ("fastload/sources/__init__.py", "from ..transforms import lower\n", "sources uses its sibling transforms"),
    ("fastload/_loader.py", "from fastload import DataLoader\n", "_loader (level 6) uses __init__, which is above it"),
    ("fastload/_thing.py", "from fastload import _errors\n", "_thing has no level"),
    ("fastload/_loader.py", "def f():\n    from torchvision import io\n", "the home of torchvision is"),
    ("fastload/sources/__init__.py", "import sys\nsys.modules['torchvision']\n", "the home of torchvision is"),
    ("fastload/_loader.py", "import importlib\nimportlib.import_module('PIL.Image')\n", "the home of PIL is"),
    ("fastload/_loader.py", "from ._core import version\n", "the home of fastload._core is fastload/_native.py"),
    ("fastload/_loader.py", "import os\nos.environ['X']\n", "reads environment variables"),
    ("fastload/_loader.py", "from os import getenv\ngetenv('X')\n", "reads environment variables"),
]


NESTED_SEEDS = [
    ("csrc/engine/sample/sample_task.h", '#include "engine/batch/slot.h"\n', "sample (level 0) uses batch, which is"),
    ("csrc/engine/batch/slot.h", '#include "engine/queues/queue.h"\n', "batch uses its sibling queues (both level 1)"),
    ("csrc/engine/queues/queue.h", '#include "engine/engine.h"\n', "queues (level 1) uses engine, which is above it"),
    ("csrc/engine/extra.h", '#include "engine/queues/queue.h"\n', "extra has no level"),
    ("fastload/_pillow/_pillow.py", "from ._failures import f\n", "_pillow (level 0) uses _failures, which is above"),
    ("fastload/_pillow/_failures.py", "from .formats import _png\n", "_failures uses its sibling formats"),
    ("fastload/_pillow/formats/_png.py", "from fastload._pillow import f\n", "formats (level 1) uses __init__, which"),
    ("fastload/_pillow/formats/_png.py", "import fastload._loader\n", "_pillow (level 1) uses _loader, which is"),
]


def plant(root: Path, tree: dict[str, str]) -> None:
    for name, text in tree.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_this_repository_keeps_its_layers() -> None:
    assert layers.violations(layers.ROOT) == []


def test_every_folder_of_this_repository_is_looked_at() -> None:
    folders = {path.name for path in (layers.ROOT / "csrc").iterdir() if path.is_dir()}
    assert {"base", "kernels", "bindings"} <= folders <= set(layers.CPP_LEVELS)


def test_every_folder_with_folders_in_it_has_levels_for_what_is_there() -> None:
    for path in [*layers.cpp_files(layers.ROOT), *layers.python_files(layers.ROOT)]:
        if (folder := path.parent.parent) != layers.ROOT:
            assert path.parent.name in layers.LEVELS[folder.relative_to(layers.ROOT).as_posix()]


@pytest.mark.parametrize("folder", layers.LEVELS)
def test_every_level_is_of_something_that_is_there(folder: str) -> None:
    there = {path.with_suffix("").name for path in (layers.ROOT / folder).iterdir()}
    assert set(layers.LEVELS[folder]) <= there


def test_every_exception_has_a_reason() -> None:
    assert all(len(reason.split()) > 3 for reason in layers.EXCEPTIONS.values())


@pytest.mark.parametrize(("name", "addition", "expected"), [("csrc/base/status.h", "", ""), *SEEDS, *NESTED_SEEDS])
def test_seeded_violation_is_the_one_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, addition: str, expected: str
) -> None:
    monkeypatch.setattr(layers, "LEVELS", NESTED_LEVELS)
    plant(tmp_path, {**NESTED_TREE, name: NESTED_TREE.get(name, "") + addition})
    reports = layers.violations(tmp_path, exceptions={})
    assert len(reports) == (1 if addition else 0), reports
    assert all(report.startswith(f"{name}: ") and expected in report for report in reports)


@pytest.mark.parametrize(
    ("folder", "tree"),
    [
        ("csrc/kernels", {"a.cpp": '#include "kernels/b.h"\n', "b.h": '#include "kernels/a.h"\n', "a.h": ""}),
        ("fastload/sources", {"_a.py": "from . import _b\n", "_b.py": "def f():\n    from ._a import g\n"}),
    ],
)
def test_modules_of_a_folder_without_levels_use_each_other_in_no_circle(
    tmp_path: Path, folder: str, tree: dict[str, str]
) -> None:
    plant(tmp_path, {**CLEAN_TREE, **{f"{folder}/{name}": text for name, text in tree.items()}})
    (report,) = layers.violations(tmp_path, exceptions={})
    assert report.startswith(f"{folder}: uses itself in a circle: ")


def test_exception_silences_its_row_and_an_unused_one_is_reported(tmp_path: Path) -> None:
    plant(tmp_path, {**CLEAN_TREE, "csrc/codec/decoder.h": "#include <mutex>\n"})
    exceptions = {("csrc/codec/decoder.h", "mutex"): "a reason", ("csrc/image/crop.h", "mutex"): "a reason"}
    assert layers.violations(tmp_path, exceptions) == ["csrc/image/crop.h: the exception for mutex is not needed"]
