"""A data set of your own: a table of files and labels, and a __getitem__ that opens each file with Pillow.

    python examples/own_dataset.py labels.csv

labels.csv has the columns `file`, relative to the table's folder, and `label`. The class is written for torch's loader
and knows nothing of fastload. Threads call it, and an image that it opens there has no pixels until they are needed:
then native code decodes the part that the transform shows.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torchvision import transforms

import fastload


class LabelledFiles(torch.utils.data.Dataset[tuple[Any, int]]):
    """Sample i is row i of the table: the image through `transform`, and the index of its label."""

    def __init__(self, table: Path, transform: Any) -> None:
        with table.open(newline="") as lines:
            rows = list(csv.DictReader(lines))
        self.files = [table.parent / row["file"] for row in rows]
        self.names = sorted({row["label"] for row in rows})
        self.labels = [self.names.index(row["label"]) for row in rows]
        self.transform = transform

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        image = Image.open(self.files[index]).convert("RGB")
        return self.transform(image), self.labels[index]


TRAINING = transforms.Compose(
    [
        transforms.RandomResizedCrop(224),
        transforms.RandomHorizontalFlip(),
        transforms.ToTensor(),
        transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    ]
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=Path)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--workers", type=int, default=4)
    options = parser.parse_args()

    dataset = LabelledFiles(options.table, TRAINING)
    loader = fastload.DataLoader(dataset, options.batch_size, shuffle=True, num_workers=options.workers)
    for number, (images, labels) in enumerate(loader):
        print(f"batch {number}: {tuple(images.shape)}, labels {labels.tolist()}")
    stats = loader.stats()
    print(f"files opened: {stats.images_opened}, decoded natively: {stats.images_native}")
    for reason, count in stats.image_fallback_reasons.items():
        print(f"by Pillow, {reason}: {count}")


if __name__ == "__main__":
    main()
