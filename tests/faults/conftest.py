"""Children with a loader."""

from __future__ import annotations

import subprocess
import textwrap
from pathlib import Path

import pytest
from children import RunChild
from failing_calls import compile_shim
from image_folders import make_clean_folder

PRELUDE = """
import atexit, gc, hashlib, itertools, os, resource, signal, sys, threading, time
import torch
import fastload
from both_loaders import Threads
from child_loader import (
    make_loader, make_python_part_loader, num_native_threads, num_threads, python_part_threads, wait_for, with_noise,
)
from held import resident_mib
"""


@pytest.fixture(scope="session")
def child_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Makes the twelve images that a child's loaders repeat."""
    return make_clean_folder(tmp_path_factory.mktemp("child"), 12)


@pytest.fixture
def run_loader_child(run_child: RunChild, child_folder: Path) -> RunChild:
    """Returns run_child with the names of child_loader.py and the usual modules imported."""

    def run(code: str, **arguments: object) -> subprocess.CompletedProcess[str]:
        env = {"FASTLOAD_TEST_FOLDER": str(child_folder)}
        return run_child(PRELUDE + textwrap.dedent(code), env=env, warm=True, **arguments)

    return run


@pytest.fixture(scope="session")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Builds the library that makes calls fail, for LD_PRELOAD."""
    library = compile_shim(tmp_path_factory.mktemp("shim"))
    if library is None:
        pytest.skip("no C compiler")
    return library
