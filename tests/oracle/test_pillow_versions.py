"""Reruns the oracles of transforms and recipes with older Pillows, whose pass order differs from 13's.

Each version is installed once by ``pip install --target`` under build/pillow (FASTLOAD_PILLOW_DIR: elsewhere) and comes
before the installed one through PYTHONPATH, in its own pytest.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import repository_path  # noqa: F401
from image_folders import make_clean_folder

from benchmarks._pillow_simd import REQUIREMENT, ensure_pillow_simd

ROOT = Path(__file__).resolve().parents[2]
VERSIONS = ["11.3.0", "12.1.1", "12.3.0"]
PILLOW_OF_SIMD = REQUIREMENT.removeprefix("pillow-simd==").removesuffix(".post0")
ORACLES = [f"tests/oracle/test_{name}.py" for name in ("resize", "transforms", "pixel_ops", "geometry_steps")]


pytestmark = pytest.mark.slow  # each version runs its own suites


@pytest.fixture
def clean_folder(tmp_path: Path) -> Path:
    return make_clean_folder(tmp_path / "clean", 22)


def cache_folder() -> Path:
    return Path(os.environ.get("FASTLOAD_PILLOW_DIR") or ROOT / "build" / "pillow")


def install_pillow(version: str) -> Path:
    """Returns the folder with Pillow `version`; skips if it is neither cached nor available, but fails then in CI."""
    target = cache_folder() / f"{version}-cp{sys.version_info[0]}{sys.version_info[1]}"
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(dir=target.parent))
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--only-binary", ":all:"]
    command += ["--target", str(unfinished), f"pillow=={version}"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        shutil.rmtree(unfinished)
        reason = f"cannot install pillow {version} into {target}: {result.stderr.strip()[-500:]}"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    unfinished.chmod(0o755)
    try:
        unfinished.rename(target)
    except OSError:  # another process was first
        shutil.rmtree(unfinished)
    return target


def run_python(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs Python with the Pillow in `folder`, at the root of the repository."""
    path = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
    environment = os.environ | {"PYTHONPATH": path}
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def run_pytest(folder: Path, *arguments: str) -> None:
    result = run_python(folder, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments)
    assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-2000:]
    assert "skipped" not in result.stdout, result.stdout[-1000:]


@pytest.mark.parametrize("version", VERSIONS)
def test_oracles_hold_with_pillow(version: str) -> None:
    folder = install_pillow(version)
    assert run_python(folder, "-c", "import PIL; print(PIL.__version__)").stdout.strip() == version
    run_pytest(folder, *ORACLES)


@pytest.mark.parametrize("version", VERSIONS)
def test_epochs_of_every_recipe_equal_torchs_with_pillow(version: str) -> None:
    run_pytest(
        install_pillow(version), "tests/loader/test_recipes.py", "-k", "every_kind and (0-False or 2-True or 1-False)"
    )


# Prints the digest of each native recipe's first batches, and explain()'s row about the resize.
DIGESTS = """
import hashlib, pickle, sys
sys.path[:0] = ["tests", "tests/helpers"]
import torch, parity_recipes, fastload
from torchvision.datasets import ImageFolder
for name, recipe in parity_recipes.RECIPES.items():
    if recipe.is_native:
        torch.manual_seed(1)
        loader = fastload.DataLoader(ImageFolder(sys.argv[1], recipe.make()), batch_size=11, num_workers=1)
        batches = [pickle.dumps([view.numpy().tobytes() for view in images]) for images, _ in loader]
        print(name, [hashlib.sha256(batch).hexdigest() for batch in batches])
print("like plain Pillow" in loader.explain(), file=sys.stderr)
"""


def test_with_pillow_simd_native_batches_are_those_of_plain_pillow_of_the_same_version(clean_folder: Path) -> None:
    simd, problem = ensure_pillow_simd(ROOT / "build")
    if problem is not None:
        pytest.skip(problem)
    with_simd = run_python(simd, "-c", DIGESTS, str(clean_folder))
    plain = run_python(install_pillow(PILLOW_OF_SIMD), "-c", DIGESTS, str(clean_folder))
    assert plain.stdout.count("\n") > 5, plain.stderr
    assert with_simd.stdout == plain.stdout
    assert (with_simd.stderr.splitlines()[-1], plain.stderr.splitlines()[-1]) == ("True", "False")
