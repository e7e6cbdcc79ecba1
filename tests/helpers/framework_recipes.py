"""The recipes of docs/frameworks.md, run as they stand there and once more with torch's own loader."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any

import torch
from numbered import Numbered
from torch import nn

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "frameworks.md"
NUM_CLASSES = 3
NUM_IMAGES = 14

# Replacements that turn fastload's program into torch's.
_TORCH_INSTEAD = {
    "fastload.patch_torch()": "__import__('contextlib').nullcontext()",
    "fastload.DataLoader": "torch.utils.data.DataLoader",
    'num_workers="auto"': "num_workers=1",
}


def recipe(title: str) -> str:
    """Returns the code under a heading of the document."""
    pattern = rf"^##+ {re.escape(title)}\n+```python\n(.*?)^```"
    found = re.search(pattern, DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)
    assert found is not None, title
    return found[1]


def run_recipe(title: str, names: dict[str, Any], *, with_torch: bool = False, num_workers: int = 2) -> dict[str, Any]:
    """Runs it with these names defined, and returns all names it has afterwards."""
    code = recipe(title).replace("num_workers=2", f"num_workers={num_workers}")
    if with_torch:
        assert "fastload." in code, title
        for mine, theirs in _TORCH_INSTEAD.items():
            code = code.replace(mine, theirs)
        code = "import torch\n" + code
    namespace = dict(names)
    exec(compile(code, f"{DOCUMENT.name}, {title}", "exec"), namespace)
    return namespace


class Recording(nn.Module):
    """A tiny model that keeps a digest of every batch of images it is given, and of the labels where it gets them."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, NUM_CLASSES)
        self.seen: list[str] = []

    def forward(self, images: torch.Tensor, labels: torch.Tensor | None = None) -> Any:
        self.seen.append(digest(images) if labels is None else f"{digest(images)} {labels.tolist()}")
        logits = self.linear(images.float().mean((2, 3)))
        if labels is None:
            return logits
        return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}


def digest(images: torch.Tensor) -> str:
    """Returns digests that are equal exactly if shape, type and bytes are."""
    data = images.contiguous().view(torch.uint8).numpy().tobytes()
    return f"{tuple(images.shape)} {images.dtype} {hashlib.sha256(data).hexdigest()}"


def collate_as_dict(samples: list[Any]) -> dict[str, torch.Tensor]:
    """Collates samples into the arguments of models of transformers."""
    return {
        "images": torch.stack([image for image, _ in samples]),
        "labels": torch.tensor([label for _, label in samples]),
    }


class Drawing(Numbered):
    """Not native: sample i is i and what torch draws."""

    def sample(self, index: int) -> Any:
        return torch.rand(3, 8, 8) + index, index % NUM_CLASSES


def lightning_module() -> Any:
    """Returns a module that Lightning can train, with a Recording as its ``inner``; it keeps the labels."""
    import lightning

    class Module(lightning.LightningModule):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.inner = Recording()
            self.labels: list[list[int]] = []

        def training_step(self, batch: Any, batch_index: int) -> torch.Tensor:
            self.labels.append(batch[1].tolist())
            return nn.functional.cross_entropy(self.inner(batch[0]), batch[1] % NUM_CLASSES)

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), 0.1)

    return Module()


def lightning_checkpoints(folder: str | Path) -> list[Any]:
    """Returns callbacks that save a checkpoint after every step, and after every epoch."""
    from lightning.pytorch.callbacks import ModelCheckpoint

    keep = {"dirpath": folder, "save_top_k": -1, "auto_insert_metric_name": False}
    return [
        ModelCheckpoint(filename="{step}", every_n_train_steps=1, **keep),
        ModelCheckpoint(filename="end {epoch}", every_n_epochs=1, **keep),
    ]


def training_arguments(folder: str, **more: Any) -> Any:
    """Returns the Hugging Face Trainer's arguments, by default for a training that saves and logs nothing."""
    import transformers

    arguments = {
        "output_dir": folder,
        "per_device_train_batch_size": 4,
        "use_cpu": True,
        "report_to": [],
        "save_strategy": "no",
        "logging_strategy": "no",
        "disable_tqdm": True,
        "remove_unused_columns": False,
    }
    return transformers.TrainingArguments(**{**arguments, **more})
