"""The comparison of fastload with the other ways to load images: `python -m benchmarks --help`."""
