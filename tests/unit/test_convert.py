"""Conversion of uint8 pixels by torch's operations, with the bytes of the host's own last write."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from conversions import (
    DTYPES,
    LAYOUTS,
    SIZES,
    bytes_of,
    convert_on_host,
    new_output,
    random_pixels,
    random_table,
)
from torch.utils._python_dispatch import TorchDispatchMode

from fastload._delivery import _convert
from fastload._errors import DeviceError


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_bytes_equal_the_hosts(dtype: torch.dtype, layout: str) -> None:
    table = random_table(dtype)
    for size in SIZES:
        pixels = random_pixels(*size)
        out = new_output(pixels, dtype, LAYOUTS[layout])
        _convert.convert(pixels, table, out=out)
        assert bytes_of(out) == convert_on_host(pixels, table, LAYOUTS[layout]), size


def test_an_output_that_is_a_part_of_a_larger_tensor_leaves_the_rest_alone() -> None:
    pixels, table = random_pixels(3, 5, 7), random_table(torch.float16)
    memory = torch.full((5, 3, 5, 7), 7, dtype=torch.float16)
    _convert.convert(pixels, table, out=memory[1:4])
    assert bytes_of(memory[1:4]) == convert_on_host(pixels, table, torch.contiguous_format)
    assert bool((memory[0] == 7).all() & (memory[4] == 7).all())


def test_an_empty_batch_is_left_as_it_is() -> None:
    out = torch.empty((0, 3, 5, 7))
    _convert.convert(torch.empty((0, 5, 7, 3), dtype=torch.uint8), random_table(torch.float32), out=out)
    assert out.shape == (0, 3, 5, 7)


def test_tensors_that_want_gradients_are_converted_without_them() -> None:
    pixels, table = random_pixels(1, 3, 5), torch.ones((3, 256), requires_grad=True)
    out = new_output(pixels, torch.float32, torch.contiguous_format)
    _convert.convert(pixels, table, out=out)
    assert not out.requires_grad


class Operations(TorchDispatchMode):
    """Records what torch does and how much new memory its results take, in bytes."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self.new_bytes = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(function.overloadpacket.__name__)
        result = function(*args, **(kwargs or {}))
        known = [tensor for tensor in (*args, *(kwargs or {}).values()) if isinstance(tensor, torch.Tensor)]
        memory = {tensor.untyped_storage().data_ptr() for tensor in known}
        if isinstance(result, torch.Tensor) and result.untyped_storage().data_ptr() not in memory:
            self.new_bytes += result.untyped_storage().nbytes()
        return result


def test_torchs_operations_wait_for_nothing_and_make_one_temporary_for_each_channel() -> None:
    """Operations that copy to the host (item, nonzero, _local_scalar_dense) would wait for the device."""
    pixels, table = random_pixels(2, 16, 16), random_table(torch.float32)
    out = new_output(pixels, torch.float32, torch.channels_last)
    with Operations() as operations:
        _convert.convert(pixels, table, out=out)
    assert set(operations.names) <= {"select", "slice", "_to_copy", "view", "detach", "take"}
    assert operations.new_bytes == 3 * 8 * 2 * 16 * 16


def arguments(**changes: Any) -> dict[str, Any]:
    return {
        "pixels": random_pixels(2, 5, 7),
        "table": torch.zeros((3, 256)),
        "out": torch.zeros((2, 3, 5, 7)),
    } | changes


def test_no_kernel_is_used_for_a_device_without_one() -> None:
    assert not _convert.is_fused("cpu")
    if not torch.cuda.is_available():
        assert not _convert.is_fused("cuda:0")


class Kernels:
    """Replaces the extension module: records its calls and answers as it was told."""

    def __init__(self, error: tuple[int, str]) -> None:
        self.error = error
        self.calls: list[dict[str, Any]] = []

    def convert(self, **call: Any) -> tuple[int, str]:
        self.calls.append(call)
        return self.error


@pytest.fixture
def kernels_on_the_host(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, str], Kernels]:
    """Makes `convert` call these kernels with tensors on the host, with 77 as the current stream."""

    def use(error: int, name: str) -> Kernels:
        kernels = Kernels((error, name))
        monkeypatch.setattr(_convert, "_kernels_on", lambda device: kernels)
        monkeypatch.setattr(torch.cuda, "device", lambda device: contextlib.nullcontext())
        monkeypatch.setattr(torch.cuda, "current_stream", lambda device: SimpleNamespace(cuda_stream=77))
        return kernels

    return use


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_kernel_is_told_where_the_tensors_lie_and_the_current_stream(
    layout: str, kernels_on_the_host: Callable[[int, str], Kernels]
) -> None:
    kernels = kernels_on_the_host(0, "cudaSuccess")
    tensors = arguments(
        table=random_table(torch.float16), out=new_output(random_pixels(2, 5, 7), torch.float16, LAYOUTS[layout])
    )
    _convert.convert(**tensors)
    assert kernels.calls == [
        {
            **{name: tensor.data_ptr() for name, tensor in tensors.items()},
            "batch": 2,
            "pixels_per_image": 35,
            "element_size": 2,
            "channels_last": layout == "channels_last",
            "device": None,
            "stream": 77,
        }
    ]


def test_a_kernel_that_is_refused_is_an_error_with_its_name(
    kernels_on_the_host: Callable[[int, str], Kernels],
) -> None:
    kernels_on_the_host(700, "cudaErrorIllegalAddress")
    with pytest.raises(DeviceError) as caught:
        _convert.convert(**arguments())
    problem = "conversion of 210 bytes of pixels to torch.float32 on cpu failed: cudaErrorIllegalAddress"
    assert str(caught.value) == problem  # Device.naming_batch() adds what to do, with the batch's number
