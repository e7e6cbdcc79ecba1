"""Which tensor parts become a table, with torchvision's bytes, and where they are cut."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
import torch
from lowered_transforms import (
    MEAN,
    RGB,
    STD,
    assert_runs_as_torchvision,
    changed,
    is_native,
    lowered,
    problem_of,
    random_image,
)
from PIL import Image
from torch.utils.data import default_collate
from torchvision import transforms as T
from torchvision import tv_tensors
from torchvision.transforms import v2

TENSOR_PARTS: list[list[Any]] = [
    [T.PILToTensor()],
    [T.ToTensor()],
    [T.ToTensor(), T.Normalize(MEAN, STD)],
    [T.ToTensor(), T.Normalize(MEAN, STD, inplace=True)],
    [T.ToTensor(), T.Normalize([0.5], [0.25])],
    [T.ToTensor(), T.Normalize(torch.tensor(MEAN), np.array(STD)), T.Normalize(0.1, 3)],
    [T.PILToTensor(), T.ConvertImageDtype(torch.float32), T.Normalize(MEAN, STD)],
    [T.PILToTensor(), T.ConvertImageDtype(torch.float16)],
    [T.PILToTensor(), T.ConvertImageDtype(torch.bfloat16), T.Normalize(MEAN, STD)],
    [T.PILToTensor(), T.ConvertImageDtype(torch.float64)],
    [T.PILToTensor(), T.ConvertImageDtype(torch.int16)],
    [T.PILToTensor(), T.ConvertImageDtype(torch.int64)],
    [T.PILToTensor(), T.ConvertImageDtype(torch.int8)],
    [T.ToTensor(), T.ConvertImageDtype(torch.uint8)],
    [T.ToTensor(), T.Normalize((0.1, 0.2, 0.3), (2.0, 2.0, 2.0)), T.ConvertImageDtype(torch.float16)],
    [v2.ToImage()],
    [v2.PILToTensor()],
    [v2.ToImage(), v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)],
    [v2.ToImage(), v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD), v2.ToPureTensor()],
    [v2.ToImage(), v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD, inplace=True)],
    [v2.ToImage(), v2.ToDtype(torch.float32), v2.Identity(), RGB()],
    [v2.ToImage(), v2.ToDtype({tv_tensors.Image: torch.float64, "others": None}, scale=True)],
    [v2.PILToTensor(), v2.ToDtype(torch.uint8, scale=True), v2.ConvertImageDtype(torch.bfloat16)],
    [v2.ToImage(), T.ConvertImageDtype(torch.float32), v2.Normalize(MEAN, STD)],
    [v2.ToImage(), v2.ToDtype(torch.float32, scale=True), T.Normalize(MEAN, STD)],
    [T.PILToTensor(), v2.ToDtype(torch.int32, scale=True)],
]


@pytest.mark.parametrize("tensor_part", TENSOR_PARTS, ids=str)
def test_native_elements_are_torchvisions(tensor_part: list[Any]) -> None:
    transform = T.Compose([T.CenterCrop((53, 47)), *tensor_part])
    assert is_native(transform)
    assert_runs_as_torchvision(transform, random_image(47, 53))


def test_v2_totensor_is_v1s() -> None:
    with pytest.warns(UserWarning, match="deprecated"):
        transform = v2.ToTensor()
    assert lowered(transform).form.table == lowered(T.ToTensor()).form.table


def test_images_stay_in_python_where_torchvision_makes_batches_tv_tensors_of_them() -> None:
    to_image = v2.ToImage()
    transform = v2.Compose([v2.CenterCrop(8), to_image, v2.ToDtype(torch.float32, scale=True)])
    assert is_native(transform)
    with tv_tensors.set_return_type("TVTensor"):
        assert type(default_collate([transform(Image.new("RGB", (9, 9)))])) is tv_tensors.Image
        assert problem_of(to_image, [v2.CenterCrop(8)], []) == "batches of its results are not plain tensors"
        assert lowered(v2.Compose([v2.CenterCrop(8), v2.PILToTensor()])).python_part == ()


@pytest.mark.parametrize(
    ("before", "transform", "reason"),
    [
        ([], T.Normalize(0, 1), "not native on images; native: after PILToTensor, ToTensor or v2.ToImage"),
        ([T.ToTensor()], T.CenterCrop(8), "not native on tensors; native: before PILToTensor, ToTensor or v2.ToImage"),
        ([T.ToTensor()], T.RandomHorizontalFlip(), "not native on tensors"),
        ([v2.ToImage()], v2.RandomResizedCrop(8), "not native on tensors"),
        ([T.ToTensor()], T.PILToTensor(), "the tensor part raises TypeError: pic should be PIL Image"),
        ([T.ToTensor()], T.RandomApply([T.Normalize(0, 1)]), "not native on tensors"),
        ([T.ToTensor()], T.Lambda(abs), "not native yet; native: AutoAugment, "),
        ([T.PILToTensor()], T.Normalize(0, 1), "the tensor part raises TypeError: Input tensor should be a float"),
        ([T.ToTensor()], T.Normalize([0] * 4, [1] * 4), "the tensor part raises RuntimeError"),
        ([T.ToTensor()], T.Normalize(0, 0), "the tensor part raises ValueError: std eval"),
        (
            [T.ToTensor()],
            T.ConvertImageDtype(torch.complex64),
            "the tensor part gives Tensor of torch.complex64",
        ),
        ([T.ToTensor()], T.Normalize(np.zeros((3, 1, 256)), 1), "the tensor part raises"),
        ([T.ToTensor()], T.Normalize(torch.zeros(3, 3, 1, 1), torch.ones(3, 1, 1)), "the tensor part"),
        (
            [T.ToTensor()],
            T.Normalize(torch.nn.Parameter(torch.zeros(3)), torch.ones(3)),
            "the tensor part gives tensors that require gradients",
        ),
        ([v2.ToImage()], v2.ToDtype({}), "the tensor part raises ValueError: No dtype was specified"),
        ([T.ToTensor(), T.RandomErasing()], T.Normalize(0, 1), "not native after a RandomErasing"),
        ([T.ToTensor(), T.RandomErasing()], T.RandomErasing(), "not native after a RandomErasing"),
    ],
    ids=lambda value: value[:50] if isinstance(value, str) else None,
)
def test_a_tensor_part_is_cut_where_it_is_not_a_table(before: list[Any], transform: Any, reason: str) -> None:
    assert reason in problem_of(transform, [T.CenterCrop(8), *before], [v2.Identity()])
    assert lowered(T.Compose([*before, transform])).form.table == lowered(T.Compose(before)).form.table


def test_tensor_part_that_looks_at_other_elements_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    functional = sys.modules["torchvision.transforms.functional"]
    monkeypatch.setattr(functional, "normalize", lambda tensor, *rest: tensor - tensor.mean())
    assert problem_of(T.Normalize(0, 1), [T.CenterCrop(8), T.ToTensor()], []) == (
        "the tensor part does not treat each element for itself"
    )


def test_a_cut_after_an_inplace_normalize_keeps_the_table_before_it() -> None:
    normalize = T.Normalize(MEAN, STD, inplace=True)
    result = lowered(T.Compose([T.ToTensor(), normalize, T.Lambda(abs)]))
    assert result.form.table == lowered(T.Compose([T.ToTensor(), T.Normalize(MEAN, STD)])).form.table
    failing = lowered(T.Compose([T.ToTensor(), normalize, T.Normalize([0] * 4, [1] * 4, inplace=True)]))
    assert failing.form.table == result.form.table


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        (torch.uint8, 255),
        (torch.uint8, (0, 1.9, 255)),
        (torch.int8, [-128, 127, 0.5]),
        (torch.int64, -3e9),
        (torch.float16, (0.1, 1e5, -7)),
        (torch.bfloat16, 0.1),
        (torch.float32, (1, 2.5, -3)),
        (torch.float64, 0.1),
    ],
)
@pytest.mark.parametrize("kind", [T.RandomErasing, v2.RandomErasing])
def test_erased_elements_are_those_that_torchvision_writes(kind: Any, dtype: torch.dtype, value: Any) -> None:
    erasing = kind(0.9, value=value)
    transform = T.Compose([T.CenterCrop(8), T.PILToTensor(), v2.ToDtype(dtype), erasing])
    assert is_native(transform)
    assert_runs_as_torchvision(transform, random_image(8, 8), num_runs=20)


@pytest.mark.parametrize(
    ("transform", "reason"),
    [
        (T.RandomErasing(value="random"), "value 'random'; native: a number, or one for each channel"),
        (v2.RandomErasing(value="random"), "value None"),
        (changed(v2.RandomErasing(), value=5), "value 5 was set on the object"),
        (T.RandomErasing(value=(1, 2)), "value (1, 2)"),
        (T.RandomErasing(value=256), "value 256 in torch.uint8; native: numbers from 0 to 255"),
        (T.RandomErasing(value=-1), "value -1 in torch.uint8"),
        (T.RandomErasing(value=float("nan")), "value nan"),
        (T.RandomErasing(ratio=(0, 1)), "is not positive"),
        (changed(T.RandomErasing(), scale=(0.3, 0.1)), "scale (0.3, 0.1)"),
    ],
    ids=lambda value: value[:50] if isinstance(value, str) else None,
)
def test_other_erasing_runs_in_python_from_there_on(transform: Any, reason: str) -> None:
    assert reason in problem_of(transform, [T.CenterCrop(8), T.PILToTensor()], [T.ConvertImageDtype(torch.float32)])
