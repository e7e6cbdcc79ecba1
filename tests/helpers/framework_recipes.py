"""The recipes of docs/frameworks.md, run as they stand there and once more with torch's own loader."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any

import torch
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


class Drawing(torch.utils.data.Dataset[Any]):
    """Not native: sample i is i and what torch draws."""

    def __len__(self) -> int:
        return 13

    def __getitem__(self, index: int) -> Any:
        return torch.rand(3, 8, 8) + range(len(self))[index], index % NUM_CLASSES


def lightning_module() -> Any:
    """Returns a module that Lightning can train, with a Recording as its ``inner``."""
    import lightning

    class Module(lightning.LightningModule):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.inner = Recording()

        def training_step(self, batch: Any, batch_index: int) -> torch.Tensor:
            return nn.functional.cross_entropy(self.inner(batch[0]), batch[1])

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), 0.1)

    return Module()
