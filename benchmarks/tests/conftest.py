"""The benchmarks' tests start as the project's own do, with tests/conftest.py."""

from __future__ import annotations

import importlib.util
from pathlib import Path

_PATH = Path(__file__).resolve().parents[2] / "tests" / "conftest.py"
_SPEC = importlib.util.spec_from_file_location("tests_conftest", _PATH)
assert _SPEC is not None
assert _SPEC.loader is not None
_shared = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(_shared)

pytest_report_header = _shared.pytest_report_header
_own_cache_folder = _shared._own_cache_folder
_impatient_torch = _shared._impatient_torch
