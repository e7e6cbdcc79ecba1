"""Data sets and file lists that fastload reads natively, the folder scan and its index."""

from fastload.sources._image_folder import ImageFolder
from fastload.sources._path_dataset import ImageFiles

__all__ = ["ImageFiles", "ImageFolder"]
