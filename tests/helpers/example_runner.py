"""Runs a file of examples/ as a user does, on a torchvision that imports: `example_runner.py NAME ARGUMENT...`"""

from __future__ import annotations

import faulthandler
import multiprocessing
import runpy
import sys
from pathlib import Path

import torch
import torchvision_shim  # noqa: F401

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

# Other programs run beside a test, and threads of torch wait for each other by spinning.
torch.set_num_threads(1)
# As in conftest.py: a worker process of torch that is not a fork would import torchvision without the help above.
if sys.version_info >= (3, 14):
    multiprocessing.set_start_method("fork", force=True)


def run(name: str, *arguments: str) -> None:
    """Runs the example as the main module."""
    sys.argv = [str(EXAMPLES / name), *arguments]
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    faulthandler.dump_traceback_later(120)  # before the test gives up
    run(*sys.argv[1:])
