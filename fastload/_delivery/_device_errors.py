"""Errors of a device, with the failed batch."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from fastload._delivery._device import Device, first_line
from fastload._errors import DeviceError


def device_error(what: str, device: Device, cause: str) -> DeviceError:
    """Returns an error that says `what` failed on fastload's stream, why, and what to do."""
    return DeviceError(
        f"{what} to {device.name} on stream {device.copy_stream:#x}: {cause}. The cause may be a kernel queued "
        "earlier: run again with CUDA_LAUNCH_BLOCKING=1 to see which. After most such errors a process cannot use the "
        "device any more: start a new one"
    )


@contextlib.contextmanager
def naming_batch(device: Device, number: int, num_bytes: Callable[[], int]) -> Iterator[None]:
    """Turns a failure of the device in this block into a DeviceError that names the batch.

    Full memory stays the torch.OutOfMemoryError that programs look for.
    """
    try:
        yield
    except RuntimeError as error:
        if not (isinstance(error, DeviceError) or device.is_failure(error)):
            raise
        what = f"batch {number} ({num_bytes()} bytes) could not be moved"
        raise device_error(what, device, first_line(error)) from error
