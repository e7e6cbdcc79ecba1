"""Training with a framework, whole or from a checkpoint, each time in a process of its own.

The recipes for resuming of docs/frameworks.md are run as they stand there.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import recipes
import torch
import torchvision_shim  # noqa: F401
from framework_recipes import (
    Drawing,
    Recording,
    collate_as_dict,
    lightning_checkpoints,
    lightning_module,
    run_recipe,
    training_arguments,
)
from torchvision.datasets import ImageFolder

BATCHES = 4  # of an epoch
EPOCHS = 3


@dataclass(frozen=True)
class Run:
    """One process: what it trains with, and from where.

    Attributes:
        title: The recipe's title.
        kind: The kind of data set, "images" or "in Python".
        num_workers: Replaces the recipe's number.
        checkpoint: Names the checkpoint that the run resumes from: a number of steps, as text, or the end of an epoch,
            "end 0"; None for the whole run.
    """

    title: str
    kind: str
    num_workers: int
    checkpoint: str | None = None

    def dataset(self, images: str) -> Any:
        return Drawing(13) if self.kind == "in Python" else ImageFolder(images, recipes.training(32))


def with_lightning(run: Run, images: str, folder: Path) -> list[str]:
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    callbacks = lightning_checkpoints(folder)
    options: dict[str, Any] = {"accelerator": "cpu", "logger": False}
    options.update(enable_progress_bar=False, enable_model_summary=False)
    if "torch's" not in run.title:
        options["callbacks"] = callbacks
    model = lightning_module()
    checkpoint = None if run.checkpoint is None else str(folder / f"{run.checkpoint}.ckpt")
    names = {"dataset": run.dataset(images), "model": model, "options": options, "callbacks": callbacks}
    run_recipe(run.title, {**names, "checkpoint": checkpoint}, num_workers=run.num_workers)
    return list(model.inner.seen)


def with_accelerate(run: Run, images: str, folder: Path) -> list[str]:
    model = Recording()
    names = {
        "dataset": run.dataset(images),
        "model": model,
        "optimizer": torch.optim.SGD(model.parameters(), 0.1),
        "options": {"cpu": True},
        "checkpoint": None if run.checkpoint is None else str(folder / run.checkpoint),
        "save": lambda accelerator: accelerator.save_state(str(folder / str(len(model.seen)))),
    }
    if run.checkpoint is not None:
        names["save"] = lambda accelerator: None
    run_recipe(run.title, names, num_workers=run.num_workers)
    return model.seen


def with_trainer(run: Run, images: str, folder: Path) -> list[str]:
    saving = {"save_strategy": "steps", "save_steps": 1, "ignore_data_skip": True}
    arguments = training_arguments(str(folder), num_train_epochs=EPOCHS, **saving)
    model = Recording()
    names = {"dataset": run.dataset(images), "model": model, "arguments": arguments, "collate": collate_as_dict}
    names["checkpoint"] = None if run.checkpoint is None else str(folder / f"checkpoint-{run.checkpoint}")
    run_recipe(run.title, {**names, "callbacks": []}, num_workers=run.num_workers)
    return model.seen


WAYS: dict[str, Callable[[Run, str, Path], list[str]]] = {
    "Resuming Lightning": with_lightning,
    "Resuming Lightning with torch's random numbers": with_lightning,
    "Resuming Accelerate": with_accelerate,
    "Resuming a loader that Accelerate prepared": with_accelerate,
    "Resuming the Trainer": with_trainer,
}
_IMPORTS = {with_lightning: "lightning", with_accelerate: "accelerate", with_trainer: "transformers.trainer"}


def run_all(title: str, kind: str, num_workers: int, images: str, folder: str, checkpoints: Sequence[str]) -> None:
    """Writes the batches of the whole run, and of those that go on from `checkpoints`, to RUN.json in `folder`."""
    warnings.simplefilter("ignore")  # of the frameworks, about few batches
    importlib.import_module(_IMPORTS[WAYS[title]])
    for checkpoint in (None, *checkpoints):
        run = Run(title, kind, num_workers, checkpoint)
        pid = os.fork()
        if pid == 0:
            _end_with(lambda run=run: _write(run, images, Path(folder)))
        if os.waitpid(pid, 0)[1] != 0:
            sys.exit(f"{run} failed")


def _write(run: Run, images: str, folder: Path) -> None:
    torch.manual_seed(0 if run.checkpoint is None else 1)
    seen = WAYS[run.title](run, images, folder)
    (folder / f"{run.checkpoint}.json").write_text(json.dumps(seen))


def _end_with(function: Callable[[], None]) -> None:
    status = 1
    try:
        function()
        status = 0
    except BaseException:  # noqa: BLE001 - this child must not go on as its parent
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)
