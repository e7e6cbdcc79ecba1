"""Whether two loaders give the same batches, bit for bit, and where not, at which stage they part."""

from fastload._verify._report import VerifyReport
from fastload._verify._verify import verify

__all__ = ["VerifyReport", "verify"]
