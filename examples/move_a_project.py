"""Moving a project: the old loader, the new loader, and a proof that both give the same bytes.

    IMAGES=FOLDER python -m fastload verify examples/move_a_project.py:old_loader examples/move_a_project.py:new_loader
    python examples/move_a_project.py FOLDER --batches 50

FOLDER has a folder of images for every class. Either line prints a report and exits with 0 if every bit is equal, or
with 1 if something differs; the report then names the step. The command exits with 2 if the two cannot be compared. So
a CI job stops a change that makes them differ; move_a_project.yml is one. `verify` calls functions without arguments,
so these take the folder from a variable.
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
    """Makes the loader that the project has used until now."""
    return torch.utils.data.DataLoader(
        open_images(), batch_size=16, shuffle=True, num_workers=2, pin_memory=torch.cuda.is_available()
    )


def new_loader() -> fastload.DataLoader[Any]:
    """Makes the new loader. `num_workers` stays the same, because torch's random numbers depend on it."""
    return fastload.DataLoader(open_images(), batch_size=16, shuffle=True, num_workers=2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--batches", type=int, default=50, help="number of batches to compare")
    options = parser.parse_args()

    os.environ["IMAGES"] = options.folder
    report = fastload.verify(old_loader(), new_loader(), batches=options.batches)
    print(report)
    sys.exit(0 if report.is_equal else 1)


if __name__ == "__main__":
    main()
