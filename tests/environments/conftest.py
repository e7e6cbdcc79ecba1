"""Programs as users start them: scripts, Jupyter kernels, children with a small /dev/shm."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from children import RunChild
from image_folders import make_clean_folder
from loopback import need_loopback
from notebook_kernel import Notebook
from refused_calls import with_shared_memory_of


@pytest.fixture(scope="session")
def image_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Makes twelve JPEG images in class folders."""
    return make_clean_folder(tmp_path_factory.mktemp("environment"), 12)


@pytest.fixture
def run_script(run_child: RunChild, tmp_path: Path) -> RunChild:
    """Runs code as `python script.py`, so that processes which are spawned find and import the file."""

    def run(code: str, **arguments: object) -> subprocess.CompletedProcess[str]:
        script = tmp_path / "script.py"
        script.write_text(textwrap.dedent(code))
        return run_child(f"import os; os.execv({sys.executable!r}, [{sys.executable!r}, {str(script)!r}])", **arguments)

    return run


@pytest.fixture(scope="session")
def small_shared_memory() -> list[str]:
    """Returns the words to put before a command so that it gets a /dev/shm of 64 MB."""
    return with_shared_memory_of(64 << 10)


@pytest.fixture
def notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Notebook]:
    """Starts a kernel that does not see the user's configuration."""
    pytest.importorskip("jupyter_client", reason="needs jupyter_client and ipykernel, see tests/requirements.txt")
    pytest.importorskip("ipykernel", reason="needs jupyter_client and ipykernel, see tests/requirements.txt")
    need_loopback()
    for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
    notebook = Notebook(tmp_path)
    try:
        yield notebook
    finally:
        notebook.close()
