"""Training that may be stopped at any step, and goes on there with the same batches.

    python examples/resume_training.py train --checkpoint run.pt
    torchrun --nproc-per-node 2 examples/resume_training.py train --checkpoint run.pt

Started again with the same words, it goes on from the checkpoint. That is written every --save-every steps, and when a
cluster asks the job to end (SIGTERM). After `kill -9` the steps since the last one are done again: with the same
images, in the same crops, and so with the same losses on the same machine. Each line shows a step's checksum of its
images to compare. The order is a function of the seed and of the epoch (ShardedSampler), and a crop of the seed, the
epoch and the image alone (rng="sample"); so one state serves all ranks, and another number of them can go on from it.
With --on-error=replace the same other images stand in for those that cannot be loaded.
"""

from __future__ import annotations

import argparse
import os
import signal
import time
import zlib
from pathlib import Path

import torch
import torch.distributed as dist
from torchvision import datasets, transforms

import fastload

CROP = transforms.RandomResizedCrop(64)
TRAINING = transforms.Compose([CROP, transforms.RandomHorizontalFlip(), transforms.ToTensor()])


class Training:
    """A model, its optimizer and its loader; what a checkpoint holds."""

    def __init__(self, options: argparse.Namespace, rank: int, num_ranks: int) -> None:
        self.rank = rank
        dataset = datasets.ImageFolder(options.root, TRAINING)
        self.sampler = fastload.ShardedSampler(dataset, num_replicas=num_ranks, rank=rank, seed=options.seed)
        seeded = {"rng": "sample", "seed": options.seed, "on_error": options.on_error}
        self.loader = fastload.DataLoader(dataset, 8, sampler=self.sampler, num_workers=options.workers, **seeded)
        torch.manual_seed(options.seed)
        self.model = torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(8), torch.nn.Flatten(), torch.nn.Linear(192, 100))
        self.network = torch.nn.parallel.DistributedDataParallel(self.model) if num_ranks > 1 else self.model
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)
        self.steps = 0

    def save(self, path: Path) -> None:
        """Puts the new checkpoint in the old one's place at once: a kill leaves one of them whole."""
        kept = {name: getattr(self, name).state_dict() for name in ("model", "optimizer", "loader")}
        if self.rank == 0:
            torch.save({**kept, "steps": self.steps}, path.with_suffix(".new"))
            path.with_suffix(".new").replace(path)

    def load(self, path: Path) -> None:
        kept = torch.load(path, weights_only=True)
        self.steps = kept.pop("steps")
        for name, state in kept.items():
            getattr(self, name).load_state_dict(state)

    def train_step(self, images: torch.Tensor, labels: torch.Tensor) -> float:
        self.optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(self.network(images), labels)
        loss.backward()
        self.optimizer.step()
        self.steps += 1
        return loss.item()


def asked_of_any(is_asked: bool) -> bool:
    """Whether one of the ranks was asked to stop: all of them stop behind the same step."""
    flag = torch.tensor(int(is_asked))
    if dist.is_initialized():
        dist.all_reduce(flag)
    return bool(flag)


def run(training: Training, options: argparse.Namespace) -> None:
    signals: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: signals.append(number))
    while training.loader.epoch < options.epochs:
        epoch = training.loader.epoch
        training.sampler.set_epoch(epoch)
        for images, labels in training.loader:
            loss = training.train_step(images, labels)
            checksum = zlib.crc32(images.numpy())
            print(f"rank {training.rank} epoch {epoch} step {training.steps} loss {loss:.6f} images {checksum:08x}")
            must_stop = asked_of_any(bool(signals))
            if must_stop or training.steps % options.save_every == 0:
                training.save(options.checkpoint)
            if must_stop:
                return
    training.save(options.checkpoint)
    print(f"rank {training.rank} finished behind step {training.steps}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", help="a folder of images per class")
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--save-every", type=int, default=100, help="steps")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--on-error", choices=["raise", "replace"], default="raise", help="what a bad file does")
    options = parser.parse_args()

    rank, num_ranks = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))  # torchrun sets them
    if num_ranks > 1:
        dist.init_process_group("gloo")
    training = Training(options, rank, num_ranks)
    if options.checkpoint.exists():
        training.load(options.checkpoint)
        print(f"rank {rank} goes on behind step {training.steps}")
    run(training, options)
    if num_ranks > 1:
        time.sleep(0.1)  # gloo's thread lets go of its last work, for which it needs the GIL
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
