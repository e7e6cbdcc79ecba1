"""Which transforms become native steps and tables, which do not and why."""

from __future__ import annotations

import copy
import struct
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision import transforms as T
from torchvision.transforms import v2

from fastload.transforms._lowering import LoweredTransform, NotLowered, lower_transform

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def lowered(transform: object) -> LoweredTransform:
    result = lower_transform(transform)
    assert isinstance(result, LoweredTransform), result
    return result


def refused(transform: object) -> str:
    result = lower_transform(transform)
    assert isinstance(result, NotLowered)
    return result.reason


def pipeline(*stages: Any) -> Any:
    return T.Compose([*stages, T.ToTensor()])


def test_training_recipe() -> None:
    result = lowered(
        T.Compose([T.RandomResizedCrop(224), T.RandomHorizontalFlip(), T.ToTensor(), T.Normalize(MEAN, STD)])
    )
    assert result.steps == (
        {
            "kind": "random_resized_crop",
            "position": 0,
            "height": 224,
            "width": 224,
            "scale": (0.08, 1.0),
            "ratio": (3 / 4, 4 / 3),
            "log_ratio": tuple(torch.log(torch.tensor((3 / 4, 4 / 3))).tolist()),
            "interpolation": "bilinear",
        },
        {"kind": "horizontal_flip", "position": 1, "probability": 0.5},
    )
    assert (result.height, result.width, result.dtype, result.element_size) == (224, 224, torch.float32, 4)
    assert result.table is not None
    assert len(result.table) == 3 * 256 * 4


def test_evaluation_recipe() -> None:
    result = lowered(T.Compose([T.Resize(256), T.CenterCrop((224, 200)), T.PILToTensor()]))
    assert result.steps == (
        {"kind": "resize_shorter_side", "position": 0, "size": 256, "max_size": None, "interpolation": "bilinear"},
        {"kind": "center_crop", "position": 1, "height": 224, "width": 200},
    )
    assert (result.height, result.width, result.dtype, result.element_size) == (224, 200, torch.uint8, 1)
    assert result.table is None


@pytest.mark.parametrize(
    ("transform", "step"),
    [
        (T.Resize((8, 9)), {"kind": "resize", "height": 8, "width": 9}),
        (T.Resize([8, 9], antialias=False), {"kind": "resize", "height": 8, "width": 9}),
        (T.Resize((8, 9), antialias=None), {"kind": "resize", "height": 8, "width": 9}),
        (T.Resize((8,)), {"kind": "resize_shorter_side", "size": 8, "max_size": None}),
        (T.Resize(8, max_size=10), {"kind": "resize_shorter_side", "size": 8, "max_size": 10}),
        (T.Resize(np.int64(8).item()), {"kind": "resize_shorter_side", "size": 8, "max_size": None}),
        (T.RandomResizedCrop([7, 6], (1, 1), [1, 2]), {"scale": (1.0, 1.0), "ratio": (1.0, 2.0), "height": 7}),
        (T.RandomResizedCrop((7,)), {"height": 7, "width": 7}),
        (T.RandomResizedCrop(np.int32(7)), {"height": 7, "width": 7}),
        (T.CenterCrop(5), {"kind": "center_crop", "height": 5, "width": 5}),
        (T.CenterCrop((np.int64(5), 6)), {"kind": "center_crop", "height": 5, "width": 6}),
        (T.RandomHorizontalFlip(1), {"kind": "horizontal_flip", "probability": 1.0}),
    ],
)
def test_parameters_become_fields(transform: Any, step: dict[str, Any]) -> None:
    first = lowered(pipeline(transform, T.CenterCrop(4))).steps[0]
    assert {name: first[name] for name in step} == step
    assert all(type(first[name]) is type(value) for name, value in step.items())


@pytest.mark.parametrize(
    ("mode", "name"),
    [
        (T.InterpolationMode.BILINEAR, "bilinear"),
        (T.InterpolationMode.BICUBIC, "bicubic"),
        (Image.Resampling.BILINEAR, "bilinear"),
        (Image.Resampling.BICUBIC, "bicubic"),
        (2, "bilinear"),
        (3, "bicubic"),
    ],
)
def test_interpolations(mode: Any, name: str) -> None:
    late: Any = T.Resize((8, 8))
    late.interpolation = mode
    for transform in (T.Resize((8, 8), mode), T.RandomResizedCrop(8, interpolation=mode), late):
        assert lowered(pipeline(transform)).steps[0]["interpolation"] == name


@pytest.mark.parametrize("mode", [m for m in T.InterpolationMode if m.value not in ("bilinear", "bicubic")])
def test_other_interpolations_are_not_native(mode: Any) -> None:
    for transform in (T.Resize((8, 8), mode), T.RandomResizedCrop(8, interpolation=mode)):
        assert f"interpolation {mode.value} (native: bilinear, bicubic)" in refused(pipeline(transform))


def test_nested_composes_are_flattened_and_positions_count_through() -> None:
    inner = T.Compose([T.RandomHorizontalFlip(), T.Compose([T.CenterCrop(8)])])
    result = lowered(T.Compose((T.Compose([]), T.Resize(9), inner, T.Compose([T.ToTensor()]))))
    assert [(step["kind"], step["position"]) for step in result.steps] == [
        ("resize_shorter_side", 0),
        ("horizontal_flip", 1),
        ("center_crop", 2),
    ]


@pytest.mark.parametrize("size", [(10, 10), (7, 31), (31, 7), (1, 100), (333, 500)])
@pytest.mark.parametrize(("short", "max_size"), [(5, None), (9, 10), (5, 33), (224, None)])
def test_size_after_a_resize_of_a_fixed_size_is_torchvisions(
    size: tuple[int, int], short: int, max_size: int | None
) -> None:
    transform = pipeline(T.CenterCrop(size), T.Resize(short, max_size=max_size))
    try:
        expected = transform(Image.new("RGB", (40, 30))).shape
    except ValueError:  # a side of 0
        assert "a Resize gives sides of" in refused(transform)
        return
    result = lowered(transform)
    assert (3, result.height, result.width) == expected


def test_a_compose_that_contains_itself_is_refused() -> None:
    transform = T.Compose([T.CenterCrop(8)])
    transform.transforms.append(transform)
    assert refused(transform) == "a Compose contains itself"


TAILS: list[list[Any]] = [
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
]


@pytest.mark.parametrize("tail", TAILS, ids=str)
def test_looking_up_the_table_gives_torchvisions_bytes(tail: list[Any]) -> None:
    result = lowered(T.Compose([T.CenterCrop((53, 47)), *tail]))
    pixels = np.random.default_rng(5).integers(0, 256, (53, 47, 3), dtype=np.uint8)
    expected: Any = Image.fromarray(pixels)
    for transform in tail:
        expected = transform(expected)
    assert (result.dtype, result.element_size) == (expected.dtype, expected.element_size())
    values = pixels.transpose(2, 0, 1).astype(np.int64)
    if result.table is None:
        assert expected.dtype == torch.uint8
        assert np.array_equal(expected.numpy(), values)
        return
    table = np.frombuffer(result.table, dtype=f"V{result.element_size}").reshape(3, 256)
    looked_up = table[np.arange(3)[:, None, None], values]
    assert looked_up.tobytes() == expected.contiguous().view(torch.uint8).numpy().tobytes()


def test_table_layout_is_channel_then_value() -> None:
    table = lowered(pipeline(T.CenterCrop(2))).table
    assert table is not None
    assert struct.unpack_from("<f", table, 4 * (256 + 51))[0] == np.float32(51 / 255)


def test_lowering_twice_gives_equal_results_and_draws_nothing() -> None:
    transform = T.Compose([T.RandomResizedCrop(9), T.RandomHorizontalFlip(), T.ToTensor(), T.Normalize(MEAN, STD)])
    state = torch.get_rng_state()
    first = lowered(transform)
    assert first == lowered(copy.deepcopy(transform))
    assert torch.equal(state, torch.get_rng_state())
    transform.transforms[1].p = 0.25
    assert first != lowered(transform)


class CropSubclass(T.CenterCrop):  # type: ignore[misc]
    pass


class ComposeSubclass(T.Compose):  # type: ignore[misc]
    pass


def with_attribute(transform: Any, **attributes: Any) -> Any:
    for name, value in attributes.items():
        object.__setattr__(transform, name, value)
    return transform


def with_hook(transform: Any, register: str) -> Any:
    getattr(transform, register)(lambda *arguments: None)
    return transform


NATIVE_LIST = (
    "(native: CenterCrop, ConvertImageDtype, Normalize, PILToTensor, RandomHorizontalFlip, RandomResizedCrop, "
    "Resize, ToTensor)"
)


@pytest.mark.parametrize(
    ("transform", "reason"),
    [
        (None, "there is no transform, so the samples are PIL images"),
        (len, "position 1 of 1, builtin_function_or_method: not native"),
        (
            pipeline(T.CenterCrop(8), T.RandomHorizontalFlip(), T.GaussianBlur(3), T.ColorJitter()),
            f"position 3 of 5, GaussianBlur: not native {NATIVE_LIST}",
        ),
        (pipeline(v2.CenterCrop(8)), "position 1 of 2, v2.CenterCrop: not native"),
        (v2.Compose([T.CenterCrop(8), T.ToTensor()]), "position 1 of 1, v2.Compose: not native"),
        (torch.nn.Sequential(T.CenterCrop(8)), "position 1 of 1, torch.nn.modules.container.Sequential: not native"),
        (pipeline(CropSubclass(8)), "position 1 of 2, test_transform_lowering.CropSubclass: not native"),
        (ComposeSubclass([T.CenterCrop(8), T.ToTensor()]), "ComposeSubclass: not native"),
        (pipeline(T.Lambda(lambda image: image)), "position 1 of 2, Lambda: not native"),
        (T.Compose([T.CenterCrop(8)]), "the result is a PIL image (native: with a PILToTensor or ToTensor)"),
        (pipeline(T.Resize(8)), "the size of the result depends on the image"),
        (T.ToTensor(), "the size of the result depends on the image"),
        (T.Compose([]), "the size of the result depends on the image"),
        (
            T.Compose([T.ToTensor(), T.CenterCrop(8)]),
            "position 2 of 2, CenterCrop: not native on tensors (native: before PILToTensor or ToTensor)",
        ),
        (T.Compose([T.CenterCrop(8), T.ToTensor(), T.PILToTensor()]), "position 3 of 3, PILToTensor: not native on"),
        (pipeline(T.CenterCrop(8), T.Normalize(0, 1)), "position 2 of 3, Normalize: not native on images"),
        (pipeline(T.Resize(0)), "size 0 (native: ints from 1 to 65535)"),
        (pipeline(T.Resize((8, 8.0))), "size 8.0"),
        (pipeline(T.Resize(True)), "size True"),
        (pipeline(T.CenterCrop(-8)), "size -8"),
        (pipeline(T.CenterCrop(70000)), "size 70000"),
        (pipeline(T.Resize((8, 8), max_size=9)), "max_size 9 together with height and width"),
        (pipeline(T.Resize(8, max_size=8), T.CenterCrop(4)), "max_size 8 is not greater than size 8"),
        (pipeline(T.CenterCrop((1, 60000)), T.Resize(2)), "a Resize gives sides of 2 and 120000"),
        (pipeline(T.CenterCrop((1, 50)), T.Resize(2, max_size=9)), "a Resize gives sides of 0 and 9"),
        (pipeline(T.RandomResizedCrop(8, (-1, 1))), "is not positive"),
        (pipeline(T.RandomResizedCrop(8, ratio=(0, 1))), "is not positive"),
        (pipeline(T.RandomResizedCrop(8, (0.1, float("nan")))), "scale (0.1, nan)"),
        (pipeline(T.RandomResizedCrop(8, (0.1, float("inf")))), "scale (0.1, inf)"),
        (pipeline(T.RandomResizedCrop(8, (0.1, 0.2, 0.3))), "scale (0.1, 0.2, 0.3)"),
        (pipeline(T.RandomResizedCrop(8, ratio=(np.float64(1), 2))), "(native: two Python numbers"),
        (pipeline(T.CenterCrop(8), T.RandomHorizontalFlip(1.5)), "p is 1.5"),
        (pipeline(T.CenterCrop(8), T.RandomHorizontalFlip(torch.tensor(0.5))), "p is tensor(0.5"),
        (pipeline(T.CenterCrop(8), T.RandomHorizontalFlip(float("nan"))), "p is nan"),
        (pipeline(*[T.CenterCrop(8)] * 17), "17 image operations (native: at most 16)"),
        (pipeline(*[T.RandomResizedCrop(8)] * 9), "18 image operations"),
        (T.Compose([T.CenterCrop(8), T.PILToTensor(), T.Normalize(0, 1)]), "the tensor part raises TypeError: Input"),
        (T.Compose([T.CenterCrop(8), T.ToTensor(), T.Normalize([0] * 4, [1] * 4)]), "the tensor part raises Runtime"),
        (T.Compose([T.CenterCrop(8), T.ToTensor(), T.Normalize(0, 0)]), "the tensor part raises ValueError: std eval"),
        (T.Compose([T.CenterCrop(8), T.ToTensor(), T.ConvertImageDtype(torch.complex64)]), "the tensor part"),
        (
            T.Compose([T.CenterCrop(8), T.ToTensor(), T.Normalize(np.zeros((3, 1, 256)), 1)]),
            "the tensor part",
        ),
        (pipeline(with_attribute(T.CenterCrop(8), forward=len)), "forward was overridden on this object"),
        (pipeline(with_attribute(T.CenterCrop(8), _call_impl=len)), "_call_impl was overridden on this object"),
        (pipeline(with_attribute(T.CenterCrop(8), _compiled_call_impl=len)), "it was compiled"),
        (pipeline(with_attribute(T.RandomResizedCrop(8), get_params=len)), "get_params was overridden"),
        (with_attribute(pipeline(T.CenterCrop(8)), transforms=iter([T.ToTensor()])), "Compose: not native"),
        (pipeline(with_hook(T.CenterCrop(8), "register_forward_hook")), "position 1 of 2, CenterCrop: it has hooks"),
        (pipeline(with_hook(T.CenterCrop(8), "register_forward_pre_hook")), "it has hooks"),
        (
            T.Compose([T.CenterCrop(8), T.ToTensor(), with_hook(T.Normalize(0, 1), "register_forward_hook")]),
            "position 3 of 3, Normalize: it has hooks",
        ),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)
def test_not_lowered_and_says_why(transform: Any, reason: str) -> None:
    assert reason in refused(transform)


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (T.CenterCrop, "forward"),
        (T.CenterCrop, "__call__"),
        (T.ToTensor, "__call__"),
        (T.RandomResizedCrop, "get_params"),
        (T.Compose, "__call__"),
    ],
)
def test_replaced_methods_of_torchvisions_classes_are_noticed(
    monkeypatch: pytest.MonkeyPatch, owner: Any, name: str
) -> None:
    transform = pipeline(T.RandomResizedCrop(9), T.CenterCrop(8))
    lowered(transform)
    monkeypatch.setattr(owner, name, lambda *arguments: None)
    refused(transform)


def test_global_module_hooks_are_noticed() -> None:
    handle = torch.nn.modules.module.register_module_forward_hook(lambda *arguments: None)
    try:
        assert "hooks for all torch modules" in refused(pipeline(T.CenterCrop(8)))
    finally:
        handle.remove()
    lowered(pipeline(T.CenterCrop(8)))


@pytest.fixture
def double_default() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.usefixtures("double_default")
def test_another_default_dtype_is_not_lowered() -> None:
    assert refused(pipeline(T.RandomResizedCrop(8))) == (
        "torch's defaults are torch.float64 on cpu (native: torch.float32 on cpu)"
    )


def test_another_default_device_is_not_lowered() -> None:
    with torch.device("meta"):
        assert "on meta" in refused(pipeline(T.RandomResizedCrop(8)))


def test_tensor_part_that_looks_at_other_elements_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    functional = sys.modules["torchvision.transforms.functional"]
    monkeypatch.setattr(functional, "normalize", lambda tensor, *rest: tensor - tensor.mean())
    transform = T.Compose([T.CenterCrop(8), T.ToTensor(), T.Normalize(0, 1)])
    assert refused(transform) == "the tensor part does not treat each element for itself"


def test_each_stage_has_a_verdict_and_the_pipeline_a_reason() -> None:
    refused_stage = lower_transform(pipeline(T.CenterCrop(8), T.GaussianBlur(3)))
    assert [str(stage) for stage in refused_stage.stages] == [
        "position 1 of 3, CenterCrop: native",
        f"position 2 of 3, GaussianBlur: not native {NATIVE_LIST}",
        "position 3 of 3, ToTensor: native",
    ]
    refused_whole = lower_transform(pipeline(T.Resize(8)))
    assert [stage.problem for stage in refused_whole.stages] == [None, None]
    assert isinstance(refused_whole, NotLowered)
    assert refused_whole.reason == (
        "the size of the result depends on the image (native: with a CenterCrop, a RandomResizedCrop or a Resize to "
        "height and width)"
    )
    assert [stage.problem for stage in lower_transform(pipeline(T.CenterCrop(8))).stages] == [None, None]


@pytest.mark.parametrize("build", [lambda: None, lambda: lambda image: image, lambda: object()])
def test_without_torchvision_nothing_is_native(
    monkeypatch: pytest.MonkeyPatch, build: Callable[[], Callable[..., Any] | None]
) -> None:
    monkeypatch.delitem(sys.modules, "torchvision.transforms.transforms")
    refused(build())
