"""Native random steps against torchvision v1 and v2 after torch.manual_seed: the same bytes, and the same state of the
generator afterwards."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
import torchvision_shim  # noqa: F401
from lowered_transforms import lowered, lowered_step, plan_of
from native_steps import (
    Step,
    apply,
    check_drawn,
    log_of,
    make_placed_plan,
    make_plan,
    native_draws,
    noise,
    recorded_op,
    run_steps,
)
from recipes import apply_steps
from torchvision.transforms import InterpolationMode, autoaugment, v2
from torchvision.transforms import transforms as v1

from fastload import _core

VERSIONS: dict[str, ModuleType] = {"v1": v1, "v2": v2}
SIZES = [(40, 40), (57, 33), (20, 71)]

both_versions = pytest.mark.parametrize("version", VERSIONS)


def check(transform: Any, sizes: Iterable[tuple[int, int]] = SIZES, seeds: int = 60) -> set[bytes]:
    """Returns the results of the transform's native steps after asserting that all are equal to torchvision's."""
    plan = plan_of(transform)
    images = [noise(*size) for size in sizes]
    return {check_drawn(plan, transform, image, seed) for image in images for seed in range(seeds)}


ROTATIONS: list[dict[str, Any]] = [
    {"degrees": 30},
    {"degrees": (-400, 1e6), "fill": 77},
    {"degrees": 180, "fill": (1, 2, 255), "center": (3, 40.5)},
    {"degrees": (0, 0)},
    {"degrees": (90, 90), "fill": [9]},
    {"degrees": (-180, -180)},
    {"degrees": (630, 630), "fill": (0, 0, 7)},
    {"degrees": (-360, -360), "center": [0, 0]},
    {"degrees": (-1e-30, -1e-30)},  # in Python -1e-30 % 360.0 is 360.0
    {"degrees": 45, "interpolation": InterpolationMode.BILINEAR, "fill": 9},
    {"degrees": (-180, 180), "interpolation": InterpolationMode.BICUBIC, "center": (3.5, 8)},
    {"degrees": (180, 180), "interpolation": InterpolationMode.BICUBIC},
]


@both_versions
@pytest.mark.parametrize("arguments", ROTATIONS, ids=str)
def test_rotation_equals_torchvision(version: str, arguments: dict[str, Any]) -> None:
    transform = VERSIONS[version].RandomRotation(**arguments)
    results = check(transform)
    is_random = transform.degrees[0] < transform.degrees[1]
    assert len(results) > (30 if is_random else 0) * len(SIZES)


@both_versions
@pytest.mark.parametrize("center", [None, (10.25, -3)])
def test_matrices_of_rotations_are_pillows(version: str, center: tuple[float, float] | None) -> None:
    transform = VERSIONS[version].RandomRotation((-720, 720), center=center)
    plan = plan_of(transform)
    image = noise(33, 20)
    for seed in range(2000):
        torch.manual_seed(seed)
        expected = recorded_op(lambda: transform(image))
        ((word, *matrix, _, _),) = plan.resolve(native_draws(seed), 33, 20)
        assert (word, matrix) == ("affine", list(expected.matrix)), seed


@both_versions
@pytest.mark.parametrize(
    ("size", "sizes"),
    [
        ((20, 20), [(40, 40), (57, 33), (20, 71), (71, 20), (20, 20)]),  # (20, 20): nothing to draw
        ((33, 1), [(57, 33), (1, 33), (1, 34), (2, 33)]),
    ],
)
def test_random_crops_equal_torchvision(version: str, size: tuple[int, int], sizes: list[tuple[int, int]]) -> None:
    assert len(check(VERSIONS[version].RandomCrop(size), sizes)) > 30


@both_versions
def test_a_crop_larger_than_the_image_is_refused_by_both(version: str) -> None:
    crop = VERSIONS[version].RandomCrop(20)
    with pytest.raises(ValueError, match=r"Required crop size \(20, 20\) is larger than"):
        crop(noise(30, 19))
    with pytest.raises(ValueError, match="a random crop is larger than the image"):
        run_steps([lowered_step(crop)], noise(30, 19))


# Whole recipes, and reports of them.


# The recipe of self-supervised training: crop, flip, jitter at random, grayscale, solarize.
RECIPE = [
    v1.RandomResizedCrop(32, (0.2, 1.0), interpolation=InterpolationMode.BICUBIC),
    v1.RandomHorizontalFlip(),
    v1.RandomApply([v1.ColorJitter(0.4, 0.4, 0.2, 0.1)], p=0.8),
    v1.RandomGrayscale(0.2),
    v1.RandomSolarize(128, 0.5),
]


def test_a_whole_recipe_equals_torchvision() -> None:
    check(v1.Compose(RECIPE), [(90, 60), (50, 75)], seeds=300)


def test_counter_draws_give_each_sample_its_own_choices_and_reports_replay_them() -> None:
    steps = lowered(v1.Compose([*RECIPE, autoaugment.TrivialAugmentWide()])).steps
    plan = make_placed_plan(steps, allow_variable_size=False)
    image = noise(90, 60)
    results = []
    for sample in range(300):
        reported = plan.resolve(_core.CounterDraws(1, 2, sample), *image.size)
        results.append(apply(plan, np.asarray(image), _core.CounterDraws(1, 2, sample)))
        assert apply_steps(image, reported).tobytes() == results[-1], sample
    assert len(set(results)) == 300
    # The nested step has its own position, so its neighbours do not shift its draws.
    alone = make_placed_plan([(position, step) for position, step in steps if position != 4])
    colors = {"brightness", "contrast", "saturation", "hue"}
    for sample in range(50):
        jitters = [
            [step for step in each.resolve(_core.CounterDraws(1, 2, sample), *image.size) if step[0] in colors]
            for each in (plan, alone)
        ]
        kinds = [len(each) for each in jitters]
        assert kinds[0] == kinds[1]
        assert jitters[0] == jitters[1]


def choice(**changes: Any) -> _core.PolicyChoice:
    arguments: dict[str, Any] = {"ops": [_core.Invert()], "is_signed": False, "num_bins": 1, "probability": 0.5}
    return _core.PolicyChoice(**arguments | changes)


def jitter(**ranges: Any) -> Step:
    return _core.ColorJitter(**{"brightness": None, "contrast": None, "saturation": None, "hue": None} | ranges)


def rotation(**changes: Any) -> Step:
    arguments: dict[str, Any] = {"degrees": (0, 1), "center": None, "fill": (0, 0, 0), "interpolation": "nearest"}
    return _core.RandomRotation(**arguments | changes)


def erasing(**changes: Any) -> Step:
    arguments: dict[str, Any] = {"probability": 0.5, "scale": (0.02, 0.33), "ratio": (0.3, 3.3), "value": b"123"}
    return _core.RandomErasing(**arguments | {"log_ratio": log_of((0.3, 3.3))} | changes)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: _core.RandomCrop(
            height=5, width=5, family="v3", pad_if_needed=False, padding_mode="edge", fill=(0, 0, 0)),
         r"family must be one of \"v1\", \"v2\", got 'v3'"),
        (lambda: rotation(degrees=(2, 1)), "degrees must be two "),
        (lambda: rotation(center=(math.nan, 0)), "center must be two "),
        (lambda: jitter(brightness=(1.5, 0.5)),
         r"brightness must be None or two float32 numbers with 0 <= first <= second, got \(1\.5, 0\.5\)"),
        (lambda: jitter(hue=(-0.6, 0.5)),
         r"hue must be None or two numbers with -0\.5 <= first <= second <= 0\.5, got \(-0\.6, 0\.5\)"),
        (lambda: _core.RandomApply(probability=2.0, family="v1", steps=[]), r"probability must be in \[0, 1\], got 2"),
        (lambda: _core.RandAugment(num_ops=17, choices=[choice()], family="v1"), r"num_ops must be in 0\.\.16, got 17"),
        (lambda: _core.TrivialAugmentWide(choices=[], family="v1"), "choices must not be empty"),
        (lambda: _core.TrivialAugmentWide(choices=[None], family="v1"), r"choices\[0\]: there is none"),
        (lambda: choice(is_signed=True, num_bins=3, ops=[_core.Invert()] * 5),
         "ops must be one operation for each bin and sign, 6, got 5"),
        (lambda: choice(ops=[None]), r"ops\[0\]: there is none"),
        (lambda: choice(num_bins=0), "num_bins must be positive, got 0"),
        (lambda: choice(probability=-0.1), r"probability must be in \[0, 1\], got -0\.1"),
        (lambda: _core.RandAugment(num_ops=2, choices=[choice(num_bins=2, ops=[_core.Invert()] * 2)], family="v1"),
         r"choices\[0\]\.num_bins must be 1, got 2"),
        (lambda: _core.AutoAugment(policies=[], family="v1"), "policies must not be empty"),
    ],
)  # fmt: skip
def test_bad_arguments_name_argument_value_and_what_is_allowed(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_erasing_must_be_last_and_its_value_must_fit() -> None:
    with pytest.raises(ValueError, match=r"steps\[0\]: value must be 3 \* element_size = 3 bytes, got 4"):
        make_plan([erasing(value=b"1234")])
    with pytest.raises(ValueError, match=r"steps\[1\] comes after a step on finished elements"):
        make_plan([erasing(), _core.RandomVerticalFlip(probability=0.5)])
    with pytest.raises(ValueError, match="steps must work on images"):
        _core.RandomApply(probability=0.5, family="v1", steps=[(1, erasing())])


def test_too_many_operations_are_refused() -> None:
    make_plan([jitter(brightness=(0.5, 1.0))] * 8)
    with pytest.raises(ValueError, match="steps must be at most 32 operations, got 36"):
        make_plan([jitter(brightness=(0.5, 1.0))] * 9)
