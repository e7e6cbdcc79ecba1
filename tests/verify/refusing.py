"""A transform that fails for one image."""

from __future__ import annotations

from typing import Any


class Refusing:
    """Raises KeyError for images of one height, and leaves the others as they are."""

    def __init__(self, height: int) -> None:
        self.height = height

    def __call__(self, image: Any) -> Any:
        if image.height == self.height:
            raise KeyError("refused")
        return image
