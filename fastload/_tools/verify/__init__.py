"""Whether two loaders give the same batches, bit for bit, and where not, what they differ by as far as it is proved."""

from fastload._tools.verify._report import VerifyReport
from fastload._tools.verify._verify import verify

__all__ = ["VerifyReport", "verify"]
