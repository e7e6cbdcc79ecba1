"""Folders and transforms that the loader's tests share."""

from __future__ import annotations

from pathlib import Path

import pytest
from cached_epochs import make_odd_photographs
from image_folders import make_clean_folder


@pytest.fixture(scope="session")
def clean_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Makes 22 clean baseline JPEGs in three classes."""
    return make_clean_folder(tmp_path_factory.mktemp("clean"), 22)


@pytest.fixture(scope="session")
def odd_images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_odd_photographs(tmp_path_factory.mktemp("odd"))
