"""`import fastload` offers exactly the names in `__all__`, which is sorted."""

from __future__ import annotations

import types

import pytest

import fastload


def test_all_is_sorted_and_complete() -> None:
    names = [name for name in dir(fastload) if not name.startswith("_")]
    public = {name for name in names if not isinstance(getattr(fastload, name), types.ModuleType)}
    assert fastload.__all__ == sorted(public | {"__version__"})


def test_an_unknown_name_is_told_as_pythons_own_error() -> None:
    with pytest.raises(AttributeError, match="module 'fastload' has no attribute 'no_such_name'"):
        _ = fastload.no_such_name


def test_importing_fastload_imports_no_tool(run_child) -> None:
    child = run_child("import fastload, sys; print([name for name in sys.modules if '._tools' in name])")
    assert child.stdout.strip() == "[]"


def test_fastload_is_imported_where_tensors_have_another_default_device(run_child) -> None:
    child = run_child(
        "import torch; torch.set_default_device('meta'); import fastload; print(fastload.verify.__name__)"
    )
    assert child.stdout.strip() == "verify"


def test_importing_fastload_imports_no_torchvision(run_child) -> None:
    child = run_child("import fastload, sys; print(sorted({'torchvision', 'cv2'} & set(sys.modules)))")
    assert child.stdout.strip() == "[]"
