"""The user's transforms that do no more than pass an image on, as their bytecode proves.

Note [proved transforms]: a few tries on images would not show what a function does to others. So its bytecode has to
equal the bytecode of one of the patterns below, and its names are looked up where Python would look them up. Patterns
are never called.
"""

from __future__ import annotations

import dis
import inspect
import sys
from types import CodeType, FunctionType
from typing import Any, Literal

import numpy as np
import torch

from fastload.transforms import _recognize

# The effect on an RGB image: it stays unchanged, as does any other input of an "identity"; or it becomes a tensor, as
# by torchvision's functions, and a tensor stays unchanged.
Role = Literal["identity", "image identity", "tensor"]
# The flags that decide what a call of a function does besides running its code.
_KINDS = (
    inspect.CO_VARARGS
    | inspect.CO_VARKEYWORDS
    | inspect.CO_GENERATOR
    | inspect.CO_COROUTINE
    | inspect.CO_ASYNC_GENERATOR
    | inspect.CO_ITERABLE_COROUTINE
)


def _same(x):  # type: ignore[no-untyped-def]
    return x


def _converted(image):  # type: ignore[no-untyped-def]
    return image.convert("RGB")


def _converted_if_other(image):  # type: ignore[no-untyped-def]
    return image.convert("RGB") if image.mode != "RGB" else image


def _same_if_rgb(image):  # type: ignore[no-untyped-def]
    return image if image.mode == "RGB" else image.convert("RGB")


def _replaced_if_other(image):  # type: ignore[no-untyped-def]
    if image.mode != "RGB":
        image = image.convert("RGB")
    return image


class _Patterns(torch.nn.Module):
    def same(self, x):  # type: ignore[no-untyped-def]
        return x

    def converted(self, image):  # type: ignore[no-untyped-def]
        return image.convert("RGB")

    def passed_on(self, image):  # type: ignore[no-untyped-def]
        return self.any_transform(image)  # type: ignore[operator]

    def converted_if_image(self, pic):  # type: ignore[no-untyped-def]
        if isinstance(pic, (np.ndarray, torch.Tensor)):
            return pic
        return pic.convert(self.any_mode)

    def to_tensor(self, pic):  # type: ignore[no-untyped-def]
        if isinstance(pic, torch.Tensor):
            return pic
        # Python compiles calls of imported names differently, so this name is imported here.
        return _recognize.any_function(pic)  # type: ignore[attr-defined]

    def to_tensor_by_base(self, pic):  # type: ignore[no-untyped-def]
        if isinstance(pic, torch.Tensor):
            return pic
        return super().__call__(pic)


# The names in patterns for which the user's code may have others, which the caller of _names_in() looks up.
_ANY = frozenset({"any_transform", "any_mode", "any_function", "_recognize"})
_FUNCTIONS: dict[Any, Role] = {
    _same: "identity",
    _converted: "image identity",
    _converted_if_other: "image identity",
    _same_if_rgb: "image identity",
    _replaced_if_other: "image identity",
}
_METHODS: dict[Any, Role] = {_Patterns.same: "identity", _Patterns.converted: "image identity"}


def role_of(transform: Any) -> Role | None:
    """Returns what `transform` does to an RGB image; None if nothing is known about it."""
    if "torchvision.transforms.functional" not in sys.modules:
        return None
    if type(transform) is torch.nn.Identity:
        return None if _recognize.change_of(transform, frozenset(), _recognize.TORCHS) else "identity"
    function = _function_of_lambda(transform)
    if type(function) is FunctionType:
        return _role_among(_FUNCTIONS, function)
    call = _call_of(transform)
    if type(call) is not FunctionType:
        return None
    if _converts_images(transform, call):
        return "identity"
    return "tensor" if _makes_tensors(transform, call) else _role_among(_METHODS, call)


def _function_of_lambda(transform: Any) -> Any:
    """Returns the function that torchvision's Lambda calls, or `transform` itself."""
    if type(transform).__name__ != "Lambda" or _recognize.family_of(type(transform)) is None:
        return transform
    is_plain = _recognize.change_of(transform, {"lambd", "types"}) is None
    return transform.lambd if is_plain and vars(transform).get("types", (object,)) == (object,) else None


def _role_among(patterns: dict[Any, Role], function: FunctionType) -> Role | None:
    """Returns the role of the pattern that `function` follows."""
    return next((role for pattern, role in patterns.items() if _names_in(function, pattern) is not None), None)


def pipeline_in(transform: Any) -> Any:
    """Returns the object that `transform` calls with its argument to get its result; None if it does anything else.

    An example are the presets in torchvision's references, which are classes around a Compose.
    """
    is_users = _recognize.family_of(type(transform)) is None
    names = _names_in(_call_of(transform), _Patterns.passed_on) if is_users else None
    return None if names is None else _attribute(transform, names["any_transform"])


def code_of(transform: Any) -> Any:
    """Returns the code that a call of a user's object runs: the same as long as class and function are unchanged."""
    call = transform if type(transform) is FunctionType else _call_of(transform)
    return getattr(call, "__code__", call)


def _call_of(transform: Any) -> Any:
    """Returns the function that a call of an object runs, with the object as first argument; None for other calls."""
    kind = type(transform)
    if not issubclass(kind, torch.nn.Module):
        return _of_class(kind, "__call__")
    machinery = ("__call__", "_wrapped_call_impl", "_call_impl", "_slow_forward", "__getattr__")
    is_torchs = all(_of_class(kind, name) is vars(torch.nn.Module).get(name) for name in machinery)
    if not is_torchs or _recognize.change_of_module(transform) is not None:
        return None
    is_changed = vars(transform).keys() & {"forward", *machinery}
    return None if is_changed else _of_class(kind, "forward")


def _of_class(kind: type, name: str) -> Any:
    return next((vars(base)[name] for base in kind.__mro__ if name in vars(base)), None)


def _attribute(transform: Any, name: str) -> Any:
    """Reads an attribute of the object itself without calling the user's code; None if that is not possible."""
    kind = type(transform)
    if _of_class(kind, "__getattribute__") is not object.__getattribute__ or _of_class(kind, name) is not None:
        return None
    held = getattr(transform, "__dict__", {})
    if name in held or not issubclass(kind, torch.nn.Module):
        return held.get(name)
    return held["_modules"].get(name)


def _global(function: Any, name: str) -> Any:
    return function.__globals__.get(name, function.__builtins__.get(name))


def _converts_images(transform: Any, call: FunctionType) -> bool:
    """Returns whether it converts images to RGB and passes tensors on, like open_clip's MaybeConvertMode."""
    names = _names_in(call, _Patterns.converted_if_image)
    return names is not None and _attribute(transform, names["any_mode"]) == "RGB"


def _makes_tensors(transform: Any, call: FunctionType) -> bool:
    """Returns whether it makes tensors, like timm's MaybeToTensor and MaybePILToTensor, or DINOv2's MaybeToTensor."""
    names = _names_in(call, _Patterns.to_tensor)
    if names is None:
        is_by_base = _names_in(call, _Patterns.to_tensor_by_base) is not None
        return is_by_base and _base_makes_tensors(transform, call)
    function, functional = names["any_function"], _recognize.functional("v1")
    is_known = function in ("to_tensor", "pil_to_tensor") and _global(call, names["_recognize"]) is functional
    return is_known and _recognize.is_torchvisions(vars(functional)[function])


def _base_makes_tensors(transform: Any, call: FunctionType) -> bool:
    """Returns whether the `super()` of a method is torchvision's ToTensor."""
    assert call.__closure__ is not None, "the pattern has one"
    defining: Any = call.__closure__[0].cell_contents
    line = type(transform).__mro__
    if defining not in line:
        return False
    base = next(kind for kind in line[line.index(defining) + 1 :] if "__call__" in vars(kind))
    return base is _recognize.transforms_v1().ToTensor and _recognize.is_torchvisions(vars(base)["__call__"])


def _names_in(function: object, pattern: Any) -> dict[str, str] | None:
    """Returns the globals and attributes that `function` names, by the pattern's names for them.

    Returns None if `function` is not a function, or does anything else than the pattern, apart from the names in _ANY
    and the names of its variables. The caller has to look up these, and the class of its `super()`.
    """
    if type(function) is not FunctionType:
        return None
    code, wanted = function.__code__, pattern.__code__
    is_same = (
        code.co_argcount == wanted.co_argcount
        and code.co_kwonlyargcount == wanted.co_kwonlyargcount
        and code.co_nlocals == wanted.co_nlocals
        and len(code.co_names) == len(wanted.co_names)
        and code.co_freevars == wanted.co_freevars
        and code.co_cellvars == ()
        # Python 3.11 and later keep the handlers of exceptions beside the code.
        and getattr(code, "co_exceptiontable", None) == getattr(wanted, "co_exceptiontable", None)
        and code.co_flags & _KINDS == wanted.co_flags & _KINDS
        and _instructions(code) == _instructions(wanted)
    )
    if not is_same:
        return None
    names = dict(zip(wanted.co_names, code.co_names, strict=True))
    return names if all(_agree(function, own, pattern, name) for name, own in names.items()) else None


def _agree(function: FunctionType, own: str, pattern: Any, name: str) -> bool:
    """Returns whether `own` means in `function` what `name` means in the pattern: the same global, or the attribute."""
    if name in _ANY:
        return True
    meant = _global(pattern, name)
    return own == name if meant is None else _global(function, own) is meant


def _instructions(code: CodeType) -> list[tuple[str, type, object, str]]:
    """Returns the instructions without the code's own names."""
    variables, names = (tuple(map(str, range(len(names)))) for names in (code.co_varnames, code.co_names))
    code = code.replace(co_varnames=variables, co_names=names)
    return [(each.opname, type(each.argval), each.argval, each.argrepr) for each in dis.get_instructions(code)]
