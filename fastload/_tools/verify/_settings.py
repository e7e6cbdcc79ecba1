"""Differences in the settings of two loaders and of their data sets' transforms, as far as public settings tell."""

from __future__ import annotations

import difflib
import itertools
import re
import types
from collections.abc import Mapping
from enum import Enum
from typing import Any

import torch

from fastload._tools.verify._compare import fingerprint
from fastload._tools.verify._report import Finding, Stage
from fastload._tools.verify._runner import LoaderRunner
from fastload._tools.verify._sample_parts import SampleParts, flatten

_CONVERSIONS = {"ToTensor", "PILToTensor", "ToImage", "ToDtype", "ConvertImageDtype", "ToPureTensor", "ToPILImage"}
_GEOMETRY = re.compile(
    "resize|crop|pad|flip|rotat|affine|perspective|elastic|zoom|scalejitter|transpose", re.IGNORECASE
)
# Classes of torchvision that apply what they are given, or whose derived classes may do anything.
_UNTELLING = {"Transform", "Lambda", "RandomApply", "RandomChoice", "RandomOrder", "RandomTransforms"}
_MAX_DEPTH = 6


def loader_differences(old: LoaderRunner, new: LoaderRunner) -> list[str]:
    """Lists the settings by which two loaders may give other samples of the same data set, a clause each."""
    found = []
    rngs = [old.rng, new.rng]
    if rngs[0] != rngs[1]:
        found.append(f"rng={rngs[0]!r} against rng={rngs[1]!r}")
    elif rngs[0] == "torch" and old.loader.num_workers != new.loader.num_workers:
        found.append(
            f"num_workers {old.loader.num_workers} against {new.loader.num_workers}: each worker has random numbers of "
            "its own"
        )
    seeds = [getattr(runner.loader, "seed", None) for runner in (old, new)]
    if rngs == ["sample", "sample"] and seeds[0] != seeds[1]:
        found.append(f"seed {seeds[0]} against {seeds[1]}")
    generators = [runner.loader.generator for runner in (old, new)]
    states = [fingerprint(None if generator is None else generator.get_state()) for generator in generators]
    if states[0] != states[1]:
        found.append("the loaders' generators begin in other states")
    for name, function in old.batch_functions.items():
        if function != (other := new.batch_functions[name]):
            found.append(f"{name} {_function_name(function)} against {_function_name(other)}")
    return found


def _function_name(function: Any) -> str:
    return "None" if function is None else str(getattr(function, "__qualname__", type(function).__qualname__))


def transforms_difference(old: SampleParts, new: SampleParts) -> Finding | None:
    """Finds the first transform that has other settings or that one side lacks: its stage, its position and its name.

    If both sides make several views of an image, the views are searched first.
    """
    views = [_transforms_of_views(parts) for parts in (old, new)]
    for number, view in enumerate(zip(*views, strict=False), start=1):
        if (found := _first_difference(*map(flatten, view))) is not None:
            return Finding(found.stage, f"view {number}, {found.detail}")
    return _first_difference(old.steps, new.steps)


def _transforms_of_views(parts: SampleParts) -> list[Any]:
    """Returns the transforms of a single step that gives a list with a result of each; none for any other steps."""
    held = _held_transforms(parts.steps[0]) if len(parts.steps) == 1 else []
    return held if isinstance(parts.result, list) and len(parts.result) == len(held) else []


def _held_transforms(step: Any) -> list[Any]:
    """Returns the transforms that a container such as RandomApply or MultiView holds."""
    held = getattr(step, "transforms", None)
    return list(held) if isinstance(held, (list, tuple, torch.nn.ModuleList)) else []


def _first_difference(old: list[Any], new: list[Any]) -> Finding | None:
    """Pairs transforms of one class, with None if the other side lacks one, and finds the first pair that differs."""
    kinds = [[type(step).__qualname__ for step in steps] for steps in (old, new)]
    matcher = difflib.SequenceMatcher(a=kinds[0], b=kinds[1], autojunk=False)
    for _, old_start, old_end, new_start, new_end in matcher.get_opcodes():
        pairs = itertools.zip_longest(old[old_start:old_end], new[new_start:new_end])
        for position, (left, right) in enumerate(pairs, start=old_start + 1):
            if left is not right and _parameters(left) != _parameters(right):
                place = f"transform {position} of {max(len(old), len(new))}"
                return Finding(stage_of_step(left, right), f"{place}, {_difference_text(left, right)}")
    return None


def stage_of_step(step: Any, counterpart: Any = None) -> Stage:
    """Returns the stage of a transform, and of its counterpart if there is one; "values" if their classes do not tell.

    A torchvision class tells the stage, also as a base class. A container has the stage of its contents, or of the
    difference in them.
    """
    held = [_steps_in(step), _steps_in(counterpart)]
    if all(held) and (found := _first_difference(*held)) is not None:
        return found.stage
    stages = set[Stage]()
    for part, inner in zip((step, counterpart), held, strict=True):
        if part is not None:
            stages |= set(map(stage_of_step, inner)) or {_stage_of_class(type(part))}
    return stages.pop() if len(stages) == 1 else "values"


def _steps_in(container: Any) -> list[Any]:
    return [step for part in _held_transforms(container) for step in flatten(part)]


def _stage_of_class(kind: type[Any]) -> Stage:
    name = next((base.__name__ for base in kind.__mro__ if base.__module__.partition(".")[0] == "torchvision"), "_")
    if name in _CONVERSIONS:
        return "rounding"
    if _GEOMETRY.search(name):
        return "resize"
    return "values" if name in _UNTELLING or name.startswith("_") else "colour"


def _difference_text(old: Any, new: Any) -> str:
    """Describes the settings that differ, or both transforms."""
    if type(old) is type(new) and (settings := _unlike_settings(old, new)):
        return f"{type(old).__qualname__}: {settings}"
    names = [_step_name(step) for step in (old, new)]
    return names[0] if names[0] == names[1] else f"{names[0]} against {names[1]}"


def _unlike_settings(old: Any, new: Any) -> str:
    """Lists the public attributes in which two transforms of one class differ, with their values."""
    settings = [getattr(step, "__dict__", {}) for step in (old, new)]
    names = [name for name in settings[0] if not name.startswith("_") and name in settings[1]]
    return ", ".join(
        f"{name} {settings[0][name]} against {settings[1][name]}"
        for name in names
        if _parameters(settings[0][name]) != _parameters(settings[1][name])
    )


def _step_name(step: Any) -> str:
    if step is None:
        return "nothing"
    text = _plain_repr(step)
    return " ".join(text.split()) if len(text) <= 200 else type(step).__qualname__


def _parameters(value: Any, depth: int = _MAX_DEPTH) -> Any:
    """Returns type and settings of a transform as nested tuples, which are equal if type and settings are."""
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes, Enum, torch.dtype, torch.device)):
        return type(value).__qualname__, repr(value)
    if isinstance(value, torch.Tensor):
        return "Tensor", fingerprint(value.cpu())
    if isinstance(value, types.FunctionType):
        return value.__qualname__, value.__code__.co_code, repr(value.__code__.co_consts), repr(value.__defaults__)
    if depth == 0:
        return _plain_repr(value)
    if isinstance(value, Mapping):
        return "mapping", tuple((repr(key), _parameters(item, depth - 1)) for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return "sequence", tuple(_parameters(item, depth - 1) for item in value)
    settings = getattr(value, "__dict__", None)
    if settings is None or isinstance(value, type):
        return _plain_repr(value)
    public = {name: item for name, item in settings.items() if not name.startswith("_") and name != "training"}
    if isinstance(value, torch.nn.Module):
        public.update(dict(value.named_children()))
        public.update(dict(value.named_buffers(recurse=False)))
    return type(value).__qualname__, _parameters(public, depth - 1)


def _plain_repr(value: Any) -> str:
    try:
        return re.sub(r" at 0x[0-9a-f]+", "", repr(value))
    except Exception:  # noqa: BLE001 - the user's objects may raise anything
        return type(value).__qualname__
