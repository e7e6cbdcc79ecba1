"""Recognizes torchvision objects, and what user code has changed about them.

This is the one home of torchvision among the transforms: it is looked up among the loaded modules and never imported,
because a transform of its types brings it along.
"""

from __future__ import annotations

import functools
import operator
import sys
from collections.abc import Set as AbstractSet
from types import FunctionType, ModuleType
from typing import Any

import torch

from fastload._process._originals import original_of
from fastload.transforms._stage import Family, RunsInPythonError

# Prefixes of the modules that define the methods of a class.
_TORCHVISIONS = "torchvision.transforms."
TORCHS = "torch.nn.modules."
_PRESETS = "torchvision.transforms._presets"
# The modules in which the classes of a family are looked up.
_FAMILIES: dict[str, Family] = {"torchvision.transforms": "v1", "torchvision.transforms.v2": "v2", _PRESETS: "v1"}
_HOOKS = ("forward_hooks", "forward_pre_hooks", "backward_hooks", "backward_pre_hooks")
# torchvision's containers -> names that their objects may have, besides the attributes of every torch module.
_CONTAINERS = {"Compose": frozenset({"transforms"}), "RandomApply": frozenset({"transforms", "p"})}
# The functions that torchvision's classes call on PIL images, in the modules where they look them up.
_IMAGE_FUNCTIONS = frozenset(
    {
        *("adjust_brightness", "adjust_contrast", "adjust_hue", "adjust_saturation", "adjust_sharpness", "affine"),
        *("autocontrast", "center_crop", "crop", "equalize", "get_dimensions", "get_size", "hflip", "horizontal_flip"),
        *("invert", "pad", "posterize", "resize", "resized_crop", "rgb_to_grayscale", "rotate", "solarize"),
        *("to_grayscale", "vertical_flip", "vflip", "_get_inverse_affine_matrix"),
    }
)


_BLUR_FUNCTIONS = frozenset(
    {
        *("gaussian_blur", "gaussian_blur_image", "pil_to_tensor", "to_pil_image"),
        *("_gaussian_blur_image_pil", "_get_gaussian_kernel1d", "_get_gaussian_kernel2d"),
    }
)


def transforms_v1() -> ModuleType:
    """Returns torchvision.transforms. Raises KeyError if torchvision is not loaded, like the functions below."""
    return sys.modules["torchvision.transforms"]


def loaded(name: str) -> ModuleType:
    """Returns the module ``torchvision.transforms.<name>``."""
    return sys.modules[f"{_TORCHVISIONS}{name}"]


def functional(family: Family) -> ModuleType:
    return loaded("functional" if family == "v1" else "v2.functional")


def gaussian_functions(family: Family) -> ModuleType:
    """Returns the module in which torchvision computes the weights of a Gaussian blur, and convolves with them."""
    return loaded("_functional_tensor" if family == "v1" else "v2.functional._misc")


def replaced_blur_function(family: Family) -> str | None:
    """Returns the name of a function that a GaussianBlur calls on images and that user code has replaced, or None."""
    return _replaced_among(_BLUR_FUNCTIONS, functional(family), gaussian_functions(family))


def image_type() -> type | None:
    """Returns torchvision.tv_tensors.Image, or None if nothing has loaded it."""
    kind = getattr(sys.modules.get("torchvision.tv_tensors"), "Image", None)
    return kind if isinstance(kind, type) else None


def family_of(kind: type) -> Family | None:
    """Returns which of torchvision's two families has exactly this class; None for any other class."""
    for home, family in _FAMILIES.items():
        if getattr(sys.modules.get(home), kind.__name__, None) is kind:
            return family
    return None


def pipeline_types() -> tuple[type, ...]:
    """Returns torchvision's classes that call several transforms, from both families, as far as they are loaded."""
    homes = ("torchvision.transforms", "torchvision.transforms.v2", _PRESETS)
    names = ("Compose", "Compose", "ImageClassification")
    kinds = (getattr(sys.modules.get(home), name, None) for home, name in zip(homes, names, strict=True))
    return tuple(kind for kind in kinds if isinstance(kind, type))


def tensor_functions() -> list[tuple[ModuleType, str, type]]:
    """Lists functions that make tensors of images: the module and name, and the class that does the same."""
    names = {"to_tensor": "ToTensor", "pil_to_tensor": "PILToTensor"}
    classes = sys.modules.get("torchvision.transforms")
    found: list[tuple[ModuleType, str, type]] = []
    for home in ("functional", "v2.functional", "v2.functional._type_conversion"):
        if (module := sys.modules.get(f"{_TORCHVISIONS}{home}")) is not None:
            found += [(module, name, getattr(classes, names[name])) for name in names.keys() & vars(module).keys()]
    return found


def members_of(transform: Any, family: Family | None) -> list[Any] | None:
    """Lists a Compose (v1 or v2), torch.nn.Sequential or RandomApply; None for anything else.

    Raises RunsInPythonError for a container that is not plain.
    """
    is_sequential = type(transform) is torch.nn.Sequential
    attributes = frozenset() if is_sequential else _CONTAINERS.get(type(transform).__name__)
    if attributes is None or not (is_sequential or family):
        return None
    change = change_of(transform, attributes, TORCHS if is_sequential else _TORCHVISIONS)
    if change is not None:
        raise RunsInPythonError(change)
    held: Any = transform if is_sequential else getattr(transform, "transforms", None)
    is_changed = type(held) is torch.nn.ModuleList and change_of(held, frozenset(), TORCHS) is not None
    if type(held) in (torch.nn.Sequential, torch.nn.ModuleList) and not is_changed:
        return list(held._modules.values())
    if type(held) in (list, tuple):
        return list(held)
    raise RunsInPythonError(
        f"its transforms are {class_name(type(getattr(transform, 'transforms', None)))}, not a plain list"
    )


def change_of(transform: Any, attributes: AbstractSet[str], home: str = _TORCHVISIONS) -> str | None:
    """Describes what differs from the published class of `transform`, as a clause; None if nothing does.

    Args:
        attributes: The names that the class gives its objects, besides the attributes of every torch module.
        home: Prefix of the modules that define the methods of the class.
    """
    kind = type(transform)
    if isinstance(transform, torch.nn.Module):
        problem = change_of_module(transform)
        if problem is not None:
            return problem
    added = vars(transform).keys() - attributes
    if added:
        added -= _module_attributes()
    if added:
        name = min(added)
        is_override = getattr(kind, name, None) is not None
        return f"{name} was overridden on this object" if is_override else f"it was given an attribute, {name}"
    replaced = _replaced_method(kind, home)
    return None if replaced is None else f"{replaced} of its class was replaced"


@functools.cache
def _module_attributes() -> frozenset[str]:
    return frozenset({*vars(torch.nn.Module()), "_compiled_call_impl"})


def change_of_module(transform: torch.nn.Module) -> str | None:
    """Describes what a call of a module does besides its forward, as a clause; None if nothing."""
    if transform._compiled_call_impl is not None:
        return "it was compiled"
    if any(getattr(transform, f"_{name}") for name in _HOOKS):
        return "it has hooks"
    if has_global_hooks():
        return "there are hooks for all torch modules"
    module_class = vars(torch.nn.Module)
    if not all(_is_function_of(module_class[name], "torch.nn.modules.module") for name in ("__call__", "_call_impl")):
        return "__call__ of torch.nn.Module was replaced"
    return None


_global_hooks = operator.attrgetter(*(f"_global_{name}" for name in _HOOKS))


def has_global_hooks() -> bool:
    return any(_global_hooks(torch.nn.modules.module))


def _replaced_method(kind: type, home: str) -> str | None:
    """Returns the name of a method that was not defined in the class's own module, or None."""
    for base in kind.__mro__:
        if base is torch.nn.Module or base is object:
            break
        for name, member in vars(base).items():
            function = getattr(member, "__func__", member)  # of a static or class method
            if not _is_function_of(function, home) and callable(function) and not isinstance(function, type):
                return name
    return None


def _is_function_of(member: Any, home: str) -> bool:
    # The globals tell, not __module__, which functools.wraps copies to the wrapper.
    if not isinstance(member, FunctionType):
        return False
    return str(original_of(member).__globals__.get("__name__", "")).startswith(home)


def is_torchvisions(function: Any) -> bool:
    """Returns whether a function in torchvision's modules is its own, not a replacement by user code."""
    return _is_function_of(function, _TORCHVISIONS)


def replaced_function(family: Family) -> str | None:
    """Returns the name of a function that torchvision's classes call on images and that user code has replaced."""
    modules = (functional("v1"), loaded("_functional_pil"))
    return _replaced_among(_IMAGE_FUNCTIONS, *modules, *([functional("v2")] if family == "v2" else []))


def _replaced_among(names: AbstractSet[str], *modules: ModuleType) -> str | None:
    for module in modules:
        for name in names & vars(module).keys():
            if not is_torchvisions(vars(module)[name]):
                return name
    return None


def class_name(kind: type) -> str:
    """Returns the name as users write it: ``Resize``, ``v2.Resize``, ``torch.nn.modules.container.Sequential``."""
    if kind.__module__.startswith("torchvision.transforms.v2"):
        return f"v2.{kind.__name__}"
    if kind.__module__.startswith("torchvision.transforms.") or kind.__module__ == "builtins":
        return kind.__name__
    return f"{kind.__module__}.{kind.__qualname__}"
