"""`import fastload` offers exactly the names in `__all__`, which is sorted."""

from __future__ import annotations

import types

import fastload


def test_all_is_sorted_and_complete() -> None:
    public = {
        name
        for name, value in vars(fastload).items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType)
    }
    assert fastload.__all__ == sorted(public | {"__version__"})


def test_importing_fastload_imports_no_torchvision(run_child) -> None:
    child = run_child("import fastload, sys; print(sorted({'torchvision', 'cv2'} & set(sys.modules)))")
    assert child.stdout.strip() == "[]"
