"""A program of Ray Train that is killed with two workers and goes on with one: the recipe of docs/frameworks.md."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import ray
import ray.train
import ray.train.torch
import recipes
import torch
import torchvision_shim  # noqa: F401
from framework_recipes import digest, run_recipe
from torchvision.datasets import ImageFolder

GLOBAL_BATCH_SIZE = 4
EPOCHS = 2
STEPS_BEFORE_THE_KILL = 3


def make_dataset(config: dict[str, Any]) -> ImageFolder:
    return recipes.numbered_images(config["images"], recipes.training(32))


def train_step(config: dict[str, Any], images: torch.Tensor, labels: torch.Tensor) -> None:
    """Notes what came. Kills its process where `config` says so, when the step before it was saved by all."""
    context = ray.train.get_context()
    path = Path(config["output"], f"{context.get_world_size()}-{context.get_world_rank()}.jsonl")
    told = path.read_text().splitlines() if path.exists() else []
    if len(told) == config["kill_behind"]:
        torch.distributed.barrier()
        os.kill(os.getpid(), signal.SIGKILL)
    samples = [[int(label), digest(image)] for image, label in zip(images, labels, strict=True)]
    with path.open("a") as file:
        file.write(json.dumps(samples) + "\n")


def fit(num_workers: int, folder: Path, config: dict[str, Any]) -> None:
    """Trains. Raises ray.train.TrainingFailedError, or what it derives from: a worker was killed."""
    names = run_recipe("Ray Train", {"make_dataset": make_dataset, "train_step": train_step}, num_workers=1)
    ray.train.torch.TorchTrainer(
        names["train_loop"],
        train_loop_config=config,
        scaling_config=ray.train.ScalingConfig(num_workers=num_workers, resources_per_worker={"CPU": 0.5}),
        torch_config=ray.train.torch.TorchConfig(backend="gloo"),
        run_config=ray.train.RunConfig(storage_path=str(folder), name=f"{num_workers} workers"),
    ).fit()


def main(images: str, output: str) -> None:
    """Writes, of each rank of each run, the samples of its steps: a line of (index, digest) each in N-RANK.jsonl."""
    ray.init(num_cpus=2, include_dashboard=False)
    folder = Path(output)
    config: dict[str, Any] = {"images": images, "output": output, "epochs": EPOCHS, "checkpoint": None}
    config.update(global_batch_size=GLOBAL_BATCH_SIZE, kill_behind=STEPS_BEFORE_THE_KILL)
    try:
        fit(2, folder, config)
    except ray.train.TrainingFailedError:
        pass
    else:
        raise AssertionError("the workers were not killed")
    newest = max((path.parent for path in folder.rglob("loader.pt")), key=lambda path: path.name)
    fit(1, folder, {**config, "checkpoint": str(newest), "kill_behind": None})
    ray.shutdown()
