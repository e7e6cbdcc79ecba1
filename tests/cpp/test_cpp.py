"""Runs the C++ unit tests and fuzz targets under sanitizers; build.py does the same by hand."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from cpp import build

ROOT = build.ROOT
FUZZ_TARGETS = sorted(path.stem for path in (ROOT / "fuzz").glob("fuzz_*.cpp"))

pytestmark = pytest.mark.slow


@pytest.fixture(scope="session")
def asan() -> Path:
    return build.build("asan")


@pytest.fixture(scope="session")
def tsan() -> Path:
    return build.build("tsan")


def files_below(folder: Path) -> list[Path]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    assert files, f"nothing to replay in {folder}"
    return files


def run(*command: object, timeout: float = 300) -> str:
    """Runs a program that must succeed, and returns what it printed."""
    result = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, timeout=timeout, errors="replace"
    )
    assert result.returncode == 0, f"exit status {result.returncode}\n{result.stdout}\n{result.stderr}"
    return result.stdout


def replay(target: Path, folder: Path) -> None:
    files = files_below(folder)
    assert f"{len(files)} inputs replayed" in run(target, *files)


def test_unit_tests_pass_under_address_and_undefined_behaviour_sanitizers(asan: Path) -> None:
    assert " passed, 0 failed" in run(asan / "unit_tests")


def test_unit_tests_pass_under_thread_sanitizer(tsan: Path) -> None:
    # GCC's runtime refuses the wide address randomisation of some kernels; setarch -R turns it off for the program.
    without_randomisation = ["setarch", "-R"] if shutil.which("setarch") else []
    assert " passed, 0 failed" in run(*without_randomisation, tsan / "unit_tests")


@pytest.mark.parametrize("target", FUZZ_TARGETS)
def test_fuzz_target_survives_its_corpus(target: str, asan: Path) -> None:
    replay(asan / target, ROOT / "fuzz" / "corpus")


@pytest.mark.parametrize("target", FUZZ_TARGETS)
def test_fuzz_target_survives_the_images_of_others(target: str, asan: Path, corpora: Path) -> None:
    replay(asan / target, corpora / "images")
    replay(asan / target, corpora / "imagenet64")
