"""Every operation that a policy lists, against torchvision's own code for the same choice."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from lowered_transforms import FAMILIES, assert_runs_as_torchvision, lowered, problem_of, random_image
from native_steps import run_op
from PIL import Image
from torchvision import transforms as T
from torchvision.transforms import autoaugment, v2

from fastload import _core

# Square images are turned by 90 degrees differently from others.
SIZES = [(24, 24), (17, 30)]
FILLS: list[Any] = [None, 9, (10, 20, 250)]


def policy_step(transform: Any, size: tuple[int, int]) -> Any:
    result = lowered(T.Compose([T.CenterCrop(size), transform]))
    assert result.python_part == ()
    return result.steps[1][1]


def torchvisions(transform: Any, image: Image.Image, name: str, magnitude: float) -> Image.Image:
    if isinstance(transform, v2.Transform):
        method: Any = transform._apply_image_or_video_transform
        return method(image, name, magnitude, interpolation=transform.interpolation, fill=transform._fill)
    return autoaugment._apply_op(image, name, magnitude, transform.interpolation, transform.fill)


def space(transform: Any, num_bins: int, size: tuple[int, int]) -> dict[str, tuple[Any, bool]]:
    """Returns name -> (tensor of magnitudes or None, whether a sign is drawn), as torchvision's forward reads it."""
    if isinstance(transform, v2.Transform):
        table: Any = transform._AUGMENTATION_SPACE
        made = {name: (make(num_bins, *size), signed) for name, (make, signed) in table.items()}
        return {name: (found, signed and found is not None) for name, (found, signed) in made.items()}
    is_trivial = isinstance(transform, T.TrivialAugmentWide)
    listed = transform._augmentation_space(*([num_bins] if is_trivial else [num_bins, size]))
    return {name: (found if found.ndim else None, signed) for name, (found, signed) in listed.items()}


def signed(magnitude: float, is_signed: bool) -> Iterator[float]:
    yield magnitude
    if is_signed:
        yield -magnitude


def assert_same_pixels(ops: list[_core.PixelOp], transform: Any, name: str, magnitudes: list[float], size: Any) -> None:
    image = random_image(size[1], size[0], seed=1)
    assert len(ops) == len(magnitudes)
    for op, magnitude in zip(ops, magnitudes, strict=True):
        expected = torchvisions(transform, image, name, magnitude)
        assert run_op(op, image) == expected.tobytes(), (name, magnitude, op)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("fill", FILLS, ids=str)
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("magnitude", "num_bins"), [(9, 31), (0, 31), (30, 31), (-1, 7)])
def test_rand_augment_lists_what_torchvision_does(
    family: str, magnitude: int, num_bins: int, fill: Any, size: tuple[int, int]
) -> None:
    transform = FAMILIES[family].RandAugment(3, magnitude, num_bins, fill=fill)
    step = policy_step(transform, size)
    assert (type(step), step.family, step.num_ops) == (_core.RandAugment, family, 3)
    table = space(transform, num_bins, size)
    assert len(step.choices) == len(table) == 14
    for choice, (name, (magnitudes, is_signed)) in zip(step.choices, table.items(), strict=True):
        assert (choice.num_bins, choice.is_signed) == (1, is_signed)
        value = 0.0 if magnitudes is None else float(magnitudes[magnitude])
        assert_same_pixels(choice.ops, transform, name, list(signed(value, is_signed)), size)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("fill", FILLS, ids=str)
@pytest.mark.parametrize("family", FAMILIES)
# With 7 bins of up to 135 degrees one is 90; with 4 one is 45.
@pytest.mark.parametrize("num_bins", [31, 7, 4])
def test_trivial_augment_lists_what_torchvision_does(
    family: str, num_bins: int, fill: Any, size: tuple[int, int]
) -> None:
    transform = FAMILIES[family].TrivialAugmentWide(num_bins, fill=fill)
    step = policy_step(transform, size)
    assert (type(step), step.family) == (_core.TrivialAugmentWide, family)
    table = space(transform, num_bins, size)
    assert len(step.choices) == len(table) == 14
    for choice, (name, (magnitudes, is_signed)) in zip(step.choices, table.items(), strict=True):
        values = [0.0] if magnitudes is None else [float(magnitude) for magnitude in magnitudes]
        assert (choice.num_bins, choice.is_signed) == (len(values), is_signed)
        in_order = [value for magnitude in values for value in signed(magnitude, is_signed)]
        assert_same_pixels(choice.ops, transform, name, in_order, size)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("fill", FILLS, ids=str)
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("policy", list(T.AutoAugmentPolicy))
def test_auto_augment_lists_what_torchvision_does(family: str, policy: Any, fill: Any, size: tuple[int, int]) -> None:
    transform = FAMILIES[family].AutoAugment(policy, fill=fill)
    step = policy_step(transform, size)
    assert (type(step), step.family) == (_core.AutoAugment, family)
    table = space(transform, 10, size)
    policies = transform.policies if family == "v1" else transform._policies
    assert len(step.policies) == len(policies) == 25
    for parts, policy_parts in zip(step.policies, policies, strict=True):
        for part, (name, probability, magnitude_bin) in zip(parts, policy_parts, strict=True):
            magnitudes, is_signed = table[name]
            assert (part.probability, part.is_signed) == (float(np.float32(probability)), is_signed)
            value = 0.0 if magnitude_bin is None else float(magnitudes[magnitude_bin])
            assert_same_pixels(part.ops, transform, name, list(signed(value, is_signed)), size)


def set_policies(policies: Any) -> Any:
    transform = T.AutoAugment()
    transform.policies = policies
    return transform


def test_the_users_own_table_of_magnitudes_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    own = set_policies([(("Rotate", 0.25, 1), ("Invert", 1, None))])
    # v2 draws no sign for an operation without a magnitude.
    monkeypatch.setattr(v2.RandAugment, "_AUGMENTATION_SPACE", {"Invert": (lambda num_bins, height, width: None, True)})
    for transform in (own, v2.RandAugment()):
        policy_step(transform, (8, 8))
        assert_runs_as_torchvision(T.Compose([T.CenterCrop(8), transform]), random_image(9, 8), num_runs=40)


@pytest.mark.parametrize(
    ("transform", "reason"),
    [
        (T.RandAugment(interpolation=T.InterpolationMode.BOX), "interpolation box; native: nearest, bilinear, bicubic"),
        (v2.TrivialAugmentWide(interpolation=T.InterpolationMode.LANCZOS), "native: nearest, bilinear, bicubic"),
        (T.RandAugment(num_ops=0), "num_ops 0; native: ints from 1 to 16"),
        (T.RandAugment(magnitude=31), "listing its operations raises IndexError"),
        (T.RandAugment(num_magnitude_bins=1, magnitude=0), "bits"),
        (T.RandAugment(fill=(1, 2)), "fill (1, 2)"),
        (v2.RandAugment(fill={Image.Image: 1, "others": 0}), "for each type"),
        (T.TrivialAugmentWide(1), "num_magnitude_bins 1; native: ints from 2"),
        (T.TrivialAugmentWide(2.0), "num_magnitude_bins 2.0"),
        (T.TrivialAugmentWide(fill=300), "fill 300"),
        (set_policies([(("Rotate", 0.5, 1),)]), "a policy of 1 operations; native: two"),
        (set_policies([(("Rotate", 1.5, 1), ("Invert", 1, None))]), "p is 1.5"),
        (set_policies([(("Swirl", 0.5, 1), ("Invert", 1, None))]), "raises KeyError: 'Swirl'"),
        (set_policies([(("Invert", 0.5, 1), ("Invert", 1, None))]), "a magnitude that its operation does not have"),
        (set_policies(7), "listing its operations raises TypeError"),
    ],
    ids=lambda value: value[:50] if isinstance(value, str) else type(value).__name__,
)
def test_other_policies_run_in_python_from_there_on(transform: Any, reason: str) -> None:
    assert reason in problem_of(transform, [T.CenterCrop(8)], [T.ToTensor()])


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", ["RandAugment", "TrivialAugmentWide", "AutoAugment"])
def test_policies_need_a_known_size(family: str, name: str) -> None:
    transform = getattr(FAMILIES[family], name)()
    assert problem_of(transform, [T.Resize(8)], [T.ToTensor()]) == (
        "the images come in several sizes; native: after a transform that gives a fixed size"
    )


def test_a_replaced_operation_of_torchvision_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    transform = T.RandAugment()
    policy_step(transform, (8, 8))
    monkeypatch.setattr(autoaugment, "_apply_op", lambda image, *rest, **more: image)
    assert "_apply_op of torchvision's functions was replaced" in problem_of(transform, [T.CenterCrop(8)], [])


def test_listing_operations_draws_nothing() -> None:
    state = torch.get_rng_state()
    for namespace in FAMILIES.values():
        for name in ("RandAugment", "TrivialAugmentWide", "AutoAugment"):
            policy_step(getattr(namespace, name)(fill=123), (11, 13))
    assert torch.equal(state, torch.get_rng_state())
