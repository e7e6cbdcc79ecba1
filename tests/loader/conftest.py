"""Folders and transforms that the loader's tests share."""

from __future__ import annotations

from pathlib import Path

import pytest
from image_folders import make_clean_folder


@pytest.fixture(scope="session")
def clean_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Makes 22 clean baseline JPEGs in three classes."""
    return make_clean_folder(tmp_path_factory.mktemp("clean"), 22)
