"""Native random steps against torchvision v1 and v2 after torch.manual_seed: the same bytes and the same state of the
generator behind them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
import torchvision_shim  # noqa: F401
from native_steps import Step, make_plan, native_draws, noise, recorded_op, run_steps, state_after
from PIL import Image
from recipes import MEAN, STD, apply_steps, erase_boxes
from torchvision.transforms import InterpolationMode, v2
from torchvision.transforms import functional as F
from torchvision.transforms import transforms as v1
from torchvision.transforms.autoaugment import (
    AutoAugment,
    AutoAugmentPolicy,
    RandAugment,
    TrivialAugmentWide,
    _apply_op,
)

from fastload import _core

VERSIONS: dict[str, ModuleType] = {"v1": v1, "v2": v2}
SIZES = [(40, 40), (57, 33), (20, 71)]

both_versions = pytest.mark.parametrize("version", VERSIONS)


def check(
    steps: list[Step], transform: Callable[[Any], Any], sizes: Iterable[tuple[int, int]] = SIZES, seeds: int = 60
) -> set[bytes]:
    """The results, all of which are equal to torchvision's."""
    plan = make_plan(steps)
    results = set()
    for size in sizes:
        image = noise(*size)
        for seed in range(seeds):
            torch.manual_seed(seed)
            expected = transform(image).tobytes()
            draws = native_draws(seed)
            assert _core.apply_transform(plan, np.asarray(image), draws) == expected, (size, seed)
            assert state_after(draws, seed) == torch.get_rng_state().numpy().tobytes(), (size, seed)
            results.add(expected)
    return results


# Flips, crops and nesting.


def pixel_op(op: Step, probability: float | None = None, position: int = 0) -> Step:
    return {"kind": "pixel_op", "position": position, "probability": probability, "op": op}


@both_versions
@pytest.mark.parametrize("probability", [0.0, 0.3, 0.5, 1.0])
def test_flips_and_grayscale_equal_torchvision(version: str, probability: float) -> None:
    module = VERSIONS[version]
    steps: list[Step] = [
        {"kind": "vertical_flip", "probability": probability},
        {"kind": "horizontal_flip", "probability": probability},
        pixel_op({"op": "grayscale"}, probability),
    ]
    transform = module.Compose(
        [
            module.RandomVerticalFlip(probability),
            module.RandomHorizontalFlip(probability),
            module.RandomGrayscale(probability),
        ]
    )
    assert len(check(steps, transform)) == len(SIZES) * (1 if probability in (0, 1) else 8)


@both_versions
def test_operations_with_a_probability_equal_torchvision(version: str) -> None:
    module = VERSIONS[version]
    pairs = [
        ({"op": "invert"}, module.RandomInvert(0.5)),
        ({"op": "posterize", "bits": 3}, module.RandomPosterize(3, 0.5)),
        ({"op": "solarize", "threshold": 128.0}, module.RandomSolarize(128.0, 0.5)),
        ({"op": "sharpness", "factor": 1.7}, module.RandomAdjustSharpness(1.7, 0.5)),
        ({"op": "autocontrast"}, module.RandomAutocontrast(0.5)),
        ({"op": "equalize"}, module.RandomEqualize(0.5)),
    ]
    check(
        [pixel_op(op, 0.5, position) for position, (op, _) in enumerate(pairs)], module.Compose([t for _, t in pairs])
    )


def crop_step(version: str, height: int, width: int, **changes: Any) -> Step:
    defaults = {"pad_if_needed": False, "padding_mode": "constant", "fill": (0, 0, 0)}
    return {"kind": "random_crop", "height": height, "width": width, "draws": version} | defaults | changes


@both_versions
@pytest.mark.parametrize(
    ("size", "sizes"),
    [
        ((20, 20), [(40, 40), (57, 33), (20, 71), (71, 20), (20, 20)]),  # (20, 20): nothing to draw
        ((33, 1), [(57, 33), (1, 33), (1, 34), (2, 33)]),
    ],
)
def test_random_crops_equal_torchvision(version: str, size: tuple[int, int], sizes: list[tuple[int, int]]) -> None:
    results = check([crop_step(version, *size)], VERSIONS[version].RandomCrop(size), sizes)
    assert len(results) > 30


@both_versions
@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "symmetric"])
def test_random_crops_with_padding_equal_torchvision(version: str, mode: str) -> None:
    fill = (3, 200, 5) if mode == "constant" else (0, 0, 0)
    pad = {"kind": "pad", "left": 4, "top": 4, "right": 4, "bottom": 4, "padding_mode": mode, "fill": fill}
    transform = VERSIONS[version].RandomCrop(32, padding=4, fill=fill, padding_mode=mode)
    sizes = [(32, 32), (24, 40), (100, 24)]
    check([pad, crop_step(version, 32, 32)], transform, sizes)
    needed = crop_step(version, 32, 32, pad_if_needed=True, padding_mode=mode, fill=fill)
    transform = VERSIONS[version].RandomCrop(32, pad_if_needed=True, fill=fill, padding_mode=mode)
    check([needed], transform, [(32, 32), (30, 31), (10, 40), (40, 5), (3, 3)])


@both_versions
def test_a_crop_larger_than_the_image_is_refused_by_both(version: str) -> None:
    with pytest.raises(ValueError, match=r"Required crop size \(20, 20\) is larger than"):
        VERSIONS[version].RandomCrop(20)(noise(30, 19))
    with pytest.raises(ValueError, match="a random crop is larger than the image"):
        run_steps([crop_step(version, 20, 20)], noise(30, 19))


@both_versions
@pytest.mark.parametrize("probability", [0.0, 0.4, 1.0])
def test_random_apply_equals_torchvision_also_nested(version: str, probability: float) -> None:
    module = VERSIONS[version]

    def apply(steps: list[Step], position: int) -> Step:
        return {
            "kind": "random_apply",
            "position": position,
            "probability": probability,
            "draws": version,
            "steps": steps,
        }

    inner = apply(
        [pixel_op({"op": "invert"}, None, 3), {"kind": "vertical_flip", "position": 4, "probability": 0.5}], 2
    )
    steps = [apply([{"kind": "horizontal_flip", "position": 1, "probability": 0.5}, inner], 0)]
    transform = module.RandomApply(
        [
            module.RandomHorizontalFlip(0.5),
            module.RandomApply([module.RandomInvert(1.0), module.RandomVerticalFlip(0.5)], probability),
        ],
        probability,
    )
    if version == "v1":  # RandomInvert draws in torchvision; the step without a probability does not
        transform.transforms[1].transforms[0] = v1.Lambda(F.invert)
    else:
        transform.transforms[1].transforms[0] = v2.Lambda(F.invert)
    check(steps, transform)


# Colour jitter.


@both_versions
@pytest.mark.parametrize(
    "arguments",
    [
        {"brightness": 0.4, "contrast": 0.4, "saturation": 0.4, "hue": 0.1},
        {"brightness": (0.0, 3.0), "contrast": (0.9, 0.9), "saturation": (0.0, 0.0), "hue": (-0.5, 0.5)},
        {"contrast": 0.8},
        {"hue": 0.5, "saturation": 1.5},
        {},
    ],
)
def test_color_jitter_equals_torchvision(version: str, arguments: dict[str, Any]) -> None:
    transform = VERSIONS[version].ColorJitter(**arguments)
    names = ("brightness", "contrast", "saturation", "hue")
    check([{"kind": "color_jitter"} | {name: getattr(transform, name) for name in names}], transform, seeds=80)


# Policies. Each operation is worked out by torchvision itself, on an image of the size.


def worked_out(name: str, magnitude: float, size: tuple[int, int], *, is_v2: bool) -> Step:
    geometry = {"ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate"}
    if name in geometry:
        return recorded_op(lambda: _apply_op(noise(*size), name, magnitude, InterpolationMode.NEAREST, None))
    adjustments = {"Brightness": "brightness", "Color": "saturation", "Contrast": "contrast", "Sharpness": "sharpness"}
    if name in adjustments:
        return {"op": adjustments[name], "factor": 1.0 + magnitude}
    if name == "Posterize":
        return {"op": "posterize", "bits": int(magnitude)}
    if name == "Solarize":
        return {"op": "solarize", "threshold": 255.0 * magnitude if is_v2 else magnitude}
    return {"op": name.lower()}


def signed_ops(name: str, magnitudes: list[float], is_signed: bool, size: tuple[int, int], is_v2: bool) -> list[Step]:
    signs = (1.0, -1.0) if is_signed else (1.0,)
    return [worked_out(name, sign * magnitude, size, is_v2=is_v2) for magnitude in magnitudes for sign in signs]


def augmentation_space(transform: Any, bins: int, size: tuple[int, int]) -> dict[str, tuple[list[float] | None, bool]]:
    """The magnitudes of each operation, None where it has none."""
    width, height = size
    if isinstance(transform, v2.Transform):
        space = {
            name: (make(bins, height, width), sign) for name, (make, sign) in transform._AUGMENTATION_SPACE.items()
        }
    elif isinstance(transform, TrivialAugmentWide):
        space = transform._augmentation_space(bins)
    else:
        space = transform._augmentation_space(bins, (height, width))
    return {
        name: (None if values is None or values.ndim == 0 else [float(value) for value in values], is_signed)
        for name, (values, is_signed) in space.items()
    }


def rand_augment_step(transform: Any, version: str, size: tuple[int, int]) -> Step:
    choices = []
    for name, (magnitudes, is_signed) in augmentation_space(transform, transform.num_magnitude_bins, size).items():
        chosen = [0.0] if magnitudes is None else [magnitudes[transform.magnitude]]
        ops = signed_ops(name, chosen, is_signed, size, version == "v2")
        choices.append({"is_signed": is_signed, "num_bins": 1, "ops": ops})
    rule = {"kind": "policy", "rule": "rand_augment", "draws": version, "num_ops": transform.num_ops}
    return rule | {"choices": choices}


def trivial_augment_step(transform: Any, version: str, size: tuple[int, int]) -> Step:
    choices = []
    for name, (magnitudes, is_signed) in augmentation_space(transform, transform.num_magnitude_bins, size).items():
        ops = signed_ops(name, magnitudes or [0.0], is_signed, size, version == "v2")
        choices.append({"is_signed": is_signed, "num_bins": len(magnitudes or [0.0]), "ops": ops})
    return {"kind": "policy", "rule": "trivial_augment", "draws": version, "choices": choices}


def auto_augment_step(transform: Any, version: str, size: tuple[int, int]) -> Step:
    space = augmentation_space(transform, 10, size)
    policies = []
    for pair in transform.policies if version == "v1" else transform._policies:
        policies.append([])
        for name, probability, magnitude_id in pair:
            magnitudes, is_signed = space[name]
            chosen = [0.0] if magnitude_id is None else [magnitudes[magnitude_id]]
            ops = signed_ops(name, chosen, is_signed, size, version == "v2")
            policies[-1].append({"probability": probability, "is_signed": is_signed, "ops": ops})
    return {"kind": "policy", "rule": "auto_augment", "draws": version, "policies": policies}


@both_versions
@pytest.mark.parametrize("arguments", [{}, {"num_ops": 5, "magnitude": 20}, {"num_ops": 0}])
def test_rand_augment_equals_torchvision(version: str, arguments: dict[str, int]) -> None:
    transform = (RandAugment if version == "v1" else v2.RandAugment)(**arguments)
    for size in SIZES:
        check([rand_augment_step(transform, version, size)], transform, [size], seeds=150)


@both_versions
def test_trivial_augment_equals_torchvision(version: str) -> None:
    transform = TrivialAugmentWide() if version == "v1" else v2.TrivialAugmentWide()
    for size in SIZES:
        results = check([trivial_augment_step(transform, version, size)], transform, [size], seeds=400)
        assert len(results) > 150


@both_versions
@pytest.mark.parametrize("policy", list(AutoAugmentPolicy))
def test_auto_augment_equals_torchvision(version: str, policy: AutoAugmentPolicy) -> None:
    transform = (AutoAugment if version == "v1" else v2.AutoAugment)(policy)
    for size in SIZES:
        check([auto_augment_step(transform, version, size)], transform, [size], seeds=200)


# Random erasing: on the finished elements.


def tensor_bytes(tensor: torch.Tensor) -> bytes:
    return bytes(tensor.contiguous().view(torch.uint8).numpy().tobytes())


TAILS: dict[str, list[Any]] = {
    "uint8": [v1.PILToTensor()],
    "float32 normalized": [v1.ToTensor(), v1.Normalize(MEAN, STD)],
    "float16": [v1.PILToTensor(), v1.ConvertImageDtype(torch.float16)],
    "float64": [v1.PILToTensor(), v1.ConvertImageDtype(torch.float64)],
}


def erasing_plan(transform: Any, version: str, tail: Callable[[Any], torch.Tensor], channels_last: bool) -> Any:
    ramp = np.repeat(np.arange(256, dtype=np.uint8)[None, :, None], 3, axis=2)
    values = tail(Image.fromarray(ramp))
    value = transform.value if isinstance(transform.value, (list, tuple)) else [transform.value]
    color = torch.tensor([float(number) for number in value]).expand(3).to(values.dtype)
    step = {
        "kind": "random_erasing",
        "position": 1,
        "probability": transform.p,
        "scale": transform.scale,
        "ratio": transform.ratio,
        "log_ratio": torch.log(torch.tensor(transform.ratio)).tolist(),
        "value": tensor_bytes(color),
        "draws": version,
    }
    flip = {"kind": "horizontal_flip", "position": 0, "probability": 0.5}
    table = None if values.dtype == torch.uint8 else tensor_bytes(values)
    return make_plan([flip, step], element_size=values.element_size(), table=table, channels_last=channels_last)


@both_versions
@pytest.mark.parametrize("tail_name", TAILS)
@pytest.mark.parametrize(
    "arguments",
    [
        {"p": 1.0},
        {"p": 0.25, "value": (0.4, 7, 200)},
        {"p": 1.0, "scale": (0.5, 1.0), "ratio": (0.1, 9.0), "value": 3},  # many attempts, some in vain
        {"p": 1.0, "scale": (0.0, 0.0)},  # an empty box
    ],
)
def test_random_erasing_equals_torchvision(version: str, tail_name: str, arguments: dict[str, Any]) -> None:
    module = VERSIONS[version]
    tail = v1.Compose(TAILS[tail_name])
    erasing = module.RandomErasing(**arguments)
    pipeline = v1.Compose([module.RandomHorizontalFlip(), tail, erasing])
    for channels_last in (False, True):
        plan = erasing_plan(erasing, version, tail, channels_last)
        for size in [(40, 40), (57, 33), (3, 2)]:
            image = noise(*size)
            for seed in range(40):
                torch.manual_seed(seed)
                expected = pipeline(image)
                draws = native_draws(seed)
                result = _core.apply_transform(plan, np.asarray(image), draws)
                ordered = expected.permute(1, 2, 0) if channels_last else expected
                assert result == tensor_bytes(ordered), (size, seed)
                assert state_after(draws, seed) == torch.get_rng_state().numpy().tobytes(), (size, seed)
                reported = plan.resolve(native_draws(seed), *size)
                assert torch.equal(erase_boxes(tail(apply_steps(image, reported)), reported), expected)


# Whole recipes, and reports of them.


def usual_recipe() -> tuple[list[Step], Callable[[Any], Any]]:
    """Self-supervised training's: crop, flip, jitter at random, grayscale, solarize."""
    jitter = v1.ColorJitter(0.4, 0.4, 0.2, 0.1)
    names = ("brightness", "contrast", "saturation", "hue")
    inner = {"kind": "color_jitter", "position": 3} | {name: getattr(jitter, name) for name in names}
    ratio = (3.0 / 4.0, 4.0 / 3.0)
    steps: list[Step] = [
        {
            "kind": "random_resized_crop",
            "position": 0,
            "height": 32,
            "width": 32,
            "scale": (0.2, 1.0),
            "ratio": ratio,
            "log_ratio": torch.log(torch.tensor(ratio)).tolist(),
            "interpolation": "bicubic",
        },
        {"kind": "horizontal_flip", "position": 1, "probability": 0.5},
        {"kind": "random_apply", "position": 2, "probability": 0.8, "draws": "v1", "steps": [inner]},
        pixel_op({"op": "grayscale"}, 0.2, 4),
        pixel_op({"op": "solarize", "threshold": 128.0}, 0.5, 5),
    ]
    transform = v1.Compose(
        [
            v1.RandomResizedCrop(32, (0.2, 1.0), interpolation=InterpolationMode.BICUBIC),
            v1.RandomHorizontalFlip(),
            v1.RandomApply([jitter], p=0.8),
            v1.RandomGrayscale(0.2),
            v1.RandomSolarize(128, 0.5),
        ]
    )
    return steps, transform


def test_a_whole_recipe_equals_torchvision() -> None:
    steps, transform = usual_recipe()
    check(steps, transform, [(90, 60), (50, 75)], seeds=300)


def test_counter_draws_give_each_sample_its_own_choices_and_reports_replay_them() -> None:
    steps, _ = usual_recipe()
    steps = [*steps, trivial_augment_step(TrivialAugmentWide(), "v1", (32, 32)) | {"position": 6}]
    plan = make_plan(steps, allow_variable_size=False)
    image = noise(90, 60)
    results = []
    for sample in range(300):
        reported = plan.resolve(_core.CounterDraws(1, 2, sample), *image.size)
        results.append(_core.apply_transform(plan, np.asarray(image), _core.CounterDraws(1, 2, sample)))
        assert apply_steps(image, reported).tobytes() == results[-1], sample
    assert len(set(results)) == 300
    # The nested step has a position of its own, so what stands beside it does not shift its draws.
    alone = make_plan([step for step in steps if step["position"] != 4])
    colors = {"brightness", "contrast", "saturation", "hue"}
    for sample in range(50):
        jitters = [
            [step for step in each.resolve(_core.CounterDraws(1, 2, sample), *image.size) if step[0] in colors]
            for each in (plan, alone)
        ]
        kinds = [len(each) for each in jitters]
        assert kinds[0] == kinds[1]
        assert jitters[0] == jitters[1]


def test_the_factors_of_a_jitter_are_uniform() -> None:
    ranges = {"brightness": (0.5, 1.5), "contrast": None, "saturation": None, "hue": None}
    plan = make_plan([{"kind": "color_jitter"} | ranges])
    factors = [plan.resolve(_core.CounterDraws(3, 0, sample), 5, 5)[0][1] for sample in range(4000)]
    assert min(factors) >= 0.5
    assert max(factors) <= 1.5
    # Mean of a uniform variable: standard deviation 1 / sqrt(12 n); four of them.
    assert abs(np.mean(factors) - 1.0) < 4 / math.sqrt(12 * len(factors))


GOOD_OP = {"op": "invert"}


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (crop_step("v3", 5, 5), r"steps\[0\]\.draws must be one of \"v1\", \"v2\", got 'v3'"),
        (crop_step("v1", 5, 5, pad_if_needed=1), r"pad_if_needed must be a bool, got 1"),
        ({"kind": "color_jitter", "brightness": (1.5, 0.5), "contrast": None, "saturation": None, "hue": None},
         r"brightness must be None or two float32 numbers with 0 <= first <= second, got \(1\.5, 0\.5\)"),
        ({"kind": "color_jitter", "brightness": None, "contrast": None, "saturation": None, "hue": (-0.6, 0.5)},
         r"hue must be None or two numbers with -0\.5 <= first <= second <= 0\.5, got \(-0\.6, 0\.5\)"),
        ({"kind": "random_apply", "probability": 2.0, "draws": "v1", "steps": []},
         r"steps\[0\]\.probability must be in \[0, 1\], got 2"),
        ({"kind": "random_apply", "probability": 0.5, "draws": "v1", "steps": [{"kind": "resize", "position": 1}]},
         r"steps\[0\]\.steps\[0\] needs the key \"height\""),
        ({"kind": "policy", "rule": "rand_augment", "draws": "v1", "num_ops": 17, "choices": []},
         r"num_ops must be an int in 0\.\.16, got 17"),
        ({"kind": "policy", "rule": "trivial_augment", "draws": "v1", "choices": []},
         r"steps\[0\]\.choices must not be empty"),
        ({"kind": "policy", "rule": "trivial_augment", "draws": "v1",
          "choices": [{"is_signed": True, "num_bins": 3, "ops": [GOOD_OP] * 5}]},
         r"choices\[0\]\.ops must be one operation for each bin and sign, 6, got 5"),
        ({"kind": "policy", "rule": "rand_augment", "draws": "v1", "num_ops": 2,
          "choices": [{"is_signed": False, "num_bins": 2, "ops": [GOOD_OP] * 2}]},
         r"choices\[0\]\.num_bins must be 1 in a rand_augment, got 2"),
        ({"kind": "policy", "rule": "auto_augment", "draws": "v1",
          "policies": [[{"probability": 0.5, "is_signed": False, "ops": [GOOD_OP]}]]},
         r"policies\[0\] must be a pair of operations, got"),
        ({"kind": "policy", "rule": "auto_augment", "draws": "v1",
          "policies": [[{"probability": p, "is_signed": False, "ops": [GOOD_OP]} for p in (0.5, -0.1)]]},
         r"policies\[0\]\[1\]\.probability must be in \[0, 1\], got -0\.1"),
    ],
)  # fmt: skip
def test_bad_arguments_name_argument_value_and_what_is_allowed(step: Step, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_plan([step])


def erasing_step(**changes: Any) -> Step:
    rule = {"scale": (0.02, 0.33), "ratio": (0.3, 3.3), "log_ratio": torch.log(torch.tensor((0.3, 3.3))).tolist()}
    return {"kind": "random_erasing", "probability": 0.5, "value": b"123", "draws": "v1"} | rule | changes


def test_erasing_must_be_last_and_its_value_must_fit() -> None:
    with pytest.raises(ValueError, match=r"steps\[0\]\.value must be 3 \* element_size = 3 bytes, got 4"):
        make_plan([erasing_step(value=b"1234")])
    with pytest.raises(ValueError, match=r"steps\[1\] comes after a random_erasing"):
        make_plan([erasing_step(), {"kind": "vertical_flip", "probability": 0.5}])
    nested = {"kind": "random_apply", "probability": 0.5, "draws": "v1", "steps": [erasing_step(position=1)]}
    with pytest.raises(ValueError, match=r"steps\[0\]\.steps\[0\] is a random_erasing"):
        make_plan([nested])


def test_too_many_operations_are_refused() -> None:
    jitter = {"kind": "color_jitter", "brightness": (0.5, 1.0), "contrast": (0.5, 1.0), "saturation": None, "hue": None}
    make_plan([jitter] * 16)
    with pytest.raises(ValueError, match="steps must be at most 32 operations, got 34"):
        make_plan([jitter] * 17)
