"""Data sets and file lists that fastload reads natively, and the folder scan with its index."""

from fastload.sources._image_folder import ImageFolder
from fastload.sources._path_dataset import ImageFiles

__all__ = ["ImageFiles", "ImageFolder"]
