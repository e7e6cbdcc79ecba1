"""Native pixel operations against torchvision's on PIL images, byte for byte."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest
import torchvision_shim  # noqa: F401
from native_steps import IMAGES, all_colors, extremes, noise, recorded_op, run_op
from PIL import Image
from torchvision.transforms import InterpolationMode
from torchvision.transforms import functional as F

from fastload import _core

FACTORS = [0.0, 0.1, 0.37, 0.5, 0.9, 1.0, 1.1, 1.9, 3.0, 17.3, 1e30]
# float32 factors as a jitter draws them.
DRAWN_FACTORS = np.random.default_rng(3).uniform(0, 2.5, 40).astype(np.float32).astype(float).tolist()
ADJUSTMENTS: dict[Any, tuple[str, Iterable[Any], Callable[[Image.Image, Any], Image.Image]]] = {
    _core.Brightness: ("factor", FACTORS + DRAWN_FACTORS, F.adjust_brightness),
    _core.Contrast: ("factor", FACTORS + DRAWN_FACTORS, F.adjust_contrast),
    _core.Saturation: ("factor", FACTORS + DRAWN_FACTORS, F.adjust_saturation),
    _core.Sharpness: ("factor", FACTORS + DRAWN_FACTORS, F.adjust_sharpness),
    _core.Hue: ("factor", (-0.5, -0.1, 0.0, 0.02, 0.3, 0.5), F.adjust_hue),
    _core.Posterize: ("bits", range(1, 9), F.posterize),
    _core.Solarize: (
        "threshold",
        [0.0, 0.5, 1.0, 85.0, 127.5, 128.0, 242.25, 254.9, 255.0, 256.0, -3.0, math.inf],
        F.solarize,
    ),
}
PLAIN_OPS: dict[Any, Callable[[Image.Image], Image.Image]] = {
    _core.Identity: lambda image: image,
    _core.Autocontrast: F.autocontrast,
    _core.Equalize: F.equalize,
    _core.Invert: F.invert,
    _core.Grayscale: lambda image: F.to_grayscale(image, 3),
    _core.Rotate90: lambda image: image.transpose(Image.Transpose.ROTATE_90),
    _core.Rotate180: lambda image: image.transpose(Image.Transpose.ROTATE_180),
    _core.Rotate270: lambda image: image.transpose(Image.Transpose.ROTATE_270),
}

every_image = pytest.mark.parametrize("image", IMAGES.values(), ids=IMAGES.keys())


@every_image
@pytest.mark.parametrize("kind", ADJUSTMENTS)
def test_operations_with_a_parameter_equal_torchvision(kind: Any, image: Image.Image) -> None:
    name, values, reference = ADJUSTMENTS[kind]
    for value in values:
        assert run_op(kind(**{name: value}), image) == reference(image, value).tobytes(), value


@every_image
@pytest.mark.parametrize("kind", PLAIN_OPS)
def test_operations_without_parameters_equal_torchvision(kind: Any, image: Image.Image) -> None:
    assert run_op(kind(), image) == PLAIN_OPS[kind](image).tobytes()


@pytest.mark.parametrize("size", [(1, 2), (5, 5), (16, 16), (16, 17), (23, 45), (300, 5)])
def test_equalize_equals_torchvision_on_few_pixels_of_few_values(size: tuple[int, int]) -> None:
    """The step of the histogram is a few pixels there, and tables reach beyond 255."""
    for seed, divisor in itertools.product(range(40), (1, 3, 40, 130)):
        image = noise(*size, seed=seed).point([value // divisor for value in range(256)] * 3)
        assert run_op(_core.Equalize(), image) == F.equalize(image).tobytes(), (seed, divisor)
        assert run_op(_core.Autocontrast(), image) == F.autocontrast(image).tobytes(), (seed, divisor)


def test_sharpness_equals_torchvision_for_every_sum_of_a_neighbourhood() -> None:
    sums = set()
    for seed in range(12):
        image = noise(300, 300, seed) if seed % 2 else extremes(300, 300, seed)
        if seed % 3 == 0:
            image = Image.blend(image, noise(300, 300, seed + 1), 0.3)
        padded = np.asarray(image).astype(int)
        inner = sum(padded[1 + y : 299 + y, 1 + x : 299 + x] for y in (-1, 0, 1) for x in (-1, 0, 1))
        sums.update((inner + 4 * padded[1:299, 1:299]).ravel().tolist())
        for factor in (0.0, 0.3, 1.7):
            expected = F.adjust_sharpness(image, factor).tobytes()
            assert run_op(_core.Sharpness(factor=factor), image) == expected, (seed, factor)
    # Nearly all of the 3316 possible ones: otherwise a rounding could hide.
    assert len(sums) > 3000


# Hue.


@pytest.fixture(scope="module")
def every_color() -> Image.Image:
    return all_colors()


@pytest.mark.parametrize("factor", [0.0, 0.13, -0.5])
def test_hue_equals_torchvision_on_every_color(factor: float, every_color: Image.Image) -> None:
    expected = F.adjust_hue(every_color, factor).tobytes()
    assert run_op(_core.Hue(factor=factor), every_color) == expected


def test_hue_equals_torchvision_for_every_turn() -> None:
    image = noise(96, 90)
    steps = {factor / 510 for factor in range(-255, 256)} | {1e-9, -1e-9, 0.4999999, -0.4999999}
    for factor in sorted(steps):
        assert run_op(_core.Hue(factor=factor), image) == F.adjust_hue(image, factor).tobytes(), factor


def test_luma_and_saturation_equal_torchvision_on_every_color(every_color: Image.Image) -> None:
    assert run_op(_core.Grayscale(), every_color) == F.to_grayscale(every_color, 3).tobytes()
    for factor in (0.1, 1.9):
        expected = F.adjust_saturation(every_color, factor).tobytes()
        assert run_op(_core.Saturation(factor=factor), every_color) == expected


def test_contrast_rounds_the_mean_as_torchvision_does() -> None:
    """The means lie at a half and one pixel away from it, where a wrong rounding shows."""
    for low, width, height in itertools.product((0, 17, 254), (2, 4, 50), (1, 3)):
        for count in range(width * height // 2 - 1, width * height // 2 + 2):
            values = np.full(width * height, low, np.uint8)
            values[:count] += 1
            image = Image.fromarray(np.repeat(values.reshape(height, width, 1), 3, axis=2))
            for factor in (0.0, 0.5, 3.0):
                expected = F.adjust_contrast(image, factor).tobytes()
                assert run_op(_core.Contrast(factor=factor), image) == expected


# Affine transforms.


def assert_affine_is_pillows(
    image: Image.Image, matrix: list[float], filter_name: str, fill: tuple[int, int, int] = (0, 0, 0)
) -> None:
    actual = run_op(_core.Affine(matrix=matrix, fill=fill, interpolation=filter_name), image)
    resample = Image.Resampling[filter_name.upper()]
    expected = image.transform(image.size, Image.Transform.AFFINE, matrix, resample, fillcolor=fill)
    assert actual == expected.tobytes(), (image.size, matrix, filter_name, fill)


affine_filters = pytest.mark.parametrize("filter_name", ["nearest", "bilinear", "bicubic"])
SHAPES = [(1, 1), (1, 9), (16, 1), (31, 17), (64, 64), (97, 50)]


def random_matrices(count: int, size: tuple[int, int]) -> list[list[float]]:
    rng = np.random.default_rng(11)
    linear = rng.uniform(-2, 2, (count, 4))
    offsets = rng.uniform(-1, 1, (count, 2)) * size
    return [[a, b, c, d, e, f] for (a, b, d, e), (c, f) in zip(linear.tolist(), offsets.tolist(), strict=True)]


SPECIAL_MATRICES: list[list[float]] = [
    [1, 0, 0, 0, 1, 0],  # nothing
    [1, 0, 5, 0, 1, -3],  # translations
    [1, 0, 0.5, 0, 1, 0.5],
    [1, 0, -0.49999999999, 0, 1, 1e-17],
    [1, 0, 1e7, 0, 1, 0],
    [1, 0, 0, 0, 1, -1e300],
    [2, 0, 0, 0, 3, 0],  # scales
    [0.5, 0, 0, 0, 0.25, 0],
    [1 / 3, 0, 0.1, 0, 0.7, 0.3],
    [-1, 0, 31, 0, -1, 17],
    [0, 0, 3.5, 0, 0, 2],
    [1e5, 0, 0, 0, 1e-5, 0],
    [1, 0.3, 0, 0, 1, 0],  # shears
    [1, 0, 0, -0.99, 1, 0],
    [1, 1e-9, 0, 0, 1, 0],
    [0, 1, 0, 1, 0, 0],  # turns
    [0, -1, 17, 1, 0, 0],
    [1, 1, 40000, 1, 1, 0],  # beyond fixed point
    [1, 0.5, -32768.5, 0, 1, 0],
    [1, 0.5, 32767.9, 0, 1, 0],
    [700.0, 1, 0, 1, 700.0, 0],
    [3000.3, 0.1, 0.2, 0.1, 1.5, 0],
    [-40000.5, 0.7, 39999.0, 0.3, 1.0, 0.0],
    [1e15, 1, 0, 1, -1e15, 0],
    [1e-15, 1, 0, 1, 1e-15, 0],
]


@affine_filters
@pytest.mark.parametrize("size", SHAPES)
def test_affine_equals_pillow_for_special_matrices(size: tuple[int, int], filter_name: str) -> None:
    image = noise(*size)
    for matrix in SPECIAL_MATRICES:
        for fill in [(0, 0, 0), (1, 128, 255)]:
            assert_affine_is_pillows(image, matrix, filter_name, fill)


@affine_filters
@pytest.mark.parametrize("size", SHAPES)
def test_affine_equals_pillow_for_random_matrices(size: tuple[int, int], filter_name: str) -> None:
    image = noise(*size)
    for matrix in random_matrices(300, size):
        assert_affine_is_pillows(image, matrix, filter_name)
        assert_affine_is_pillows(image, [matrix[0], 0, matrix[2], 0, matrix[4], matrix[5]], filter_name)


@affine_filters
def test_affine_equals_pillow_where_positions_leave_fixed_point(filter_name: str) -> None:
    """Images have more than 32768 columns or rows, and translations go beyond that."""
    for size in [(40000, 3), (2, 33000)]:
        image = noise(*size)
        for matrix in [[1, 0.001, 0.3, 0.0001, 1, 0.2], [-1, 0.5, size[0], 0, 1, 0], [0.999, 0.1, 5, 1e-4, 0.9, 0]]:
            assert_affine_is_pillows(image, matrix, filter_name)


MODES = [InterpolationMode.NEAREST, InterpolationMode.BILINEAR, InterpolationMode.BICUBIC]


@pytest.mark.parametrize("mode", MODES)
def test_rotations_by_every_degree_equal_torchvision(mode: InterpolationMode) -> None:
    for image in (noise(61, 43), noise(40, 40)):  # quarter turns of a square are not affine transforms
        for angle in [*range(-180, 181), 0.5, -29.999, 1e-7]:

            def call(image: Image.Image = image, angle: float = angle) -> Image.Image:
                return F.rotate(image, angle, mode, fill=[3, 2, 1])

            assert run_op(recorded_op(call), image) == call().tobytes(), angle


@pytest.mark.parametrize("mode", MODES)
def test_translations_and_shears_of_the_policies_equal_torchvision(mode: InterpolationMode) -> None:
    image = noise(61, 43)
    shifts = [{"translate": [x, y], "shear": [0.0, 0.0]} for x in range(-62, 63, 3) for y in (-44, -1, 0, 20)]
    shears = [
        {"translate": [0, 0], "shear": shear, "center": [0, 0]}
        for magnitude in np.linspace(-0.99, 0.99, 31).tolist()
        for degrees in [math.degrees(math.atan(magnitude))]
        for shear in ([degrees, 0.0], [0.0, degrees])
    ]
    for arguments in shifts + shears:

        def call(arguments: Any = arguments) -> Image.Image:
            return F.affine(image, angle=0.0, scale=1.0, interpolation=mode, fill=None, **arguments)

        assert run_op(recorded_op(call), image) == call().tobytes(), arguments


@pytest.mark.parametrize(
    ("kind", "arguments", "message"),
    [
        (_core.Contrast, {"factor": math.nan}, "factor must be a float32 number, got nan"),
        (_core.Sharpness, {"factor": 2.5e39}, r"factor must be a float32 number, got 2\.5.*e\+39"),
        (_core.Hue, {"factor": 0.51}, r"factor must be in \[-0\.5, 0\.5\], got 0\.51"),
        (_core.Posterize, {"bits": 0}, r"bits must be in 1\.\.8, got 0"),
        (_core.Solarize, {"threshold": math.nan}, "threshold must be a number, got nan"),
        (
            _core.Affine,
            {"matrix": [1, 0, math.inf, 0, 1, 0], "fill": (0, 0, 0), "interpolation": "nearest"},
            "matrix must be six finite numbers",
        ),
        (
            _core.Affine,
            {"matrix": [1, 0, 0, 0, 1, 0], "fill": (0, 0, 0), "interpolation": "box"},
            "interpolation must be nearest, bilinear or bicubic",
        ),
        (_core.ApplyOp, {"op": None, "probability": None}, "op must be an operation, got none"),
    ],
)
def test_bad_operations_name_argument_value_and_what_is_allowed(kind: Any, arguments: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        kind(**arguments)
