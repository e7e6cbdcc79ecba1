"""The GPU that is measured: whether there is one, and its clock.

`python -m benchmarks._gpu_machine` exits with status 0 if there is one, else with 3 after one line that says why not.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fastload._delivery._device import Device

NO_GPU_STATUS = 3


def why_no_gpu() -> str | None:
    """Returns one line on what this Python lacks for a GPU, or None."""
    try:
        import torch
    except ImportError as error:
        return f"no GPU is tested or measured: {sys.executable} has no torch ({error})"
    if torch.version.cuda is None:
        return f"no GPU is tested or measured: torch {torch.__version__} of {sys.executable} is a build without CUDA"
    if not torch.cuda.is_available():
        return "no GPU is tested or measured: torch.cuda.is_available() is False; nvidia-smi says whether there is one"
    return None


class Gpu:
    """The current CUDA device of torch."""

    device = "cuda"

    def mark(self) -> Any:
        """Returns a mark after everything queued on the current stream."""
        import torch

        event: Any = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record()
        return event

    def milliseconds(self, begin: Any, end: Any) -> float:
        """Returns the time between two marks of one stream, on the device, once `wait` has returned after them."""
        return float(begin.elapsed_time(end))

    def wait(self) -> None:
        """Returns when everything queued is done."""
        import torch

        torch.cuda.synchronize()

    def staging_device(self) -> Device:
        """Returns the same device, as fastload copies to it."""
        from fastload._delivery._device import PinnedMemory, open_device

        opened = open_device(self.device, PinnedMemory())
        assert opened is not None, "'cuda' is a device"
        return opened

    def describe(self) -> dict[str, Any]:
        """Returns everything that the figures depend on."""
        import torch

        properties = torch.cuda.get_device_properties(torch.cuda.current_device())
        cudnn: Any = torch.backends.cudnn
        return {
            "gpu": properties.name,
            "gpu_memory_gib": round(properties.total_memory / 2**30, 1),
            "cuda_of_torch": torch.version.cuda,
            "cudnn": cudnn.version(),
        }


if __name__ == "__main__":
    reason = why_no_gpu()
    if reason is not None:
        print(reason)
        sys.exit(NO_GPU_STATUS)
