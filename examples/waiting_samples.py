"""The textbook case for workers: 1,024 samples, each of which waits 5 ms, as for a database or another machine.

    python examples/waiting_samples.py

One after the other they take 5 s; eight workers wait for eight at a time. torch starts eight processes for that. Code
that waits needs no process of its own: with workers="threads", fastload starts eight threads of this process. The table
shows the time of an epoch, including the start of the workers.
"""

from __future__ import annotations

import argparse
import functools
import os
import time

import torch

import fastload


class Waiting(torch.utils.data.Dataset[tuple[int, int]]):
    """Sample i is i, and the process that made it."""

    def __init__(self, num_samples: int, milliseconds: float) -> None:
        self.num_samples = num_samples
        self.milliseconds = milliseconds

    def __len__(self) -> int:
        return self.num_samples

    def __getitem__(self, index: int) -> tuple[int, int]:
        time.sleep(self.milliseconds / 1000)
        return index, os.getpid()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=1024)
    parser.add_argument("--milliseconds", type=float, default=5.0)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--workers", type=int, nargs="+", default=[0, 8])
    options = parser.parse_args()

    dataset = Waiting(options.samples, options.milliseconds)
    print(f"{'loader':<10} {'workers':>7} {'processes':>9} {'samples':>7} {'seconds':>8} {'speed-up':>8}")
    threads = functools.partial(fastload.DataLoader, workers="threads")
    for name, kind in (("torch", torch.utils.data.DataLoader), ("fastload", threads)):
        first_seconds = 0.0
        for num_workers in options.workers:
            loader = kind(dataset, options.batch_size, num_workers=num_workers)
            begin = time.perf_counter()
            batches = list(loader)
            seconds = time.perf_counter() - begin
            first_seconds = first_seconds or seconds
            # The order is the data set's, whichever worker was first.
            assert torch.cat([indices for indices, _ in batches]).tolist() == list(range(options.samples))
            processes = {os.getpid(), *torch.cat([makers for _, makers in batches]).tolist()}
            print(
                f"{name:<10} {num_workers:>7} {len(processes):>9} {options.samples:>7} {seconds:>8.2f} "
                f"{first_seconds / seconds:>7.1f}x"
            )


if __name__ == "__main__":
    main()
