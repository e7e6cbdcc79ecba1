"""Shared by the tests of the examples: folders to run them on, and the run itself."""

from __future__ import annotations

import importlib.util
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from children import RunChild
from example_runner import EXAMPLES
from image_folders import make_clean_folder, synthetic_image
from PIL import Image

TINTS = {"blue": (0, 0, 255), "green": (0, 255, 0), "red": (255, 0, 0)}


@pytest.fixture(scope="session")
def image_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Makes 24 JPEG images in three classes."""
    return make_clean_folder(tmp_path_factory.mktemp("examples"), 24)


@pytest.fixture(scope="session")
def tinted_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Makes train/ (48 images) and val/ (17). Each class has a tint, so a network learns the three in a few steps."""
    root = tmp_path_factory.mktemp("tinted")
    for part, first, num_images in (("train", 0, 16), ("val", 100, 6)):
        for name, tint in TINTS.items():
            (root / part / name).mkdir(parents=True)
            for number in range(first, first + num_images):
                pixels = np.asarray(synthetic_image(number, 60 + number % 7, 50 + number % 5))
                tinted = (0.6 * pixels + 0.4 * np.array(tint)).astype(np.uint8)
                Image.fromarray(tinted).save(root / part / name / f"{number:03}.JPEG", quality=90)
    (root / "val" / "red" / "100.JPEG").unlink()  # two ranks have unequal parts of it
    return root


RunExample = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run_example(run_child: RunChild) -> RunExample:
    """Runs `python examples/NAME ARGUMENT...` in a process of its own; keywords go to run_child."""

    def run(name: str, *arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
        words = [name, *map(str, arguments)]
        return run_child(
            f"import example_runner; example_runner.run(*{words})", **{"warm": True, "timeout": 150, **options}
        )

    return run


@pytest.fixture
def load_example() -> Callable[[str], ModuleType]:
    """Imports an example, without running its main()."""

    def load(name: str) -> ModuleType:
        spec = importlib.util.spec_from_file_location(name.removesuffix(".py"), EXAMPLES / name)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load
