"""Checks what docs/install.md says about Pillow-SIMD: pip puts Pillow over it, and how it stays."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks._pillow_simd import REQUIREMENT, ensure_pillow_simd

ROOT = Path(__file__).resolve().parents[2]

pytestmark = [pytest.mark.slow, pytest.mark.weekly]  # Pillow-SIMD is built from its sources


@pytest.fixture(scope="module")
def simd() -> Path:
    """Returns a folder with Pillow-SIMD, as `pip install --no-deps --target` leaves it."""
    folder, problem = ensure_pillow_simd(ROOT / "build")
    if problem is not None:
        pytest.skip(problem)
    return folder


class Environment:
    """A virtual environment with nothing in it."""

    def __init__(self, folder: Path) -> None:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        self.python = folder / "bin" / "python"
        self.packages = Path(self.run("-c", "import sysconfig; print(sysconfig.get_path('purelib'))"))

    def run(self, *arguments: str, path: Path | None = None) -> str:
        """Returns what Python prints, with `path` in front of its import path."""
        variables = {**os.environ, "PYTHONPATH": str(path or "")}
        result = subprocess.run([self.python, *arguments], env=variables, capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stderr
        return result.stdout.strip()

    def has_simd(self, path: Path | None = None) -> bool:
        return self.run("-c", "import PIL, PIL.Image; print(PIL.__version__)", path=path).endswith(".post0")


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    return Environment(tmp_path / "environment")


def test_pillow_simd_in_a_folder_of_its_own_stays_when_pillow_is_installed(
    simd: Path, environment: Environment
) -> None:
    environment.run("-m", "pip", "install", "--quiet", "pillow")
    assert not environment.has_simd()
    assert environment.has_simd(path=simd)


def test_pip_puts_pillow_over_pillow_simd_until_both_are_made_anew(simd: Path, environment: Environment) -> None:
    shutil.copytree(simd, environment.packages, dirs_exist_ok=True)
    assert environment.has_simd()
    environment.run("-m", "pip", "install", "--quiet", "pillow")
    assert not environment.has_simd()
    environment.run("-m", "pip", "uninstall", "--quiet", "--yes", "pillow")
    environment.run("-m", "pip", "install", "--quiet", "--force-reinstall", "--no-deps", REQUIREMENT)
    assert environment.has_simd()
