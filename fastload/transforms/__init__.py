"""Native forms of torchvision's transforms, and a transform of our own."""

from fastload.transforms._multi_view import MultiView

__all__ = ["MultiView"]
