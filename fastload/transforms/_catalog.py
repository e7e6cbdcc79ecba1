"""The transforms that have a native form: one table from the names of torchvision's classes to their lowerings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from fastload import _native
from fastload.transforms import _auto_augment, _color, _gaussian_blur, _geometry, _recognize
from fastload.transforms._stage import Family, StageContext
from fastload.transforms._user_code import Role

LowerOnImage = Callable[[Any, StageContext], list[_native.Step]]


@dataclass(frozen=True)
class NativeTransform:
    """The known properties of a torchvision class.

    Attributes:
        attributes: Names that its objects may have, besides the attributes of every torch module.
        on_image: Makes the steps on PIL images; None if it has none.
        makes_tensor: Whether it may begin the tensor part.
        on_tensor: Whether it may be in the tensor part.
        keeps_elements: Whether it changes no element there, so that it may follow a RandomErasing.
        erases: Whether it is RandomErasing, which ends the tensor part.
        parts: Makes the torchvision transforms that together do what an object of the class does; None if it has its
            own steps.
    """

    attributes: frozenset[str]
    on_image: LowerOnImage | None = None
    makes_tensor: bool = False
    on_tensor: bool = False
    keeps_elements: bool = False
    erases: bool = False
    parts: Callable[[Any], list[Any]] | None = None


def _names(attributes: str) -> frozenset[str]:
    return frozenset(attributes.split())


def _on_image(attributes: str, lower: LowerOnImage) -> NativeTransform:
    return NativeTransform(_names(attributes), on_image=lower)


def _on_tensor(attributes: str = "", on_image: LowerOnImage | None = None) -> NativeTransform:
    return NativeTransform(_names(attributes), on_image=on_image, on_tensor=True)


def _no_steps(transform: Any, context: StageContext) -> list[_native.Step]:
    """Returns no steps: RGB images pass unchanged."""
    return []


def _parts_of_image_classification(preset: Any) -> list[Any]:
    """Returns the transforms of a preset in calling order. Raises what torchvision's constructors raise."""
    v1 = _recognize.transforms_v1()
    return [
        v1.Resize(preset.resize_size, preset.interpolation, antialias=preset.antialias),
        v1.CenterCrop(preset.crop_size),
        v1.PILToTensor(),
        v1.ConvertImageDtype(torch.float32),
        v1.Normalize(preset.mean, preset.std),
    ]


_NO_CHANGE = NativeTransform(frozenset(), on_image=_no_steps, on_tensor=True, keeps_elements=True)
# After another one of these, v2 passes tensors on and v1 raises; the probe finds that out.
_TO_TENSOR = NativeTransform(frozenset(), makes_tensor=True, on_tensor=True, keeps_elements=True)

_BOTH: Mapping[str, NativeTransform] = {
    "RandomResizedCrop": _on_image(
        "size scale ratio interpolation antialias _log_ratio", _geometry.lower_random_resized_crop
    ),
    "Resize": _on_image("size interpolation max_size antialias", _geometry.lower_resize),
    "CenterCrop": _on_image("size", _geometry.lower_center_crop),
    "RandomCrop": _on_image("size padding pad_if_needed fill _fill padding_mode", _geometry.lower_random_crop),
    "Pad": _on_image("padding fill _fill padding_mode", _geometry.lower_pad),
    "RandomHorizontalFlip": _on_image("p", _geometry.lower_horizontal_flip),
    "RandomVerticalFlip": _on_image("p", _geometry.lower_vertical_flip),
    "RandomRotation": _on_image("degrees interpolation expand center fill _fill", _geometry.lower_random_rotation),
    "Grayscale": _on_image("num_output_channels", _color.lower_grayscale),
    "RandomGrayscale": _on_image("p", _color.lower_random_grayscale),
    "ColorJitter": _on_image("brightness contrast saturation hue", _color.lower_color_jitter),
    "RandomInvert": _on_image("p", _color.random_op(_color.plain_op(_native.Invert))),
    "RandomPosterize": _on_image("p bits", _color.random_op(_color.posterize)),
    "RandomSolarize": _on_image("p threshold", _color.random_op(_color.solarize)),
    "RandomAdjustSharpness": _on_image("p sharpness_factor", _color.random_op(_color.sharpness)),
    "RandomAutocontrast": _on_image("p", _color.random_op(_color.plain_op(_native.Autocontrast))),
    "RandomEqualize": _on_image("p", _color.random_op(_color.plain_op(_native.Equalize))),
    "GaussianBlur": _on_image("kernel_size sigma", _gaussian_blur.lower_gaussian_blur),
    "RandAugment": _on_image(
        "num_ops magnitude num_magnitude_bins interpolation fill _fill", _auto_augment.lower_rand_augment
    ),
    "TrivialAugmentWide": _on_image("num_magnitude_bins interpolation fill _fill", _auto_augment.lower_trivial_augment),
    "AutoAugment": _on_image("policy policies _policies interpolation fill _fill", _auto_augment.lower_auto_augment),
    "PILToTensor": _TO_TENSOR,
    "ToTensor": _TO_TENSOR,
    "ConvertImageDtype": _on_tensor("dtype"),
    "Normalize": _on_tensor("mean std inplace"),
    "RandomErasing": NativeTransform(_names("p scale ratio _log_ratio value inplace"), erases=True),
}
# torchvision's names for the results of `weights.transforms()`.
_PRESETS: Mapping[str, NativeTransform] = {
    "ImageClassification": NativeTransform(
        _names("crop_size resize_size mean std interpolation antialias"),
        makes_tensor=True,
        parts=_parts_of_image_classification,
    ),
}
_V2_ONLY: Mapping[str, NativeTransform] = {
    "ToImage": _TO_TENSOR,
    "ToDtype": _on_tensor("dtype scale", _no_steps),
    "ToPureTensor": _NO_CHANGE,
    "RGB": _NO_CHANGE,
    "Identity": _NO_CHANGE,
}
# Known properties by the family and name of a class.
CATALOG: Mapping[Family, Mapping[str, NativeTransform]] = {"v1": {**_BOTH, **_PRESETS}, "v2": {**_BOTH, **_V2_ONLY}}

# RandomApply is lowered by the driver, with its contents.
NATIVE_NAMES = ", ".join(sorted([*_BOTH, *_PRESETS, "RandomApply", *(f"v2.{name}" for name in _V2_ONLY)]))

# Known properties of the user's own transforms: Note [proved transforms].
USERS: Mapping[Role | None, NativeTransform] = {
    "identity": _NO_CHANGE,
    "image identity": _on_image("", _no_steps),
    "tensor": _TO_TENSOR,
}
