# The optional extension module (csrc/bindings/cuda_kernels.cpp). Only fastload/_native.py imports it.
#
# Pointers are addresses on the device, and a stream is torch's cuda_stream. Functions return a cudaError_t and its
# name; 0 is success.

cuda_version: str

def load(device: int) -> tuple[int, str]: ...
def decode(
    *,
    host_wire: int,
    wire: int,
    scratch: int,
    pixels: int,
    faults: int,
    samples: int,
    pixel_bytes: int,
    device: int,
    stream: int,
) -> tuple[int, str]: ...
def convert(
    *,
    pixels: int,
    table: int,
    out: int,
    batch: int,
    pixels_per_image: int,
    element_size: int,
    channels_last: bool,
    device: int,
    stream: int,
) -> tuple[int, str]: ...
