"""Words are spelled as a list of common mistakes has them."""

from __future__ import annotations

import subprocess
import sys

import pytest
from architecture.test_text import ROOT, text_files

pytest.importorskip("codespell_lib", reason="codespell is in tests/requirements.txt")

# Words that are meant as they stand.
WORDS = {
    "caf": "a name whose next byte is no UTF-8",
    "mede": "a photographer",
    "rotat": "what names of rotations begin with",
}


def test_codespell_finds_nothing() -> None:
    names = [str(path.relative_to(ROOT)) for path in text_files(ROOT)]
    command = [sys.executable, "-m", "codespell_lib", "--ignore-words-list", ",".join(WORDS), *names]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout) == (0, "")
