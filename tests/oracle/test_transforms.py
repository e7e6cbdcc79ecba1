"""The native transform against torchvision v1 on PIL images, byte for byte, and its random draws."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import PIL
import pytest
import torch
from lowered_transforms import plan_of
from native_steps import RAMP, Step, apply, noise, random_resized_crop, tensor_bytes
from philox import philox
from PIL import Image
from recipes import apply_steps
from torchvision import transforms as tv
from torchvision.transforms import functional as F
from torchvision.transforms import transforms as tv_module

from fastload import _core
from fastload._pillow._pillow import pillow_info
from fastload.transforms._pillow_rules import resize_order

pytestmark = pytest.mark.skipif(
    pillow_info().is_simd,
    reason="pillow-simd resizes with shorter coefficients; plain Pillow is the reference",
)

MODES = {"bilinear": F.InterpolationMode.BILINEAR, "bicubic": F.InterpolationMode.BICUBIC}
NEAREST, LANCZOS = F.InterpolationMode.NEAREST, F.InterpolationMode.LANCZOS
SIZES = [(500, 375), (375, 500), (64, 64), (33, 71), (201, 57), (7, 300), (1, 1), (2, 9), (31, 30)]


def resize(height: int, width: int, interpolation: str = "bilinear") -> Step:
    return _core.Resize(height=height, width=width, interpolation=interpolation)


def shorter_side(size: int, max_size: int | None = None, interpolation: str = "bilinear") -> Step:
    return _core.ResizeShorterSide(size=size, max_size=max_size, interpolation=interpolation)


def flip(probability: float) -> Step:
    return _core.RandomHorizontalFlip(probability=probability)


def uint8_plan(steps: list[Step], **changes: Any) -> _core.TransformPlan:
    """Makes a plan without torch's own exp."""
    layout: dict[str, Any] = {"element_size": 1, "channels_last": False, "table": None}
    order = resize_order(PIL.__version__)
    return _core.TransformPlan(list(enumerate(steps)), **layout | {"resize_order": order} | changes)


@pytest.fixture(params=_core.available_kernel_tables().split(", "))
def each_kernel_table(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs a test with the kernels of every instruction set that this processor has."""
    monkeypatch.setenv("FASTLOAD_SIMD", request.param)
    assert _core.active_kernel_table() == request.param


def run_native(plan: Any, image: Image.Image, sample_index: int = 0, seed: int = 3, epoch: int = 1) -> bytes:
    return bytes(apply(plan, np.array(image), _core.CounterDraws(seed, epoch, sample_index)))


def chw_bytes(image: Image.Image) -> bytes:
    return bytes(F.pil_to_tensor(image).contiguous().numpy().tobytes())


HFLIP, VFLIP = tv.RandomHorizontalFlip(1.0), tv.RandomVerticalFlip(1.0)
SEQUENCES: list[Callable[[Any], list[Any]]] = [
    lambda mode: [tv.Resize((40, 51), mode)],
    lambda mode: [tv.Resize(40, mode), tv.CenterCrop(36)],
    lambda mode: [tv.Resize(40, mode, max_size=50), tv.CenterCrop((64, 45))],
    lambda _: [tv.CenterCrop((60, 61))],
    lambda _: [tv.CenterCrop((450, 31))],
    lambda mode: [tv.CenterCrop((33, 28)), tv.Resize((20, 50), mode)],
    lambda mode: [HFLIP, tv.Resize((20, 51), mode), HFLIP, tv.CenterCrop((9, 60))],
    lambda mode: [tv.Resize((50, 40), mode), tv.CenterCrop((44, 52)), HFLIP, tv.Resize((31, 23), mode)],
    lambda _: [VFLIP, HFLIP],
    lambda _: [HFLIP, VFLIP, tv.CenterCrop((20, 50))],
    lambda _: [tv.CenterCrop((20, 50)), VFLIP],
    lambda mode: [VFLIP, tv.Resize((21, 30), mode)],
    lambda mode: [tv.Resize((21, 30), mode), VFLIP, HFLIP],
    lambda _: [tv.Pad((3, 4, 5, 6)), HFLIP, tv.CenterCrop((40, 9))],
    lambda mode: [tv.Pad((3, 4, 5, 6)), VFLIP, tv.Resize((25, 35), mode)],
    lambda _: [tv.Pad((3, 0, 0, 6), (9, 8, 7)), tv.CenterCrop((50, 90)), tv.Pad(1, padding_mode="reflect")],
    lambda _: [tv.CenterCrop((90, 11)), tv.Pad(2, padding_mode="edge"), HFLIP, tv.Resize((13, 17), NEAREST)],
    lambda _: [HFLIP, tv.Resize((31, 29), NEAREST), tv.Resize((12, 40), LANCZOS), tv.Resize((20, 20), NEAREST)],
]


@pytest.mark.usefixtures("each_kernel_table")
@pytest.mark.parametrize("index", range(len(SEQUENCES)))
def test_fixed_geometry_equals_torchvision_and_reports_replay_it(index: int) -> None:
    for mode in MODES.values():
        transform = tv.Compose(SEQUENCES[index](mode))
        plan = plan_of(transform, channels_last=False)
        for size in SIZES:
            image = noise(*size)
            expected = chw_bytes(transform(image))
            assert run_native(plan, image) == expected, (mode, size)
            steps = plan.resolve(_core.CounterDraws(3, 1, 0), *size)
            assert chw_bytes(apply_steps(image, steps)) == expected, (mode, size)


def test_a_thin_image_may_grow_beyond_the_limits_of_files() -> None:
    for size in [(300, 1), (1, 300)]:
        image, transform = noise(*size), tv.Compose([tv.Resize(256), tv.CenterCrop(224)])
        assert run_native(plan_of(transform, channels_last=False), image) == chw_bytes(transform(image))


def test_a_side_that_comes_out_as_zero_is_refused_by_both() -> None:
    image = noise(1000, 10)
    transform = tv.Compose([tv.Resize(5, max_size=8), tv.CenterCrop(5)])
    with pytest.raises(ValueError, match="height and width must be > 0"):
        transform(image)
    with pytest.raises(ValueError, match=r"a side of the resized image is not in 1\.\.1048576"):
        run_native(plan_of(transform), image)


@pytest.mark.usefixtures("each_kernel_table")
def test_every_value_equals_torchs_for_means_and_deviations_drawn_at_random() -> None:
    """Kernels may compute float32 elements if a formula gives the bits of the whole table."""
    rng = np.random.default_rng(11)
    for case in range(200):
        decimals = 2 + case % 6
        mean, std = rng.uniform(0.0, 0.9, 3).round(decimals), rng.uniform(0.05, 1.0, 3).round(decimals)
        tail = tv.Compose([tv.ToTensor(), tv.Normalize(mean.tolist(), std.tolist())])
        plan = plan_of(tv.Compose([tv.CenterCrop((1, 256)), tail]), channels_last=False)
        assert run_native(plan, RAMP) == tensor_bytes(tail(RAMP)), (mean, std)


def draws(seed: int, epoch: int, sample_index: int, position: int) -> Iterator[int]:
    mask = 0xFFFFFFFF
    key = philox([epoch & mask, epoch >> 32, position, 0x464C4431], [seed & mask, seed >> 32])[:2]
    block = 0
    while True:
        yield from philox([sample_index & mask, sample_index >> 32, block, 0], key)
        block += 1


class CounterTorch:
    """Replaces the torch module in torchvision's get_params: the same code, with draws from our generator."""

    def __init__(self, words: Iterator[int]) -> None:
        self.words = words

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)

    def empty(self, count: int) -> CounterTorch:
        assert count == 1
        return self

    def uniform_(self, low: Any, high: Any) -> torch.Tensor:
        start, stop = np.float32(low), np.float32(high)
        share = np.float32(next(self.words) >> 8) * np.float32(2.0**-24)
        return torch.tensor([share * (stop - start) + start], dtype=torch.float32)

    def randint(self, low: int, high: int, size: tuple[int, ...]) -> torch.Tensor:
        assert low == 0
        while True:
            product = next(self.words) * high
            if (product & 0xFFFFFFFF) >= 2**32 % high:
                return torch.full(size, product >> 32)


@pytest.mark.parametrize(
    ("scale", "ratio"), [((0.08, 1.0), (3.0 / 4.0, 4.0 / 3.0)), ((0.2, 1.0), (0.5, 2.0)), ((0.9, 1.0), (1.0, 1.0))]
)
def test_random_boxes_equal_torchvisions_rule_on_the_same_draws(
    scale: tuple[float, float], ratio: tuple[float, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = uint8_plan([random_resized_crop(1, 1, scale, ratio)])
    for width, height in [(500, 375), (64, 64), (201, 57), (40, 300), (3, 2)]:
        image = Image.new("RGB", (width, height))
        for sample_index in range(150):
            monkeypatch.setattr(tv_module, "torch", CounterTorch(draws(2**40 + 7, 2, sample_index, 0)))
            top, left, box_height, box_width = tv.RandomResizedCrop.get_params(image, list(scale), list(ratio))
            monkeypatch.undo()
            steps = plan.resolve(_core.CounterDraws(2**40 + 7, 2, sample_index), width, height)
            whole = ("crop", 0, 0, width, height)
            crop = steps[0][:5] if steps and steps[0][0] == "crop" else whole
            assert crop == ("crop", left, top, box_width, box_height)


def test_samples_do_not_depend_on_threads_and_do_on_seed_epoch_and_index() -> None:
    plan = uint8_plan([random_resized_crop(24, 20), flip(0.5)])
    image = noise(120, 90)
    alone = [run_native(plan, image, index) for index in range(64)]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda index: run_native(plan, image, index), reversed(range(64))))
    assert together[::-1] == alone
    assert len(set(alone)) == 64
    assert run_native(plan, image, 0, seed=4) != alone[0]
    assert run_native(plan, image, 0, epoch=2) != alone[0]


@pytest.mark.parametrize(
    ("make", "changes", "message"),
    [
        (lambda: resize(0, 5), {}, r"height must be in 1\.\.65535, got 0"),
        (lambda: resize(5, 70000), {}, r"width must be in 1\.\.65535, got 70000"),
        (lambda: resize(5, 5, "area"), {}, r"interpolation must be one of .*\"bilinear\".*\"lanczos\", got 'area'"),
        (lambda: flip(1.5), {}, r"probability must be in \[0, 1\], got 1\.5"),
        (
            lambda: random_resized_crop(24, 20, scale=(1.0, 0.5)),
            {},
            r"scale must be two float32 numbers .*, got \(1, 0\.5\)",
        ),
        (lambda: shorter_side(9, 9), {}, r"max_size must be greater than size, got 9"),
        (lambda: shorter_side(9), {}, r"depends on the size of the source"),
        (lambda: resize(5, 5), {"element_size": 3}, r"element_size must be 1, 2, 4 or 8, got 3"),
        (lambda: resize(5, 5), {"element_size": 4, "table": b"123"}, r"table must be .* = 3072 bytes, got 3"),
        (lambda: resize(5, 5), {"resize_order": "newest"}, r"resize_order must be one of .*\"pillow13\", got 'newest'"),
    ],
)
def test_bad_arguments_name_argument_value_and_what_is_allowed(
    make: Callable[[], Step], changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        uint8_plan([make()], **changes)
