"""The reference: torch's DataLoader over torchvision's ImageFolder and PIL transforms."""

from __future__ import annotations

from torch.utils.data import DataLoader

from benchmarks._protocol import LoaderSettings
from benchmarks.contenders._base import Batches, Contender
from benchmarks.contenders._torch_common import image_folder, open_loader, pil_transform


class TorchPil(Contender):
    def unavailable_because(self) -> str | None:
        try:
            pil_transform("eval")
        except ImportError as error:
            return f"{type(error).__name__}: {error}"
        return None

    def details(self) -> dict[str, str]:
        from PIL import features

        return {"libjpeg-turbo of Pillow": str(features.version("libjpeg_turbo"))}

    def open(self, settings: LoaderSettings) -> Batches:
        return open_loader(DataLoader, image_folder(settings, pil_transform(settings.mode, settings.output)), settings)
