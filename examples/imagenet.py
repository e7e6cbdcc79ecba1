"""Trains a network on ImageNet: on a GPU, on the CPU, or with one process per GPU.

    python examples/imagenet.py IMAGENET
    torchrun --nproc-per-node=8 examples/imagenet.py IMAGENET

IMAGENET holds train/ and val/, each with a folder of images for every class. Only the loaders differ from a program for
torch: `--loader torch` uses torch's, and on the CPU every loss and accuracy is the same.
"""

from __future__ import annotations

import argparse
import os
import time
from typing import Any

import torch
from torch import distributed
from torch.nn.functional import cross_entropy
from torch.utils.data import DistributedSampler, Subset
from torchvision import datasets, models
from torchvision import transforms as T

import fastload

RANK, NUM_RANKS = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))


def open_images(folder: str, *geometry: Any) -> datasets.ImageFolder:
    to_tensor = [T.ToTensor(), T.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))]
    return datasets.ImageFolder(folder, T.Compose([*geometry, *to_tensor]))


def make_loader(options: argparse.Namespace, device: torch.device, dataset: Any, sampler: Any = None) -> Any:
    settings = {"batch_size": options.batch_size, "sampler": sampler, "num_workers": options.workers}
    if options.loader == "torch":
        return torch.utils.data.DataLoader(dataset, **settings, pin_memory=device.type == "cuda")
    return fastload.DataLoader(dataset, **settings, device=device)  # the batches arrive there


def sum_of_ranks(values: torch.Tensor) -> Any:
    if NUM_RANKS > 1:
        distributed.all_reduce(values)
    return values.tolist()


def train_epoch(model: Any, optimizer: Any, loader: Any, device: torch.device) -> list[float]:
    """Returns the loss of each step, the mean over the ranks."""
    model.train()
    losses = []
    for images, labels in loader:
        loss = cross_entropy(model(images.to(device, non_blocking=True)), labels.to(device, non_blocking=True))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())  # loss.item() would make the CPU wait for the GPU
    return [loss / NUM_RANKS for loss in sum_of_ranks(torch.stack(losses))]


@torch.no_grad()
def count_right(network: Any, loader: Any, device: torch.device) -> Any:
    """Counts over all ranks. Without DistributedDataParallel, which waits for ranks that may have a batch less."""
    network.eval()
    for buffer in network.buffers() if NUM_RANKS > 1 else []:
        distributed.broadcast(buffer, 0)  # the statistics of batch normalisation
    num_right = torch.zeros((), device=device)
    for images, labels in loader:
        num_right += (network(images.to(device)).argmax(dim=1) == labels.to(device)).sum()
    return sum_of_ranks(num_right)


def train(options: argparse.Namespace, device: torch.device) -> None:
    torch.manual_seed(RANK)  # each rank crops its images differently
    train_images = open_images(f"{options.folder}/train", T.RandomResizedCrop(options.size), T.RandomHorizontalFlip())
    val_images = open_images(f"{options.folder}/val", T.Resize(options.size * 8 // 7), T.CenterCrop(options.size))
    train_loader = make_loader(options, device, train_images, DistributedSampler(train_images, NUM_RANKS, RANK))
    # Each rank has its own part of the images. A DistributedSampler would give some images to two ranks.
    val_loader = make_loader(options, device, Subset(val_images, range(RANK, len(val_images), NUM_RANKS)))
    model = network = models.get_model(options.model, num_classes=len(train_images.classes)).to(device)
    if NUM_RANKS > 1:
        model = torch.nn.parallel.DistributedDataParallel(network)
    optimizer = torch.optim.SGD(model.parameters(), options.learning_rate, momentum=0.9, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, options.epochs)
    for epoch in range(options.epochs):
        train_loader.sampler.set_epoch(epoch)
        begin = time.perf_counter()
        losses = train_epoch(model, optimizer, train_loader, device)
        speed = len(train_images) / (time.perf_counter() - begin)
        schedule.step()
        accuracy = count_right(network, val_loader, device) / len(val_images)
        if RANK == 0:
            for step in range(0, len(losses), options.print_every):
                print(f"epoch {epoch}, step {step}: loss {losses[step]}")
            print(f"epoch {epoch}: accuracy {accuracy}, {speed:.0f} images/s")
    if RANK == 0 and (stats := getattr(train_loader, "stats", None)):
        print(f"native: {stats().samples_native} of {stats().samples} images to train on")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--loader", choices=["fastload", "torch"], default="fastload")
    parser.add_argument("--model", default="resnet50", help="one of torchvision's")
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--epochs", type=int, default=90)
    parser.add_argument("--batch-size", type=int, default=256, help="per process")
    parser.add_argument("--workers", type=int, default=8, help="per process: threads, or torch's processes")
    parser.add_argument("--learning-rate", type=float, default=0.1)
    parser.add_argument("--print-every", type=int, default=100, help="steps between two printed losses")
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0"))) if torch.cuda.is_available() else None
    if NUM_RANKS > 1:
        distributed.init_process_group("nccl" if device else "gloo")
    train(parser.parse_args(), device or torch.device("cpu"))
    if NUM_RANKS > 1:
        time.sleep(1)  # gloo's thread needs the GIL to release its last work
        distributed.destroy_process_group()


if __name__ == "__main__":
    main()
