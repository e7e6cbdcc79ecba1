"""The native Gaussian blur against torchvision's, v1 and v2: weights, pixels and draws, to the last bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import parity_recipes
import pytest
import torch
from lowered_transforms import FAMILIES, lowered
from native_steps import check_drawn, extremes, faint, make_plan, native_draws, noise, plain
from torchvision.transforms import _functional_tensor as functions_v1
from torchvision.transforms.v2.functional import _misc as functions_v2

import fastload
from fastload import _core
from fastload.transforms import _gaussian_blur

pytestmark = pytest.mark.skipif(not parity_recipes.HAS_FAST_BLUR, reason="no AVX2: blurs stay with torch")

FUNCTIONS = {"v1": functions_v1, "v2": functions_v2}
SIGMA = (0.1, 2.0)
KNOWN_FAMILIES = ["v1", *(["v2"] if parity_recipes.HAS_FAST_BLUR_V2 else [])]

both_families = pytest.mark.parametrize("family", KNOWN_FAMILIES)


def blur_step(family: str, width: int, height: int, kernel_size: Any, sigma: Any) -> _core.GaussianBlur:
    """Returns the step of a blur of width x height images, made as for a user's pipeline."""
    module = FAMILIES[family]
    result = lowered(module.Compose([module.CenterCrop((height, width)), module.GaussianBlur(kernel_size, sigma)]))
    assert result.python_part == (), result.stages
    _, step = result.steps[-1]
    assert isinstance(step, _core.GaussianBlur)
    return step


@both_families
@pytest.mark.parametrize(
    ("size", "sigma"),
    [
        *((1, SIGMA), (3, SIGMA), (5, (0.01, 64)), (7, SIGMA), (9, SIGMA), (15, (1, 5)), (17, SIGMA), (23, SIGMA)),
        *((31, (0.5, 9)), (63, (3, 30))),
    ],
)
def test_weights_of_thousands_of_sigmas_equal_torchs(family: str, size: int, sigma: tuple[float, float]) -> None:
    step = blur_step(family, 65, 65, size, sigma)
    # Not the proof's numbers.
    sigmas = np.random.default_rng(size).uniform(*step.sigma, 2000).astype(np.float32)
    sigmas[:2] = step.sigma
    compute, device = FUNCTIONS[family]._get_gaussian_kernel1d, torch.device("cpu")
    for number, weights in zip(sigmas, _core.gaussian_weights(step, step.columns, sigmas), strict=True):
        expected = compute(size, float(number), torch.float32, device).numpy()
        assert np.array_equal(weights, expected), float(number)


def test_exp_equals_torchs_for_numbers_of_the_whole_table() -> None:
    table = _gaussian_blur.torch_gaussian(-1)
    assert table is not None
    first = np.float32(0.5).view(np.uint32)
    last = np.float32(14.5).view(np.uint32)
    chosen = np.random.default_rng(3).integers(first, last, 100_000, dtype=np.uint32, endpoint=True).view(np.float32)
    expected = torch.exp(-0.5 * torch.from_numpy(chosen).pow(2)).numpy()
    values = np.array([table.value(number) for number in chosen.tolist()], np.float32)
    assert np.array_equal(values, expected)
    rounded = np.exp((np.float32(-0.5) * (chosen * chosen)).astype(np.float64)).astype(np.float32)
    assert np.array_equal(values, rounded) == (not table.corrections)


def test_exp_outside_of_the_table_is_the_rounded_one() -> None:
    table = _core.TorchGaussian(1.0, 1.0)
    exponent = table.inputs(0, 1)
    assert (len(table), exponent.tolist()) == (1, [-0.5])
    rounded = np.float32(np.exp(-0.5))
    assert not table.add(0, np.array([rounded * np.float32(1.001)], np.float32))
    assert table.add(0, np.array([np.nextafter(rounded, np.float32(1))], np.float32))
    assert table.value(1.0) == np.nextafter(rounded, np.float32(1))
    assert table.value(0.0) == 1.0
    for number in (0.99, 1.5, 20.0):
        assert table.value(number) == np.float32(np.exp(np.float64(gaussian_exponent(number))))


def gaussian_exponent(number: float) -> np.float32:
    return np.float32(-0.5) * (np.float32(number) * np.float32(number))


# Width, height and kernel (width, height).
SHAPES: list[tuple[int, int, tuple[int, int]]] = [
    (224, 224, (23, 23)),
    (96, 96, (9, 9)),
    (48, 37, (5, 5)),
    (37, 48, (3, 3)),
    (40, 33, (7, 7)),
    (33, 40, (11, 11)),
    (65, 31, (13, 5)),
    (31, 65, (5, 13)),
    (50, 20, (31, 1)),
    (20, 50, (1, 31)),
    (16, 16, (15, 15)),
    (17, 9, (17, 17)),
    (12, 12, (23, 23)),  # mirrored as far as there are pixels
    (8, 2, (15, 3)),
    (2, 1, (3, 1)),
    (1, 1, (1, 1)),
    (5, 4, (1, 1)),
    (100, 3, (21, 5)),
]
PICTURES = {
    "noise": noise,
    "extremes": extremes,
    "faint": faint,
    "white": lambda width, height: plain(width, height, (255, 255, 255)),
}


@both_families
@pytest.mark.parametrize("table", fastload.build_info().kernel_tables)
@pytest.mark.parametrize(("width", "height", "kernel_size"), SHAPES)
def test_pixels_and_draws_equal_torchvisions(
    family: str, table: str, width: int, height: int, kernel_size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FASTLOAD_SIMD", raising=False)
    plan = make_plan([blur_step(family, width, height, kernel_size, SIGMA)])
    monkeypatch.setenv("FASTLOAD_SIMD", table)
    is_slow = table == "scalar" and width * height * kernel_size[0] * kernel_size[1] > 10**6
    transform = FAMILIES[family].GaussianBlur(kernel_size, SIGMA)
    for name, make in list(PICTURES.items())[: 1 if is_slow else None]:
        for seed in range(1 if is_slow else 3):
            check_drawn(plan, transform, make(width, height), seed, name)


@both_families
@pytest.mark.parametrize("sigma", [0.01, (0.1, 0.1), 1, 50.0, (0.01, 64)])
@pytest.mark.parametrize("size", [3, 23])
def test_extreme_and_fixed_sigmas_equal_torchvisions(family: str, sigma: Any, size: int) -> None:
    image = noise(61, 47)
    plan = make_plan([blur_step(family, 61, 47, size, sigma)])
    transform = FAMILIES[family].GaussianBlur(size, sigma)
    for seed in range(10):
        check_drawn(plan, transform, image, seed, f"{sigma}")


@both_families
def test_torchs_threads_do_not_change_its_pixels(family: str) -> None:
    image = noise(224, 224)
    plan = make_plan([blur_step(family, 224, 224, 9, SIGMA)])
    num_threads = torch.get_num_threads()
    try:
        for count in (1, 2, 5):
            torch.set_num_threads(count)
            check_drawn(plan, FAMILIES[family].GaussianBlur(9, SIGMA), image, count, f"{count} threads")
    finally:
        torch.set_num_threads(num_threads)


def test_the_report_names_kernel_sigma_and_the_weights_origin() -> None:
    step = blur_step("v1", 30, 20, (5, 3), SIGMA)
    torch.manual_seed(4)
    sigma = torch.empty(1).uniform_(*SIGMA).item()
    assert make_plan([step]).resolve(native_draws(4), 30, 20) == [("gaussian_blur", 5, 3, sigma, "v1")]


def test_an_image_that_the_kernel_reaches_over_is_refused() -> None:
    plan = make_plan([blur_step("v1", 30, 20, 9, SIGMA)])
    with pytest.raises(ValueError, match="a blur reaches over more than the image"):
        plan.resolve(native_draws(0), 30, 4)


def changed(**changes: Any) -> _core.GaussianBlur:
    step = blur_step("v1", 30, 20, 5, SIGMA)
    names = ("sigma", "columns", "rows", "family", "sum_lanes", "torch_gaussian")
    return _core.GaussianBlur(**{name: getattr(step, name) for name in names} | changes)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sigma": (0.0, 1.0)}, r"sigma must be two float32 numbers with 0 < first <= second, got \(0, 1\)"),
        ({"sigma": (2.0, 1.0)}, r"got \(2, 1\)"),
        ({"columns": [0.0, 1.0]}, "columns must be an odd number of positions, at most 127, got 2"),
        ({"rows": [0.0] * 129}, "rows must be an odd number of positions, at most 127, got 129"),
        ({"rows": []}, "rows must be an odd number of positions, at most 127, got 0"),
        ({"rows": [float("inf")]}, "rows must be finite numbers"),
        ({"sum_lanes": 5}, "sum_lanes must be 4, 8 or 16, got 5"),
        ({"family": "v3"}, 'family must be one of "v1", "v2"'),
    ],
)
def test_invalid_arguments_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        changed(**change)
