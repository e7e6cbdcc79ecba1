"""The Python of a page, run from its first block to its last, as a reader would: run_page(), in a child process.

The names that a page speaks of without making them are in `names_of_the_reader`. A block whose first line is the name
of a file, ``# loaders.py``, becomes that file. Pages in WITH_COMMANDS make all that they use; their commands run, too.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch
import torchvision_shim  # noqa: F401
from architecture.documents import Block, blocks
from image_folders import save_jpeg
from torchvision import datasets, transforms

import fastload

WITH_COMMANDS = {"docs/guide.md"}


def is_run(block: Block) -> bool:
    """Returns whether run_page() runs the block."""
    is_command = block.language == "bash" and block.page in WITH_COMMANDS
    return is_command or (block.language == "python" and not block.is_fragment)


def run_page(page: str) -> int:
    """Runs a page's blocks in the current folder. Returns how many; raises what they raise."""
    sys.path.insert(0, str(Path.cwd()))
    names = {} if page in WITH_COMMANDS else names_of_the_reader()
    wanted = [block for block in blocks(page) if is_run(block)]
    for block in wanted:
        if block.language == "bash":
            run_commands(block)
        elif named := re.match(r"# (\w+\.py)\n", block.code):
            Path(named[1]).write_text(block.code)
        else:
            code = "\n" * (block.line - 1) + on_this_machine(block.code)
            exec(compile(code, page, "exec"), names)
    return len(wanted)


def on_this_machine(code: str) -> str:
    """Returns `code` with the reader's `gpu` instead of "cuda", which this machine may lack."""
    return code.replace('device="cuda"', "device=gpu")


def run_commands(block: Block) -> None:
    """Runs the commands in a shell whose Python is this one."""
    shim = Path("shim", "sitecustomize.py")
    shim.parent.mkdir(exist_ok=True)
    shim.write_text("import torchvision_shim\n")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    paths = os.pathsep.join([str(shim.parent.resolve()), *filter(None, [os.environ.get("PYTHONPATH")])])
    subprocess.run(["bash", "-euc", block.code], check=True, env={**os.environ, "PATH": path, "PYTHONPATH": paths})


def names_of_the_reader() -> dict[str, Any]:
    """Returns the objects that pages name and do not make, and makes the files that they name."""
    for number in range(12):
        save_jpeg(Path("train", f"class{number % 3}", f"{number:02}.jpg"), number, 90 + 10 * number, 120)
    save_jpeg(Path("cat.jpg"), 1, 500, 375)
    transform = transforms.Compose([transforms.RandomResizedCrop(32), transforms.ToTensor()])
    dataset = datasets.ImageFolder("train", transform)
    os.environ.setdefault("LOCAL_RANK", "0")
    return {
        "os": os,
        "torch": torch,
        "fastload": fastload,
        "datasets": datasets,
        "transform": transform,
        "dataset": dataset,
        "sampler": torch.utils.data.SequentialSampler(dataset),
        "train": lambda images, labels: None,
        "old_loader": torch.utils.data.DataLoader(dataset, batch_size=4),
        "new_loader": fastload.DataLoader(dataset, batch_size=4),
        "gpu": a_gpu(),
    }


def a_gpu() -> Any:
    """Returns the `device` for "cuda": the real one if there is a GPU, else a fake GPU that a thread steps."""
    if torch.cuda.is_available():
        return "cuda"
    sys.path.append(str(Path(__file__).resolve().parents[1] / "device"))
    from devices import Played

    return Played(1).handle
