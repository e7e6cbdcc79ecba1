"""A loader measured: what its first batch costs, and how many samples it gives then."""

from fastload._tools.benchmark._benchmark import benchmark
from fastload._tools.benchmark._result import BenchmarkResult

__all__ = ["BenchmarkResult", "benchmark"]
