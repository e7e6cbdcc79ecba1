"""Conversion on a GPU: the kernel, torch's operations and the host's own last write make the same bytes."""

from __future__ import annotations

import pytest
import torch
from conversions import (
    DTYPES,
    LAYOUTS,
    SIZES,
    bytes_of,
    convert_on_host,
    memory_of,
    new_output,
    random_pixels,
    random_table,
)

from fastload import _native
from fastload._delivery import _convert

pytestmark = pytest.mark.gpu


@pytest.fixture(params=["kernel", "torch's operations"])
def each_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param != "kernel":
        monkeypatch.setattr(_convert, "_kernels_on", lambda device: None)
    elif _native.cuda_kernels() is None:
        pytest.skip(f"no kernels: {_native.build_info().cuda_module_reason}")
    else:
        assert _convert.is_fused("cuda")


@pytest.mark.usefixtures("each_way")
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_bytes_equal_the_hosts(dtype: torch.dtype, layout: str) -> None:
    table = random_table(dtype)
    for size in [*SIZES, (64, 224, 224)]:
        pixels = random_pixels(*size)
        on_device = pixels.cuda()
        out = new_output(on_device, dtype, LAYOUTS[layout])
        _convert.convert(on_device, table.cuda(), out=out)
        assert bytes_of(out) == convert_on_host(pixels, table, LAYOUTS[layout]), size


@pytest.mark.usefixtures("each_way")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_memory_that_begins_anywhere_is_written_and_nothing_beside_it(layout: str) -> None:
    table = random_table(torch.float16)
    pixels = random_pixels(7, 5, 9)
    on_device = pixels.cuda()
    for first in range(7):
        out = torch.full((8, 3, 5, 9), 3, dtype=torch.float16, device="cuda").to(memory_format=LAYOUTS[layout])
        _convert.convert(on_device[first:], table.cuda(), out=out[first:7])
        assert bytes_of(out[first:7]) == convert_on_host(pixels[first:], table, LAYOUTS[layout])
        assert bool((out[:first] == 3).all() & (out[7:] == 3).all())


@pytest.mark.usefixtures("each_way")
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("size", [(14300, 224, 224), (14300, 225, 223)], ids=["whole vectors", "odd planes"])
def test_more_elements_than_31_bits_can_count(size: tuple[int, int, int], layout: str) -> None:
    batch, height, width = size
    if torch.cuda.mem_get_info()[0] < 18 * batch * height * width:
        pytest.skip("needs 13 GB of device memory")
    table = random_table(torch.uint8)
    one = random_pixels(50, height, width)
    pixels = one.cuda().repeat(batch // 50, 1, 1, 1)
    out = new_output(pixels, torch.uint8, LAYOUTS[layout])
    assert out.numel() > 2**31
    _convert.convert(pixels, table.cuda(), out=out)
    expected = torch.frombuffer(bytearray(convert_on_host(one, table, LAYOUTS[layout])), dtype=torch.uint8).cuda()
    for part in memory_of(out).split(len(expected)):
        assert torch.equal(part, expected)


@pytest.mark.usefixtures("each_way")
def test_the_current_stream_is_used_and_the_host_does_not_wait() -> None:
    """The pixels come late on a stream of their own; a conversion anywhere else would read what was there before."""
    table = random_table(torch.float32)
    pixels = random_pixels(8, 64, 64)
    pinned, on_device = pixels.pin_memory(), torch.zeros_like(pixels, device="cuda")
    out = new_output(on_device, torch.float32, torch.channels_last)
    table_on_device = table.cuda()
    stream = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        # A kernel's first launch and a stream's first memory may wait for the device.
        _convert.convert(on_device, table_on_device, out=out)
        stream.synchronize()
        torch.cuda._sleep(200_000_000)
        on_device.copy_(pinned, non_blocking=True)
        _convert.convert(on_device, table_on_device, out=out)
        assert not stream.query()
    stream.synchronize()
    assert bytes_of(out) == convert_on_host(pixels, table, torch.channels_last)


def test_a_conversion_can_be_captured_in_a_graph() -> None:
    if not _convert.is_fused("cuda"):
        pytest.skip("no kernels")
    table = random_table(torch.bfloat16)
    pixels = random_pixels(4, 17, 19)
    on_device, table_on_device = torch.zeros_like(pixels, device="cuda"), table.cuda()
    out = new_output(on_device, torch.bfloat16, torch.contiguous_format)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        _convert.convert(on_device, table_on_device, out=out)
    on_device.copy_(pixels)
    graph.replay()
    assert bytes_of(out) == convert_on_host(pixels, table, torch.contiguous_format)


def test_every_device_is_served_and_the_current_one_stays() -> None:
    if torch.cuda.device_count() < 2:
        pytest.skip("one device")
    table, pixels = random_table(torch.float32), random_pixels(3, 11, 13)
    for index in range(torch.cuda.device_count()):
        device = torch.device("cuda", index)
        on_device = pixels.to(device)
        out = new_output(on_device, torch.float32, torch.contiguous_format)
        _convert.convert(on_device, table.to(device), out=out)
        assert torch.cuda.current_device() == 0
        assert bytes_of(out) == convert_on_host(pixels, table, torch.contiguous_format)
