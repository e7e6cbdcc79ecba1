"""The comparison of fastload with other ways to load images: `python -m benchmarks --help`."""
