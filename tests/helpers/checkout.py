"""Git's knowledge of the checkout. Tests run without git, and in a tree that is no repository."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def files() -> list[Path]:
    """Returns tracked files and candidates, relative to ROOT, sorted. Raises CalledProcessError: not a repository."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0")
    return [Path(name) for name in sorted({*names} - {""}) if (ROOT / name).is_file()]


def commit() -> str:
    """Returns the abbreviated hash of the checked-out commit; "unknown" without git or a repository."""
    if shutil.which("git") is None:
        return "unknown"
    command = ["git", "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout.strip() or "unknown"
