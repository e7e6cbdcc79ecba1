"""Native resize against the installed Pillow's ``Image.resize``, byte for byte, with the pass order of its version."""

from __future__ import annotations

from typing import Any

import numpy as np
import PIL
import pytest
from native_steps import apply
from PIL import Image

from fastload import _core
from fastload._pillow._pillow import pillow_info
from fastload.transforms._pillow_rules import resize_order

pytestmark = pytest.mark.skipif(
    pillow_info().is_simd,
    reason="pillow-simd resizes with shorter coefficients; plain Pillow is the reference",
)

ORDERS = ("horizontal_first", "pillow12_2", "pillow13")
RESAMPLE = {
    "nearest": Image.Resampling.NEAREST,
    "box": Image.Resampling.BOX,
    "bilinear": Image.Resampling.BILINEAR,
    "hamming": Image.Resampling.HAMMING,
    "bicubic": Image.Resampling.BICUBIC,
    "lanczos": Image.Resampling.LANCZOS,
}
KERNEL_TABLES = _core.available_kernel_tables().split(", ")
FILTERS = [name for name in RESAMPLE if name != "nearest"]
SEED = 20240607


def random_image(rng: np.random.Generator, width: int, height: int) -> np.ndarray[Any, Any]:
    """Makes noise, in every other call with two extreme values: these clip, and show rounding best."""
    values = rng.integers(0, 256, (height, width, 3), dtype=np.uint8)
    return np.where(values > 127, 255, 0).astype(np.uint8) if rng.integers(2) else values


def native_resize(pixels: np.ndarray[Any, Any], width: int, height: int, interpolation: str, order: str) -> bytes:
    step = _core.Resize(height=height, width=width, interpolation=interpolation)
    plan = _core.TransformPlan([(0, step)], element_size=1, channels_last=True, table=None, resize_order=order)
    return apply(plan, np.ascontiguousarray(pixels), _core.CounterDraws(0, 0, 0))


def use_kernels(table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FASTLOAD_SIMD", table)
    assert _core.active_kernel_table() == table


def pillow_resize(pixels: np.ndarray[Any, Any], width: int, height: int, interpolation: str) -> bytes:
    return Image.fromarray(pixels).resize((width, height), RESAMPLE[interpolation]).tobytes()


def random_cases(count: int) -> list[tuple[np.ndarray[Any, Any], int, int]]:
    """Returns crops of random images with target sizes of 1 to 400 per side; a fifth are tall and lose rows."""
    rng = np.random.default_rng(SEED)
    cases = []
    for index in range(count):
        width, height, to_width, to_height = (int(side) for side in rng.integers(1, 401, 4))
        if index % 5 == 0:
            width = 1 + width // 4
            to_height = 1 + to_height * height // 800
        if index % 50 == 0:
            width, height = 1 + index % 3, 350 + index % 50  # over 100 times as high as wide
        image = random_image(rng, width, height)
        left, top = int(rng.integers(0, (width + 1) // 2)), int(rng.integers(0, 1 + height // 8))
        cases.append((image[top:, left:], to_width, to_height))
    return cases


@pytest.mark.parametrize("interpolation", FILTERS)
def test_random_sizes_equal_pillow_with_all_kernels_and_every_pass_order_is_told_apart(
    interpolation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected_order = resize_order(PIL.__version__)
    differing = dict.fromkeys(ORDERS, 0)
    for pixels, width, height in random_cases(500):
        reference = pillow_resize(pixels, width, height, interpolation)
        for order in ORDERS:
            results = set()
            for table in KERNEL_TABLES:
                use_kernels(table, monkeypatch)
                results.add(native_resize(pixels, width, height, interpolation, order))
            case = f"{pixels.shape[1]}x{pixels.shape[0]} to {width}x{height}, {order} (seed {SEED})"
            assert len(results) == 1, f"kernels differ: {case}"
            differing[order] += reference not in results
            assert reference in results or order != expected_order, case
    if interpolation == "box":  # averages rarely end between two grey levels; the other filters tell every order
        return
    # Otherwise the sizes might never reach a case in which the order matters.
    assert all(differing[order] > 0 for order in ORDERS if order != expected_order), differing


def test_nearest_equals_pillow_for_random_sizes_whatever_the_pass_order() -> None:
    for index, (pixels, width, height) in enumerate(random_cases(500)):
        reference = pillow_resize(pixels, width, height, "nearest")
        assert native_resize(pixels, width, height, "nearest", ORDERS[index % 3]) == reference, (index, SEED)


@pytest.mark.parametrize("length", [1, 2, 3, 7, 10, 49, 224, 1000])
def test_nearest_equals_pillow_for_every_size_of_a_side(length: int) -> None:
    """If a position is a whole number up to rounding, adding steps and multiplying differ."""
    row = np.arange(3 * length, dtype=np.uint32).reshape(1, length, 3)
    pixels = (row * 2654435761 >> 13).astype(np.uint8)
    order = resize_order(PIL.__version__)
    for size in [*range(1, 300), 448, 500, 1000, 4096, 65535]:
        assert native_resize(pixels, size, 1, "nearest", order) == pillow_resize(pixels, size, 1, "nearest")
        turned = np.ascontiguousarray(pixels.transpose(1, 0, 2))
        assert native_resize(turned, 1, size, "nearest", order) == pillow_resize(turned, 1, size, "nearest")


@pytest.mark.parametrize("table", KERNEL_TABLES)
@pytest.mark.parametrize("interpolation", RESAMPLE)
@pytest.mark.parametrize(
    ("source", "target"),
    [
        ((400, 300), (400, 300)),  # nothing to do: a copy
        ((400, 300), (400, 131)),  # one pass only
        ((400, 300), (131, 300)),
        ((1, 1), (224, 224)),
        ((224, 224), (1, 1)),
        ((500, 375), (224, 224)),
        ((3000, 2), (5, 7)),
        ((2, 3000), (7, 5)),
        ((7, 5), (1500, 2)),
    ],
)
def test_edge_sizes_equal_pillow(
    source: tuple[int, int], target: tuple[int, int], interpolation: str, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_kernels(table, monkeypatch)
    pixels = random_image(np.random.default_rng(SEED), *source)
    native = native_resize(pixels, *target, interpolation, resize_order(PIL.__version__))
    assert native == pillow_resize(pixels, *target, interpolation)


@pytest.mark.parametrize(
    ("version", "order"),
    [
        ("10.4.0", "horizontal_first"),
        ("12.1.1", "horizontal_first"),
        ("12.1.1.post0", "horizontal_first"),
        ("12.2.0", "pillow12_2"),
        ("12.3.0", "pillow12_2"),
        ("13.0.0", "pillow13"),
        ("13.1.0.dev0", "pillow13"),
    ],
)
def test_pass_order_is_read_from_the_version(version: str, order: str) -> None:
    assert resize_order(version) == order


def test_unreadable_version_is_refused() -> None:
    with pytest.raises(ValueError, match=r"must be a Pillow version such as '13\.0\.0', got 'unknown'"):
        resize_order("unknown")
