"""What torchvision's presets do, as transforms of torchvision's."""

from __future__ import annotations

from typing import Any

import torch

from fastload.transforms import _recognize


def parts_of_image_classification(preset: Any) -> list[Any]:
    """In calling order. Raises TypeError or ValueError where torchvision's constructors do."""
    v1 = _recognize.transforms_v1()
    return [
        v1.Resize(preset.resize_size, preset.interpolation, antialias=preset.antialias),
        v1.CenterCrop(preset.crop_size),
        v1.PILToTensor(),
        v1.ConvertImageDtype(torch.float32),
        v1.Normalize(preset.mean, preset.std),
    ]
