"""Which of the user's code is known to pass images on, and which properties it needs for that."""

from __future__ import annotations

import copy
import functools
import pickle
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from lowered_transforms import assert_runs_as_torchvision, changed, is_native, lowered, random_image, without
from parity_recipes import MaybeToTensor, Preset, to_rgb
from PIL import Image
from torchvision import transforms as T
from torchvision.transforms import functional as F
from torchvision.transforms import v2
from torchvision.transforms._presets import ImageClassification, ObjectDetection


class MaybeConvertMode:
    """A copy of open_clip's class."""

    def __init__(self, mode: str = "RGB") -> None:
        self.mode = mode

    def __call__(self, pic: Any) -> Any:
        if isinstance(pic, (np.ndarray, torch.Tensor)):
            return pic
        return pic.convert(self.mode)


class OwnToTensor:
    """A copy of timm's class."""

    def __call__(self, pic: Any) -> torch.Tensor:
        """Takes an image."""
        if isinstance(pic, torch.Tensor):
            return pic
        return F.to_tensor(pic)


class OwnPilToTensor:
    def __call__(self, pic: Any) -> torch.Tensor:
        if isinstance(pic, torch.Tensor):
            return pic
        return F.pil_to_tensor(pic)


class Rgb:
    def __call__(self, image: Any) -> Any:
        return image.convert("RGB")


class ModulePreset(torch.nn.Module):
    def __init__(self, pipeline: Any) -> None:
        super().__init__()
        self.pipeline = pipeline

    def forward(self, image: Any) -> Any:
        return self.pipeline(image)


def documented(image: Any) -> Any:
    """Takes any image; has an ignored type."""
    if image.mode != "RGB":
        image = image.convert("RGB")
    return image


IMAGE = random_image(61, 50)


KNOWN: dict[str, Callable[[], Any]] = {
    "identity": lambda: lambda x: x,
    "conversion": lambda: to_rgb,
    "conversion where needed": lambda: lambda x: x.convert("RGB") if x.mode != "RGB" else x,
    "conversion where not": lambda: lambda x: x if x.mode == "RGB" else x.convert("RGB"),
    "statements": lambda: documented,
    "class": Rgb,
    "Lambda": lambda: T.Lambda(lambda x: x.convert("RGB")),
    "Lambda of v2": lambda: v2.Lambda(lambda x: x),
    "torch's": lambda: torch.nn.Identity(3, more=5),
    "MaybeConvertMode": MaybeConvertMode,
    "preset": lambda: Preset(T.Compose([T.CenterCrop(30), to_rgb])),
    "preset of a preset": lambda: Preset(ModulePreset(T.CenterCrop(30))),  # type: ignore[arg-type]
    "module around a module": lambda: ModulePreset(v2.Compose([v2.CenterCrop(30)])),
    "module around no module": lambda: ModulePreset(T.Compose([v2.CenterCrop(30)])),
}
MAKING_TENSORS: dict[str, Callable[[], Any]] = {
    "DINOv2's": MaybeToTensor,
    "timm's": OwnToTensor,
    "timm's of bytes": OwnPilToTensor,
    "preset": lambda: Preset(T.Compose([T.ToTensor()])),
    "weights": lambda: changed(ImageClassification(crop_size=20), resize_size=[30, 22]),
    "weights, one size": lambda: ImageClassification(crop_size=30, resize_size=20, antialias=None),
}


def copies(transform: Any) -> list[Any]:
    made = [transform, copy.deepcopy(transform)]
    try:
        return [*made, pickle.loads(pickle.dumps(transform))]
    except (pickle.PicklingError, AttributeError):  # a lambda
        return made


@pytest.mark.parametrize("name", KNOWN)
def test_code_that_passes_images_on_is_native_and_does_so(name: str) -> None:
    ends = [T.RandomCrop(20), T.ToTensor()]
    for transform in copies(KNOWN[name]()):
        assert is_native(T.Compose([T.Resize(40), transform, *ends]))
        assert_runs_as_torchvision(T.Compose([T.Resize(40), transform, *ends]), IMAGE)


@pytest.mark.parametrize("name", MAKING_TENSORS)
def test_code_that_makes_tensors_is_native_with_its_own_bytes(name: str) -> None:
    for transform in copies(MAKING_TENSORS[name]()):
        pipeline = T.Compose([transform, T.Normalize(0.3, 0.4)]) if "bytes" not in name else transform
        assert is_native(pipeline)
        assert_runs_as_torchvision(pipeline, IMAGE)


@pytest.mark.parametrize("name", ["identity", "torch's", "MaybeConvertMode", "Lambda of v2", "DINOv2's", "timm's"])
def test_code_that_passes_tensors_on_is_native_after_them(name: str) -> None:
    transform = {**KNOWN, **MAKING_TENSORS}[name]()
    assert is_native(T.Compose([T.CenterCrop(9), T.ToTensor(), transform, T.Normalize(0.5, 0.5)]))


def in_a_closure(x: Any) -> Callable[[Any], Any]:
    return lambda image: image if x else image.copy()


def generator(x: Any) -> Any:
    yield x


async def coroutine(x: Any) -> Any:
    return x


class Counting(Preset):
    count = 0

    def __call__(self, img: Any) -> Any:
        self.count += 1
        return self.transforms(img)


class Twice(Preset):
    def __call__(self, img: Any) -> Any:
        return self.transforms(self.transforms(img))


class Computed(Preset):
    @property
    def pipeline(self) -> Any:
        return T.CenterCrop(3)

    def __call__(self, img: Any) -> Any:
        return self.pipeline(img)


class Watched(Preset):
    def __getattribute__(self, name: str) -> Any:
        return super().__getattribute__(name)


class Method(Preset):
    def run(self, img: Any) -> Any:
        return img.rotate(5)

    def __call__(self, img: Any) -> Any:
        return self.run(img)


class Rotating(MaybeToTensor):
    def __call__(self, pic: Any) -> torch.Tensor:
        return super().__call__(pic.rotate(5))


class Between(T.ToTensor):  # type: ignore[misc]
    def __call__(self, pic: Any) -> torch.Tensor:
        return super().__call__(pic) * 2


class BehindBetween(Between):
    def __call__(self, pic: Any) -> torch.Tensor:
        if isinstance(pic, torch.Tensor):
            return pic
        return super().__call__(pic)


class OwnModule(ModulePreset):
    def _call_impl(self, *arguments: Any, **more: Any) -> Any:
        return super()._call_impl(*arguments, **more)


def with_hook(module: torch.nn.Module) -> Any:
    module.register_forward_hook(lambda module, given, made: made.rotate(5))
    return module


def with_forward(module: Any) -> Any:
    module.forward = lambda image: image.rotate(5)
    return module


def of_globals(function: Any, **names: Any) -> Any:
    """Returns a copy of a class's `__call__` that finds other objects under some names, in a class of its own."""
    other = type(function)(function.__code__, {**function.__globals__, **names}, closure=function.__closure__)
    return type("Changed", (), {"__call__": other})()


PLAIN = T.Compose([T.CenterCrop(20)])
OTHERS: dict[str, Callable[[], Any]] = {
    "another mode": lambda: lambda x: x.convert("L"),
    "another method": lambda: lambda x: x.copy(),
    "another attribute": lambda: lambda x: x.convert("RGB") if x.size != "RGB" else x,
    "a global": lambda: lambda x: IMAGE,
    "one more argument": lambda: lambda x, y=1: x,
    "any number of arguments": lambda: lambda *x: x,
    "a closure": lambda: in_a_closure(1),
    "a partial": lambda: functools.partial(to_rgb),
    "wrapped": lambda: functools.wraps(to_rgb)(lambda image: to_rgb(image.rotate(5))),
    "a generator": lambda: generator,
    "a coroutine": lambda: coroutine,
    "Lambda of another": lambda: T.Lambda(lambda x: x.rotate(5)),
    "a changed Lambda": lambda: changed(T.Lambda(to_rgb), __call__=len),
    "Lambda of v2 for some types": lambda: v2.Lambda(lambda x: x, Image.Image),
    "torch's with a hook": lambda: with_hook(torch.nn.Identity()),
    "torch's with a forward": lambda: with_forward(torch.nn.Identity()),
    "another mode in an attribute": lambda: MaybeConvertMode("L"),
    "counting": lambda: Counting(PLAIN),
    "twice": lambda: Twice(PLAIN),
    "a property": lambda: Computed(PLAIN),
    "watched attributes": lambda: Watched(PLAIN),
    "a method": lambda: Method(PLAIN),
    "a preset without its pipeline": lambda: without(Preset(PLAIN), "transforms"),
    "a preset of another": lambda: Preset(lambda image: image.rotate(5)),  # type: ignore[arg-type]
    "a module with a hook": lambda: with_hook(ModulePreset(PLAIN)),
    "a module with a forward": lambda: with_forward(ModulePreset(PLAIN)),
    "a module with a call": lambda: OwnModule(PLAIN),
    "a changed class that makes tensors": Rotating,
    "another base that makes tensors": BehindBetween,
    "another isinstance": lambda: of_globals(OwnToTensor.__call__, isinstance=lambda *given: True),
    "another torch": lambda: of_globals(OwnToTensor.__call__, torch=np),
    "another F": lambda: of_globals(OwnToTensor.__call__, F=v2.functional),
    "another super": lambda: of_globals(MaybeToTensor.__call__, super=lambda: len),
    "another NumPy": lambda: of_globals(MaybeConvertMode.__call__, np=torch),
    "another preset of torchvision's": ObjectDetection,
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_code_runs_in_python(name: str) -> None:
    transform = OTHERS[name]()
    result = lowered(T.Compose([T.Resize(40), transform, T.ToTensor()]))
    assert len(result.steps) == 1
    assert len(result.python_part) == 2
    assert re.search("it is code of your own|not native yet", str(result.stages[1].problem))


def test_a_replaced_function_of_torchvisions_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(F, "to_tensor", lambda image: torch.zeros(3, 5, 5))
    assert lowered(OwnToTensor()).python_part != ()


CHANGED_PRESETS: dict[str, tuple[dict[str, Any], str]] = {
    "an attribute": ({"note": 1}, "it was given an attribute, note"),
    "forward": ({"forward": len}, "forward was overridden on this object"),
    "size": ({"resize_size": [0]}, "its Resize: size 0; native: ints from 1 to"),
    "crop": ({"crop_size": "8"}, "its CenterCrop: size '8'; native: ints from 1 to"),
    "three sizes": ({"resize_size": [1, 2, 3]}, "it is not as known: If size is a sequence"),
    "mean": ({"mean": [1.0, 2.0]}, "its Normalize: the tensor part raises RuntimeError"),
    "interpolation": ({"interpolation": "bilinear"}, "its Resize: interpolation 'bilinear'; native: bicubic"),
}


@pytest.mark.parametrize("name", CHANGED_PRESETS)
def test_a_changed_preset_of_weights_runs_in_python_as_a_whole(name: str) -> None:
    changes, reason = CHANGED_PRESETS[name]
    preset = changed(ImageClassification(crop_size=20), **changes)
    result = lowered(T.Compose([T.RandomHorizontalFlip(), preset]))
    assert result.python_part == (preset,)
    assert reason in str(result.stages[1].problem)
    assert (len(result.steps), result.form.sample, result.size) == (1, "pil", None)


def test_a_preset_of_weights_with_a_hook_or_after_tensors_runs_in_python() -> None:
    preset = ImageClassification(crop_size=20)
    assert "its Resize: not native on tensors" in str(lowered(T.Compose([T.ToTensor(), preset])).stages[1].problem)
    assert "not native in a RandomApply" in str(lowered(T.RandomApply([preset])).stages[0].problem)
    preset.register_forward_hook(lambda module, given, made: made)
    assert "it has hooks" in str(lowered(preset).stages[0].problem)


def test_timms_evaluation_is_native_as_a_whole() -> None:
    """Uses timm's own classes, whose bytecode another release may change."""
    data = pytest.importorskip("timm.data")
    pipeline = data.create_transform(32, is_training=False)
    assert any(type(transform).__module__.startswith("timm.") for transform in pipeline.transforms)
    assert is_native(pipeline)
    assert_runs_as_torchvision(pipeline, IMAGE)
