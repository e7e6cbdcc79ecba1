"""A data set that calls an op which only a GPU has, in worker threads: python examples/cuda_op_in_dataset.py

Worker processes cannot do this: CUDA cannot be used in a forked child, and a spawned one needs a context of its own,
with hundreds of megabytes for each worker. Threads share the program's. Here it is the distance of random points to a
cloud, as kaolin.metrics.pointcloud.sided_distance would give it.
"""

from __future__ import annotations

import time

import torch

import fastload


class PointDistances(torch.utils.data.Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """Sample i: 4096 points around shape i, and how far each is from the shape's nearest point. On the GPU."""

    def __init__(self, num_shapes: int = 256) -> None:
        self.shapes = torch.rand(num_shapes, 2048, 3, device="cuda")

    def __len__(self) -> int:
        return len(self.shapes)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        points = torch.rand(4096, 3, device="cuda")
        return points, torch.cdist(points, self.shapes[index]).amin(dim=1)


def main() -> None:
    if not torch.cuda.is_available():
        print("this example needs a GPU")
        return
    loader = fastload.DataLoader(PointDistances(), batch_size=16, num_workers=4)
    print(loader.explain())
    begin = time.perf_counter()
    total = torch.zeros((), device="cuda")
    for _, distances in loader:  # ordered behind the threads' work on the stream that is current here
        total += distances.mean()
    print(f"{total.item() / len(loader):.5f} on average, {time.perf_counter() - begin:.2f} s")


if __name__ == "__main__":
    main()
