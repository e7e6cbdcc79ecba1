"""Transforms that fail for one image: the user's own, and one that is derived from torchvision's."""

from __future__ import annotations

from typing import Any

from torchvision import transforms


class Refusing:
    """Raises KeyError for images of one height, and leaves others unchanged."""

    def __init__(self, height: int) -> None:
        self.height = height

    def __call__(self, image: Any) -> Any:
        if image.height == self.height:
            raise KeyError("refused")
        return image


class RefusingCrop(transforms.CenterCrop):  # type: ignore[misc]
    """A crop that keeps the whole image, and raises KeyError for images of one height."""

    def __init__(self, height: int) -> None:
        super().__init__(height)
        self._refusing = Refusing(height)

    def forward(self, image: Any) -> Any:
        return self._refusing(image)
