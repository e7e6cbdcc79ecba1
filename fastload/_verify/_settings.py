"""Transforms as a list of steps: how two lists correspond, what differs in the parameters, and what in the results."""

from __future__ import annotations

import difflib
import hashlib
import re
import types
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Literal

import torch

from fastload._verify._compare import ValueDifference, difference, raw_bytes
from fastload._verify._rng_states import RandomWorlds, seed_process

TransformStage = Literal["resize", "colour", "rounding", "random numbers"]

# Random steps are run this often, each time on other draws, because a changed one may do nothing for some draws.
TRIALS = 4

_GEOMETRY = re.compile(
    "resize|crop|pad|flip|rotat|affine|perspective|elastic|zoom|scalejitter|transpose", re.IGNORECASE
)
_CONVERSION = re.compile(r"^(ToTensor|PILToTensor|ToImage|ToDtype|ConvertImageDtype|ToPureTensor|ToPILImage)$")
_MAX_DEPTH = 6


def flatten(transform: Any) -> list[Any]:
    """The transforms in calling order: Compose and torch.nn.Sequential taken apart, anything else one step."""
    if transform is None:
        return []
    inner: Any = None
    if type(transform).__name__ == "Compose":
        inner = getattr(transform, "transforms", None)
    elif type(transform) is torch.nn.Sequential:
        inner = list(transform)
    if not isinstance(inner, (list, tuple)):
        return [transform]
    return [step for part in inner for step in flatten(part)]


@dataclass(frozen=True)
class StepPair:
    """One step of the old pipeline and its counterpart in the new one; None where only the other has it.

    Attributes:
        view: number of the view in which `inner` is, where the steps make several views of an image.
        inner: the pair in there that differs.
    """

    old: Any
    new: Any
    are_alike: bool
    position: int
    total: int
    view: int | None = None
    inner: StepPair | None = None

    @property
    def name(self) -> str:
        """Where it is and what, for a report: the settings that differ, or both forms."""
        if self.inner is not None:
            return f"view {self.view}, {self.inner.name}"
        place = f"transform {self.position + 1} of {self.total}"
        if type(self.old) is type(self.new) and (settings := _unlike_settings(self.old, self.new)):
            return f"{place}, {type(self.old).__qualname__}: {settings}"
        old, new = (_step_name(step) for step in (self.old, self.new))
        return f"{place}, {old}" if old == new else f"{place}, {old} against {new}"


def pair_steps(old: list[Any], new: list[Any]) -> list[StepPair]:
    """Aligns two pipelines: equal steps with each other, changed ones of one kind with each other."""
    pairs = []
    total = max(len(old), len(new))
    kinds = [[type(step).__qualname__ for step in steps] for steps in (old, new)]
    matcher = difflib.SequenceMatcher(a=kinds[0], b=kinds[1], autojunk=False)
    for _, old_start, old_end, new_start, new_end in matcher.get_opcodes():
        for offset in range(max(old_end - old_start, new_end - new_start)):
            left = old[old_start + offset] if old_start + offset < old_end else None
            right = new[new_start + offset] if new_start + offset < new_end else None
            are_alike = left is right or (_parameters(left) == _parameters(right))
            pairs.append(StepPair(left, right, are_alike, old_start + offset, total))
    return pairs


@dataclass(frozen=True)
class PipelineRun:
    """What running two pipelines side by side has shown.

    Attributes:
        stage: of the first step that gives another result, or has other parameters; None where there is none.
        pair: that step.
        difference: of its two results, or None where only the parameters differ.
        draws: whose random generators the steps used, in `RandomWorlds.drawn_since`'s words.
        result: of the old pipeline, in the first trial.
    """

    stage: TransformStage | None
    pair: StepPair | None
    difference: ValueDifference | None
    draws: frozenset[str]
    result: Any


def run_side_by_side(pairs: list[StepPair], old_input: Any, new_input: Any, worlds: RandomWorlds) -> PipelineRun:
    """Runs both pipelines step by step; each pair of steps draws from generators in equal states.

    Raises what a transform raises.
    """
    draws, result, first = frozenset[str](), None, None
    # Steps that both sides share can differ only from themselves.
    is_shared = all(pair.old is pair.new for pair in pairs)
    for trial in range(TRIALS):
        with worlds.scratch(trial):
            run = _trial(pairs, old_input, new_input, worlds, trial)
        draws |= run.draws
        if trial == 0:
            result = run.result
        if run.pair is not None and (first is None or run.pair.position < _position(first)):
            first = run
        if not draws or is_shared:
            break
    if first is None and (unlike := next((pair for pair in pairs if not pair.are_alike), None)) is not None:
        # It shows for rare draws only, for example a probability.
        first = PipelineRun(_stage_of_kind(unlike, None, None), unlike, None, draws, None)
    if first is None:
        return PipelineRun(None, None, None, draws, result)
    return PipelineRun(first.stage, first.pair, first.difference, draws, result)


def _position(run: PipelineRun) -> int:
    return run.pair.position if run.pair is not None else -1


def _trial(pairs: list[StepPair], old_input: Any, new_input: Any, worlds: RandomWorlds, trial: int) -> PipelineRun:
    old, new = old_input, new_input
    draws = frozenset[str]()
    for number, pair in enumerate(pairs):
        before = old
        seed_process(trial * len(pairs) + number)
        start = worlds.states()
        old = _apply(pair.old, old)
        draws |= worlds.drawn_since(start)
        worlds.install(start)
        new = _apply(pair.new, new)
        draws |= worlds.drawn_since(start)
        found = difference(old, new)
        if found is not None:
            worlds.install(start)
            step, result = (pair.old, old) if pair.old is not None else (pair.new, new)
            is_repeatable = difference(result, _apply(step, before)) is None
            if is_repeatable and (in_view := _in_views(pair, before, (old, new), worlds)) is not None:
                return replace(in_view, draws=draws)
            stage = _stage_of(pair, before, old, new) if is_repeatable else "random numbers"
            return PipelineRun(stage, pair, found, draws, None)
    return PipelineRun(None, None, None, draws, old)


def _in_views(pair: StepPair, before: Any, results: tuple[Any, Any], worlds: RandomWorlds) -> PipelineRun | None:
    """What differs in the first view that does, where both steps give a list: a result of each transform they hold."""
    held = [getattr(step, "transforms", None) for step in (pair.old, pair.new)]
    if not all(_are_views(*part) for part in zip(held, results, strict=True)):
        return None
    for number, (old, new) in enumerate(zip(*held, strict=False), start=1):
        run = run_side_by_side(pair_steps(flatten(old), flatten(new)), before, before, worlds)
        if run.pair is not None:
            return replace(run, pair=replace(pair, view=number, inner=run.pair))
    return None


def _are_views(transforms: Any, results: Any) -> bool:
    return isinstance(transforms, (list, tuple)) and isinstance(results, list) and len(transforms) == len(results)


def _apply(step: Any, value: Any) -> Any:
    """The step's result; its input stays as it is, also where the step works in place."""
    if step is None:
        return value
    return step(value.clone() if isinstance(value, torch.Tensor) else value.copy() if _is_image(value) else value)


def _is_image(value: Any) -> bool:
    return hasattr(value, "tobytes") and hasattr(value, "mode") and hasattr(value, "copy")


def _stage_of(pair: StepPair, before: Any, old: Any, new: Any) -> TransformStage:
    if pair.are_alike and is_rounding(old, new):
        return "rounding"
    return _stage_of_kind(pair, before, old if pair.old is not None else new)


def _stage_of_kind(pair: StepPair, before: Any, after: Any) -> TransformStage:
    step = pair.old if pair.old is not None else pair.new
    sizes = _size(before), _size(after)
    has_new_size = None not in sizes and sizes[0] != sizes[1]
    return "resize" if has_new_size else step_stage(_inner_step(step, pair))


def step_stage(step: Any) -> Literal["resize", "colour", "rounding"]:
    """The stage a transform belongs to, by the names of its class and that one's bases; "colour" if it has none."""
    names = [kind.__name__ for kind in type(step).__mro__]
    if any(map(_CONVERSION.match, names)):
        return "rounding"
    return "resize" if any(map(_GEOMETRY.search, names)) else "colour"


def _inner_step(step: Any, pair: StepPair) -> Any:
    """The step inside of RandomApply and the like that differs, else the first."""
    inner = _children(step)
    if not inner:
        return step
    for mine, theirs in zip(inner, _children(pair.new), strict=False):
        if _parameters(mine) != _parameters(theirs):
            return mine
    return inner[0]


def _children(step: Any) -> list[Any]:
    """The transforms that a container such as RandomApply or RandomChoice holds."""
    held = getattr(step, "transforms", None)
    if not isinstance(held, (list, tuple, torch.nn.ModuleList)):
        return []
    return [inner for part in held for inner in flatten(part)]


def _size(value: Any) -> tuple[int, int] | None:
    """(height, width) of an image, PIL or tensor."""
    if isinstance(value, torch.Tensor):
        return (int(value.shape[-2]), int(value.shape[-1])) if value.ndim >= 2 else None
    return (value.height, value.width) if hasattr(value, "height") and hasattr(value, "width") else None


def is_rounding(old: Any, new: Any) -> bool:
    """Whether two images of one shape and type differ by one grey level or one unit in the last place at most."""
    if not isinstance(old, torch.Tensor):
        found = difference(old, new)
        return found is not None and found.max_abs is not None and found.max_abs <= 1
    if old.shape != new.shape or old.dtype != new.dtype:
        return False
    if not old.is_floating_point():
        return bool((old.long() - new.long()).abs().max() <= 1)
    return bool((_ordered(old) - _ordered(new)).abs().max() <= 1)


def _ordered(values: torch.Tensor) -> torch.Tensor:
    """Each float's number among the floats of its type, so that neighbours differ by one."""
    integers = {8: torch.int64, 4: torch.int32, 2: torch.int16, 1: torch.int8}[values.element_size()]
    bits = values.contiguous().view(integers).long()
    magnitude = bits & ((1 << (8 * values.element_size() - 1)) - 1)
    return torch.where(bits < 0, -magnitude, magnitude)


# Parameters, in a form that can be compared.


def _parameters(value: Any, depth: int = _MAX_DEPTH) -> Any:
    """Type and settings of a transform, as nested tuples that are equal where these are."""
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes, Enum, torch.dtype, torch.device)):
        return type(value).__qualname__, repr(value)
    if isinstance(value, torch.Tensor):
        contents = raw_bytes(value.detach().cpu()).numpy().tobytes()
        return "Tensor", str(value.dtype), tuple(value.shape), hashlib.sha1(contents).hexdigest()
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


def _unlike_settings(old: Any, new: Any) -> str:
    """The public attributes in which two transforms of one class differ, with their values."""
    settings = [getattr(step, "__dict__", {}) for step in (old, new)]
    names = [name for name in settings[0] if not name.startswith("_") and name in settings[1]]
    return ", ".join(
        f"{name} {settings[0][name]} against {settings[1][name]}"
        for name in names
        if _parameters(settings[0][name]) != _parameters(settings[1][name])
    )


def _plain_repr(value: Any) -> str:
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))


def _step_name(step: Any) -> str:
    if step is None:
        return "nothing"
    text = _plain_repr(step)
    return " ".join(text.split()) if len(text) <= 200 else type(step).__qualname__
