"""Training that can be stopped at any step and resumes there with the same batches.

    python examples/resume_training.py train --checkpoint run.pt
    torchrun --nproc-per-node 2 examples/resume_training.py train --checkpoint run.pt

Run again with the same arguments, it resumes from the checkpoint, which is written every --save-every steps and when a
cluster asks the job to end (SIGTERM). After `kill -9` the steps since the last checkpoint are repeated: with the same
images, in the same crops, and so with the same losses on the same machine. Each line shows a checksum of the step's
images to compare. The order is a function of seed and epoch (ShardedSampler), a crop a function of seed, epoch and
image (rng="sample"). So one state serves all ranks, and another number of ranks can resume from it. With
--on-error=replace the same other images replace the ones that cannot be loaded.
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
    """A model, its optimizer and its loader: the contents of a checkpoint."""

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
        """Replaces the old checkpoint in one step, so that a kill leaves one of them whole."""
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
    """Returns whether any rank was asked to stop, so that all of them stop after the same step."""
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
    print(f"rank {training.rank} finished after step {training.steps}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", help="a folder of images per class")
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--save-every", type=int, default=100, help="steps")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--on-error", choices=["raise", "replace"], default="raise", help="reaction to a bad file")
    options = parser.parse_args()

    rank, num_ranks = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))  # torchrun sets them
    if num_ranks > 1:
        dist.init_process_group("gloo")
    training = Training(options, rank, num_ranks)
    if options.checkpoint.exists():
        training.load(options.checkpoint)
        print(f"rank {rank} resumes after step {training.steps}")
    run(training, options)
    if num_ranks > 1:
        time.sleep(1)  # gloo's thread needs the GIL to release its last work
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
