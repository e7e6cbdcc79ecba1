"""The folder of pillow-simd, which cannot be installed beside Pillow."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

REQUIREMENT = "pillow-simd==12.1.1.post0"


def ensure_pillow_simd(cache: Path) -> tuple[Path, str | None]:
    """Builds pillow-simd with pip into a folder below `cache`, once per Python version.

    Returns: the folder to put in front of a child's path, and why it is not available (None if it is). The usual reason
    is that libjpeg's headers are missing: there is no wheel of it.
    """
    folder = cache / f"pillow-simd-{sys.implementation.cache_tag}"
    if (folder / "PIL").is_dir():
        return folder, None
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--retries", "1", "--timeout", "15"]
    command += ["--no-deps", "--target", str(folder), REQUIREMENT]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        return folder, f"pip could not install {REQUIREMENT}: {_first_error(result.stdout + result.stderr)}"
    return folder, None


def _first_error(output: str) -> str:
    """Returns the most telling line of pip's output."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    for marker in ("headers or library files could not be found", "RequiredDependencyException", "ERROR", "error"):
        for line in lines:
            if marker in line:
                return line
    return lines[-1] if lines else "pip said nothing"
