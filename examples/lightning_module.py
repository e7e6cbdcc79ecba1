"""A LightningModule and a data module that makes fastload's loaders instead of torch's.

    python examples/lightning_module.py FOLDER

FOLDER has a folder of images for every class. Lightning takes the loaders as they are, and with several processes puts
a DistributedSampler into new ones of the same class. `--loader torch` uses torch's loader: the losses are the same.
"""

from __future__ import annotations

import argparse
from typing import Any

import lightning
import torch
from torch import nn
from torchvision import datasets, transforms

import fastload

LOADERS = {"fastload": fastload.DataLoader, "torch": torch.utils.data.DataLoader}


class Images(lightning.LightningDataModule):
    """The images of a folder, in batches."""

    def __init__(self, folder: str, loader: str, batch_size: int, num_workers: int) -> None:
        super().__init__()
        self.make_loader = LOADERS[loader]
        self.settings: dict[str, Any] = {"batch_size": batch_size, "num_workers": num_workers, "shuffle": True}
        steps = [transforms.RandomResizedCrop(64), transforms.RandomHorizontalFlip(), transforms.ToTensor()]
        self.dataset = datasets.ImageFolder(folder, transforms.Compose(steps))

    def train_dataloader(self) -> Any:
        return self.make_loader(self.dataset, **self.settings)


class Classifier(lightning.LightningModule):
    """A small network that prints the loss of each step."""

    def __init__(self, num_classes: int) -> None:
        super().__init__()
        features = nn.Sequential(nn.Conv2d(3, 16, 5, stride=4), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten())
        self.network = nn.Sequential(features, nn.Linear(64, num_classes))

    def training_step(self, batch: Any, batch_index: int) -> torch.Tensor:
        images, labels = batch
        loss = nn.functional.cross_entropy(self.network(images), labels)
        print(f"epoch {self.current_epoch}, step {batch_index}: loss {loss.item()}")
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--loader", choices=LOADERS, default="fastload")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--workers", type=int, default=4)
    options = parser.parse_args()

    lightning.seed_everything(0)
    images = Images(options.folder, options.loader, options.batch_size, options.workers)
    names = ("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary")
    quiet: dict[str, Any] = dict.fromkeys(names, False)
    trainer = lightning.Trainer(max_epochs=options.epochs, **quiet)
    trainer.fit(Classifier(len(images.dataset.classes)), images)
    loader = trainer.train_dataloader
    if isinstance(loader, fastload.DataLoader):
        stats = loader.stats()
        print(f"native: {stats.samples_native} of {stats.samples} images")


if __name__ == "__main__":
    main()
