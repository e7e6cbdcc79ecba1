"""Any change of user code to a transform moves the cut to it."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from typing import Any
from unittest import mock

import pytest
import torch
from lowered_transforms import (
    CHECK_INPUTS,
    FAMILIES,
    MAKE_PARAMS,
    TRANSFORM,
    changed,
    is_native,
    lowered,
    problem_of,
    without,
)
from parity_recipes import to_rgb
from torchvision import transforms as T
from torchvision.transforms import v2


class CropSubclass(T.CenterCrop):  # type: ignore[misc]
    pass


class CropSubclassV2(v2.CenterCrop):  # type: ignore[misc]
    pass


class ComposeSubclass(T.Compose):  # type: ignore[misc]
    pass


class SequentialSubclass(torch.nn.Sequential):
    pass


class ListSubclass(list):  # type: ignore[type-arg]
    pass


def with_hook(transform: Any, register: str) -> Any:
    getattr(transform, register)(lambda *arguments: None)
    return transform


HOOKS = [
    "register_forward_hook",
    "register_forward_pre_hook",
    "register_full_backward_hook",
    "register_full_backward_pre_hook",
]


def crops(**attributes: Any) -> list[Any]:
    return [changed(namespace.CenterCrop(8), **attributes) for namespace in FAMILIES.values()]


@pytest.mark.parametrize(
    ("transform", "reason"),
    [
        (CropSubclass(8), "it is code of your own"),
        (CropSubclassV2(8), "it is code of your own"),
        (ComposeSubclass([T.CenterCrop(8)]), "it is code of your own"),
        (SequentialSubclass(T.CenterCrop(8)), "it is code of your own"),
        (len, "it is code of your own"),
        *((crop, "forward was overridden on this object") for crop in crops(forward=len)),
        *((crop, "_call_impl was overridden on this object") for crop in crops(_call_impl=len)),
        *((crop, "it was compiled") for crop in crops(_compiled_call_impl=len)),
        *((crop, "it was given an attribute, note") for crop in crops(note="mine")),
        (changed(T.ToTensor(), __call__=len), "__call__ was overridden on this object"),
        (changed(T.RandomResizedCrop(8), get_params=len), "get_params was overridden on this object"),
        (changed(v2.CenterCrop(8), **{TRANSFORM: len}), f"{TRANSFORM} was overridden on this object"),
        (changed(v2.CenterCrop(8), **{MAKE_PARAMS: len}), f"{MAKE_PARAMS} was overridden on this object"),
        (changed(v2.CenterCrop(8), _transformed_types=()), "_transformed_types was overridden on this object"),
        (changed(v2.CenterCrop(8), _call_kernel=len), "_call_kernel was overridden on this object"),
        (changed(v2.ColorJitter(), _generate_value=min), "_generate_value was overridden on this object"),
        (changed(v2.RandAugment(), _AUGMENTATION_SPACE={}), "_AUGMENTATION_SPACE was overridden on this object"),
        (changed(T.RandAugment(), _augmentation_space=len), "_augmentation_space was overridden"),
        *((with_hook(namespace.CenterCrop(8), hook), "it has hooks") for namespace in (T, v2) for hook in HOOKS),
        (without(T.CenterCrop(8), "size"), "it is not as known: 'CenterCrop' object has no attribute 'size'"),
        (without(v2.RandomCrop(8), "_fill"), "has no attribute '_fill'"),
        (changed(T.Compose([T.CenterCrop(8)]), note=1), "it was given an attribute, note"),
        (changed(T.Compose([T.CenterCrop(8)]), __call__=len), "__call__ was overridden on this object"),
        (changed(v2.Compose([T.CenterCrop(8)]), forward=len), "forward was overridden on this object"),
        (with_hook(v2.Compose([v2.CenterCrop(8)]), HOOKS[0]), "it has hooks"),
        (with_hook(torch.nn.Sequential(T.CenterCrop(8)), HOOKS[0]), "it has hooks"),
        (changed(torch.nn.Sequential(T.CenterCrop(8)), forward=len), "forward was overridden on this object"),
        (T.Compose(iter([T.CenterCrop(8)])), "its transforms are list_iterator, not a plain list"),
        (T.Compose(ListSubclass([T.CenterCrop(8)])), "ListSubclass, not a plain list"),
        (v2.Compose(ListSubclass([T.CenterCrop(8)])), "ListSubclass, not a plain list"),
        (T.RandomApply(ListSubclass([T.CenterCrop(8)])), "ListSubclass, not a plain list"),
        (with_hook(T.RandomApply([T.CenterCrop(8)]), HOOKS[0]), "it has hooks"),
        (changed(T.RandomApply([T.CenterCrop(8)]), forward=len), "forward was overridden on this object"),
        (T.RandomApply([with_hook(T.CenterCrop(8), HOOKS[0])]), "it holds CenterCrop: it has hooks"),
        (
            T.RandomApply(changed(torch.nn.ModuleList([T.CenterCrop(8)]), extra=1)),
            "torch.nn.modules.container.ModuleList, not a plain list",
        ),
    ],
    ids=lambda value: value[:50] if isinstance(value, str) else type(value).__name__,
)
def test_changed_objects_run_in_python_from_there_on(transform: Any, reason: str) -> None:
    assert reason in problem_of(transform, [T.RandomHorizontalFlip()], [T.CenterCrop(4)])


@pytest.mark.parametrize("hook", HOOKS)
def test_a_changed_object_of_the_tensor_part_is_cut_there(hook: str) -> None:
    for normalize in (T.Normalize([0], [1]), v2.Normalize([0], [1])):
        assert problem_of(with_hook(normalize, hook), [T.CenterCrop(8), T.ToTensor()], []) == "it has hooks"


def by_wraps(function: Any) -> Any:
    """Replaces a method like a tracing library: the result looks like the original, but is not."""
    return functools.wraps(function)(lambda *arguments, **more: function(*arguments, **more))


@pytest.mark.parametrize("replace", [by_wraps, lambda function: mock.MagicMock()], ids=["wraps", "mock"])
@pytest.mark.parametrize(
    ("owner", "name", "transform"),
    [
        (T.CenterCrop, "forward", T.CenterCrop(8)),
        (T.ToTensor, "__call__", T.ToTensor()),
        (T.RandomResizedCrop, "get_params", T.RandomResizedCrop(8)),
        (T.RandAugment, "_augmentation_space", T.RandAugment()),
        (T.RandomApply, "forward", T.RandomApply([T.CenterCrop(8)])),
        (torch.nn.Sequential, "forward", torch.nn.Sequential(T.CenterCrop(8))),
        (v2.CenterCrop, TRANSFORM, v2.CenterCrop(8)),
        (v2.Transform, "forward", v2.CenterCrop(8)),
        (v2.Transform, "_needs_transform_list", v2.RandomHorizontalFlip()),
        (v2.RandomCrop, MAKE_PARAMS, v2.RandomCrop(8)),
        (v2.Normalize, CHECK_INPUTS, v2.Normalize([0], [1])),
        (v2.Compose, "forward", v2.Compose([v2.CenterCrop(8)])),
        (v2.TrivialAugmentWide, "_apply_image_or_video_transform", v2.TrivialAugmentWide()),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_replaced_methods_of_the_classes_are_noticed(
    monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, transform: Any, replace: Any
) -> None:
    before = [T.Resize((9, 9)), T.ToTensor()] if owner is v2.Normalize else [T.Resize((9, 9))]
    assert is_native(T.Compose([*before, transform]))
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, replace(getattr(owner, name)))
        assert problem_of(transform, before, []) == f"{name} of its class was replaced"
    assert is_native(T.Compose([*before, transform]))


def test_a_replaced_call_of_the_outermost_container_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    transform = T.Compose([T.CenterCrop(8)])
    monkeypatch.setattr(T.Compose, "__call__", by_wraps(T.Compose.__call__))
    assert lowered(transform).python_part == (transform,)
    assert "__call__ of its class was replaced" in str(lowered(transform).stages[0].problem)


@pytest.mark.parametrize("name", ["__call__", "_call_impl"])
def test_a_replaced_call_of_torch_modules_is_noticed(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(torch.nn.Module, name, by_wraps(getattr(torch.nn.Module, name)))
    assert problem_of(v2.CenterCrop(8), [], []) == "__call__ of torch.nn.Module was replaced"


@pytest.mark.parametrize(
    ("module", "name", "family"),
    [
        ("torchvision.transforms.functional", "center_crop", "v1"),
        ("torchvision.transforms._functional_pil", "crop", "v1"),
        ("torchvision.transforms._functional_pil", "crop", "v2"),
        ("torchvision.transforms.v2.functional", "center_crop", "v2"),
    ],
)
def test_replaced_functions_of_torchvision_are_noticed(
    monkeypatch: pytest.MonkeyPatch, module: str, name: str, family: str
) -> None:
    crop = FAMILIES[family].CenterCrop(8)
    monkeypatch.setattr(sys.modules[module], name, by_wraps(getattr(sys.modules[module], name)))
    assert problem_of(crop, [], [T.ToTensor()]) == f"{name} of torchvision's functions was replaced"


def test_global_module_hooks_are_noticed() -> None:
    crop = T.CenterCrop(8)
    handle = torch.nn.modules.module.register_module_forward_hook(lambda *arguments: None)
    try:
        assert problem_of(crop, [], []) == "there are hooks for all torch modules"
    finally:
        handle.remove()
    assert is_native(crop)


@pytest.fixture
def double_default() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.usefixtures("double_default")
def test_another_default_dtype_runs_in_python() -> None:
    assert problem_of(T.RandomResizedCrop(8), [], [T.ToTensor()]) == (
        "torch's defaults are torch.float64 on cpu; native: torch.float32 on cpu"
    )


def test_another_default_device_runs_in_python() -> None:
    crop = T.RandomResizedCrop(8)
    with torch.device("meta"):
        assert "on meta" in problem_of(crop, [], [T.ToTensor()])


def test_modes_of_modules_do_not_matter() -> None:
    assert is_native(torch.nn.Sequential(T.CenterCrop(8), v2.RandomHorizontalFlip()).eval())


@pytest.mark.parametrize("transform", [None, lambda image: image, to_rgb, T.CenterCrop(8), v2.CenterCrop(8)])
def test_without_torchvision_everything_runs_in_python(monkeypatch: pytest.MonkeyPatch, transform: Any) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
        monkeypatch.delitem(sys.modules, name)
    result = lowered(transform)
    assert result.steps == ()
    assert result.python_part == (() if transform is None else (transform,))
