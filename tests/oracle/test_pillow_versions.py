"""The oracles of the transforms once more, against the older Pillows whose pass order differs from 13's.

Each version is installed once by ``pip install --target`` under build/pillow (FASTLOAD_PILLOW_DIR: elsewhere) and goes
in front of the installed one through PYTHONPATH, in a pytest of its own.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ORACLES = [f"tests/oracle/test_{name}.py" for name in ("resize", "transforms", "pixel_ops", "geometry_steps")]


def cache_folder() -> Path:
    return Path(os.environ.get("FASTLOAD_PILLOW_DIR") or ROOT / "build" / "pillow")


def install_pillow(version: str) -> Path:
    """The folder with Pillow `version`. Skips where it is neither cached nor to be had; in CI that is a failure."""
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


@pytest.mark.parametrize("version", ["11.3.0", "12.1.1", "12.3.0"])
def test_oracles_hold_with_pillow(version: str) -> None:
    folder = install_pillow(version)
    path = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
    environment = os.environ | {"PYTHONPATH": path}

    def run_python(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, *arguments]
        return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)

    assert run_python("-c", "import PIL; print(PIL.__version__)").stdout.strip() == version
    result = run_python("-m", "pytest", "-q", "-p", "no:cacheprovider", *ORACLES)
    assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-2000:]
    assert "skipped" not in result.stdout, result.stdout[-1000:]
