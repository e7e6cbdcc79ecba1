"""Samples of any map-style data set, made once and kept: in the process, or in a file."""

from fastload._cached._dataset import CachedDataset, MappedDataset

__all__ = ["CachedDataset", "MappedDataset"]
