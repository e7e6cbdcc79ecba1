"""CachedDataset: each sample of a map-style data set is made once and kept, in memory or in a file."""

from fastload._cached._dataset import CachedDataset, MappedDataset

__all__ = ["CachedDataset", "MappedDataset"]
