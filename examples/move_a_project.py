"""Moving a project: the loader it had, the loader it gets, and the proof that both give the same bytes.

    IMAGES=FOLDER python -m fastload verify examples/move_a_project.py:old_loader examples/move_a_project.py:new_loader
    python examples/move_a_project.py FOLDER --batches 50

FOLDER has a folder of images for every class. Either line prints a report and ends with 0 where every bit is equal, or
with 1 where something differs: then the report says in which step. The command ends with 2 where the two cannot be
compared. So a job of CI stops the change that makes them differ; move_a_project.yml is such a job. `verify` calls
functions without arguments, so these have the folder from a variable.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

import torch
from torchvision import datasets, transforms

import fastload


def open_images() -> datasets.ImageFolder:
    steps = [
        transforms.RandomResizedCrop(224, interpolation=transforms.InterpolationMode.BICUBIC),
        transforms.RandomHorizontalFlip(),
        transforms.ToTensor(),
        transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    ]
    return datasets.ImageFolder(os.environ["IMAGES"], transforms.Compose(steps))


def old_loader() -> torch.utils.data.DataLoader[Any]:
    """As the project has trained until now."""
    return torch.utils.data.DataLoader(
        open_images(), batch_size=16, shuffle=True, num_workers=2, pin_memory=torch.cuda.is_available()
    )


def new_loader() -> fastload.DataLoader[Any]:
    """What the project moves to. torch's random numbers depend on `num_workers`: it stays."""
    return fastload.DataLoader(open_images(), batch_size=16, shuffle=True, num_workers=2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--batches", type=int, default=50, help="how many batches are compared")
    options = parser.parse_args()

    os.environ["IMAGES"] = options.folder
    report = fastload.verify(old_loader(), new_loader(), batches=options.batches)
    print(report)
    sys.exit(0 if report.is_equal else 1)


if __name__ == "__main__":
    main()
