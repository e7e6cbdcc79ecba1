"""CachedDataset: makes each sample of a map-style data set once and keeps it, in memory or in a file."""
