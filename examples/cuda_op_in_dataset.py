"""A data set that calls an op on the GPU, in worker threads: python examples/cuda_op_in_dataset.py

Worker processes cannot do this: a forked child cannot use CUDA, and a spawned one needs its own context, with hundreds
of megabytes for each worker. Threads share the program's context. Here the op is the distance of random points to a
cloud, as in kaolin.metrics.pointcloud.sided_distance. `--device cpu` shows the same without a GPU.
"""

from __future__ import annotations

import argparse
import time

import torch

import fastload


class PointDistances(torch.utils.data.Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """Sample i, on the device: 4096 points around shape i, and the distance of each to the shape's nearest point."""

    def __init__(self, num_shapes: int, device: str) -> None:
        self.device = device
        self.shapes = torch.rand(num_shapes, 2048, 3, device=device)

    def __len__(self) -> int:
        return len(self.shapes)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        points = torch.rand(4096, 3, device=self.device)
        return points, torch.cdist(points, self.shapes[index]).amin(dim=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--shapes", type=int, default=256)
    options = parser.parse_args()
    if options.device.startswith("cuda") and not torch.cuda.is_available():
        print("this example needs a GPU, or --device cpu")
        return

    loader = fastload.DataLoader(PointDistances(options.shapes, options.device), batch_size=16, num_workers=4)
    print(loader.explain())
    begin = time.perf_counter()
    total = torch.zeros((), device=options.device)
    for _, distances in loader:  # the current stream waits for the threads' work
        total += distances.mean()
    print(f"{total.item() / len(loader):.5f} on average, {time.perf_counter() - begin:.2f} s")


if __name__ == "__main__":
    main()
