"""Images side by side in a PNG: two and their difference, or the views of a sample."""

from __future__ import annotations

import os
from collections.abc import Sequence

import torch

from fastload._pillow._pillow import rgb_image

_GAP_PIXELS = 4


def as_image(value: object) -> torch.Tensor | None:
    """Returns `value` as [3, height, width] on the CPU, or None if it is not an image of one or three channels."""
    if (
        not isinstance(value, torch.Tensor)
        or value.is_complex()
        or value.is_nested
        or value.layout is not torch.strided
    ):
        return None
    image = value.detach().cpu().as_subclass(torch.Tensor)
    image = image[None] if image.ndim == 2 else image
    if image.ndim != 3 or image.shape[0] not in (1, 3) or 0 in image.shape:
        return None
    return image.expand(3, -1, -1).clone()


def write_twins(old: torch.Tensor, new: torch.Tensor, path: str | os.PathLike[str]) -> None:
    """Writes old | new | difference to a PNG; both are [3, height, width], as from `as_image`."""
    panels = list(_shown(old, new))
    if old.shape == new.shape:
        gap = (_finite(old) - _finite(new)).abs()
        panels.append(_scaled(gap, 0.0, float(gap.max())))
    _write(panels, path)


def write_views(views: Sequence[torch.Tensor], path: str | os.PathLike[str]) -> None:
    """Writes tensors [3, height, width]. Views that are not uint8 are scaled from their lowest to highest value."""
    _write([_shown(view, view)[0] for view in views], path)


def _write(panels: Sequence[torch.Tensor], path: str | os.PathLike[str]) -> None:
    """Writes uint8 [3, height, width] from left to right."""
    height = max(panel.shape[1] for panel in panels)
    width = sum(panel.shape[2] for panel in panels) + _GAP_PIXELS * (len(panels) - 1)
    canvas = torch.full((3, height, width), 255, dtype=torch.uint8)
    left = 0
    for panel in panels:
        canvas[:, : panel.shape[1], left : left + panel.shape[2]] = panel
        left += panel.shape[2] + _GAP_PIXELS
    pixels = canvas.permute(1, 2, 0).contiguous().numpy()
    rgb_image(pixels).save(os.fspath(path), format="PNG")


def _shown(old: torch.Tensor, new: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    if old.dtype == new.dtype == torch.uint8:
        return old, new
    low = min(float(_finite(image).min()) for image in (old, new))
    high = max(float(_finite(image).max()) for image in (old, new))
    return _scaled(old, low, high), _scaled(new, low, high)


def _scaled(image: torch.Tensor, low: float, high: float) -> torch.Tensor:
    """Scales to uint8: `low` becomes 0 and `high` 255."""
    span = high - low if high > low else 1.0
    return ((_finite(image) - low) / span * 255).round().clamp(0, 255).to(torch.uint8)


def _finite(image: torch.Tensor) -> torch.Tensor:
    """Converts to float64, with zeros for NaN and infinities."""
    return image.double().nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)
