"""Two views of each image, as for SimCLR: by the usual class, and by fastload.MultiView.

    python examples/simclr_views.py FOLDER

FOLDER has a folder of images for every class, few enough for the memory. The three loaders below give equal bytes:
each makes the first view, then the second, from the numbers that torch would have drawn. They differ in how they work.
fastload only knows that the usual class takes an image: a Python thread calls it, and native code makes a view each
time the class calls the pipeline. A MultiView declares two pipelines: the file is decoded once, and both views are
written into the batch without Python.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import torch
from torchvision import datasets, transforms

import fastload


class TwoCrops:
    """The class in most of these projects."""

    def __init__(self, transform: Any) -> None:
        self.transform = transform

    def __call__(self, image: Any) -> list[Any]:
        return [self.transform(image), self.transform(image)]


def simclr(size: int) -> transforms.Compose:
    jitter = transforms.ColorJitter(0.8, 0.8, 0.8, 0.2)
    return transforms.Compose(
        [
            transforms.RandomResizedCrop(size),
            transforms.RandomHorizontalFlip(),
            transforms.RandomApply([jitter], p=0.8),
            transforms.RandomGrayscale(p=0.2),
            transforms.GaussianBlur(size // 20 * 2 + 1, sigma=(0.1, 2.0)),
            transforms.ToTensor(),
        ]
    )


def count_equal(batches: list[Any], others: list[Any]) -> int:
    """Counts the batches with the same two views and the same labels, bit for bit."""
    pairs = zip(batches, others, strict=True)
    return sum(
        all(map(torch.equal, [*views, labels], [*other_views, other_labels]))
        for (views, labels), (other_views, other_labels) in pairs
    )


def share_without_python(loader: Any) -> float:
    if not isinstance(loader, fastload.DataLoader):
        return 0.0
    stats = loader.stats()
    return 1 - (stats.samples_python + stats.samples_python_tail) / stats.samples


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()

    pipeline = simclr(options.size)
    two_crops = datasets.ImageFolder(options.folder, TwoCrops(pipeline))
    multi_view = datasets.ImageFolder(options.folder, fastload.MultiView([pipeline, pipeline]))
    contenders = {
        "torch, TwoCrops": (torch.utils.data.DataLoader, two_crops),
        "fastload, TwoCrops": (fastload.DataLoader, two_crops),
        "fastload, MultiView": (fastload.DataLoader, multi_view),
    }
    reference: list[Any] = []
    print(f"{'loader':<20} {'equal batches':>14} {'images without Python':>22} {'seconds, next epoch':>20}")
    for name, (kind, dataset) in contenders.items():
        torch.manual_seed(0)
        loader = kind(dataset, options.batch_size, shuffle=True, num_workers=options.workers)
        batches = list(loader)
        reference = reference or batches
        equal = f"{count_equal(batches, reference)} of {len(batches)}"
        begin = time.perf_counter()
        for _ in loader:
            pass
        seconds = time.perf_counter() - begin
        print(f"{name:<20} {equal:>14} {share_without_python(loader):>22.0%} {seconds:>20.2f}")


if __name__ == "__main__":
    main()
