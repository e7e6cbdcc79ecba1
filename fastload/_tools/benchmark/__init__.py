"""The measurement of a loader: the cost of its first batch, and the samples per second after it."""

from fastload._tools.benchmark._benchmark import benchmark
from fastload._tools.benchmark._result import BenchmarkResult

__all__ = ["BenchmarkResult", "benchmark"]
