"""Whether two loaders give the same batches, bit for bit, and where not, at which stage they part."""

from fastload._verify._lockstep import verify
from fastload._verify._report import VerifyReport

__all__ = ["VerifyReport", "verify"]
