"""A fake CUDA runtime, which fastload finds and uses as it would torch's, and the torch.cuda of its GPUs.

Nothing that is queued on such a GPU happens before a test says so, so code that does not wait reads poison: Note
[stepped streams] in fake_gpu.h.
"""

from __future__ import annotations

from fake_cuda.device import FakeDevice
from fake_cuda.gpu import POISON, FakeGpu

__all__ = ["POISON", "FakeDevice", "FakeGpu"]
