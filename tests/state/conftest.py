"""Shared folders of the tests of states."""

from __future__ import annotations

from pathlib import Path

import pytest
import resumed_runs
from image_folders import make_clean_folder, make_faulty_copy


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Makes NUM_IMAGES clean JPEGs in three classes."""
    return make_clean_folder(tmp_path_factory.mktemp("clean"), resumed_runs.NUM_IMAGES)


@pytest.fixture
def faulty_folder(folder: Path, tmp_path: Path) -> Path:
    return make_faulty_copy(folder, tmp_path / "faulty")
