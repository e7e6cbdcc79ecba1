"""Shared by the tests of frameworks: images, and a transform that draws."""

from __future__ import annotations

from pathlib import Path

import pytest
from framework_recipes import NUM_IMAGES
from image_folders import make_clean_folder


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Makes clean baseline JPEGs in three classes."""
    return make_clean_folder(tmp_path_factory.mktemp("frameworks"), NUM_IMAGES)
