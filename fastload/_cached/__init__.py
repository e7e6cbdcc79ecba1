"""CachedDataset: makes each sample of a map-style data set once and keeps it, in memory or in a file."""

from fastload._cached._dataset import CachedDataset, MappedDataset

__all__ = ["CachedDataset", "MappedDataset"]
