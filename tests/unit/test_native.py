"""The description of the compiled part, and the message if it cannot be imported."""

from __future__ import annotations

import importlib.machinery
import re
import shutil
from pathlib import Path

import pytest

import fastload
from fastload import _native


def test_build_info_names_an_active_table_that_is_available() -> None:
    info = fastload.build_info()
    assert info.active_kernel_table in info.kernel_tables
    assert info.kernel_tables[-1] == "scalar"


def test_build_info_says_what_built_it_and_whether_there_are_cuda_kernels() -> None:
    info = fastload.build_info()
    assert info.version == fastload.__version__
    assert info.compiler.startswith(("GCC ", "Clang "))
    assert info.cxx_standard >= 201703
    if info.has_cuda_module:
        assert re.fullmatch(r"built with CUDA \d+\.\d+", info.cuda_module_reason)
    else:
        assert info.cuda_module_reason == "built without CUDA kernels"


@pytest.mark.parametrize("name", fastload.build_info().kernel_tables)
def test_environment_forces_a_kernel_table(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FASTLOAD_SIMD", name)
    assert fastload.build_info().active_kernel_table == name


def test_unknown_kernel_table_is_an_error_that_names_the_known_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FASTLOAD_SIMD", "mmx")
    with pytest.raises(ValueError, match=r"FASTLOAD_SIMD must name .*\(.*scalar\), got 'mmx'\. Unset it"):
        fastload.build_info()


def test_missing_compiled_part_is_named_with_the_next_step(tmp_path: Path) -> None:
    message = _native.explain_import_failure(tmp_path, ImportError("no module"))
    assert message.startswith(f"fastload's compiled part is missing in {tmp_path}. Install fastload with this Python")


def test_compiled_part_of_another_python_is_named(tmp_path: Path) -> None:
    (tmp_path / "_core.cpython-38-x86_64-linux-gnu.so").touch()
    message = _native.explain_import_failure(tmp_path, ImportError("no module"))
    assert "(_core.cpython-38-x86_64-linux-gnu.so) is not built for Python 3." in message


def test_compiled_part_that_does_not_load_keeps_the_loaders_reason(tmp_path: Path) -> None:
    (tmp_path / ("_core" + importlib.machinery.EXTENSION_SUFFIXES[0])).touch()
    message = _native.explain_import_failure(tmp_path, ImportError("file too short"))
    assert "cannot be loaded by Python 3." in message
    assert "file too short" in message


def test_import_without_the_compiled_part_raises_that_message(run_child, tmp_path: Path) -> None:
    package = tmp_path / "fastload"
    shutil.copytree(Path(_native.__file__).parent, package, ignore=shutil.ignore_patterns("*.so"))
    child = run_child("import fastload", check=False)
    assert child.returncode == 1
    assert f"ImportError: fastload's compiled part is missing in {package}. Install" in child.stderr
