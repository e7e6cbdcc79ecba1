"""The documentation site builds without a warning, has every public name, and asks nothing of other hosts."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from architecture.documents import BOOK, ROOT

import fastload


@pytest.mark.slow
def test_the_site_builds_and_is_complete(tmp_path: Path) -> None:
    command = ["make", "docs", f"SITE={tmp_path}"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=600)
    assert result.returncode == 0, result.stderr  # as with any warning
    pages = {path.name: path.read_text() for path in tmp_path.glob("*.html")}
    assert {Path(page).stem + ".html" for page in BOOK if page.startswith("docs/")} <= set(pages)
    documented = set(re.findall(r'id="fastload\.(\w+)"', pages["reference.html"]))
    assert documented == set(fastload.__all__) - {"__version__"}
    asked = [url for text in pages.values() for url in re.findall(r'<(?:link|script|img)[^>]*="(https?:[^"]*)"', text)]
    assert asked == []
