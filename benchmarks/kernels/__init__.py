"""Times every kernel of every table: `python -m benchmarks.kernels`."""
