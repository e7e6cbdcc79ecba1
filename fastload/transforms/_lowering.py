"""Splits a torchvision pipeline into a native part and a Python part, with the same bytes and random draws.

A pipeline is cut at the first transform that has no native form: the transforms before it become steps and a table (the
native part), and the user's own objects from there on are the Python part. Only torchvision's exact classes are
recognised, v1 and v2, if nothing about the object or the class was overridden.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import FunctionType
from typing import Any

from fastload.transforms import _recognize
from fastload.transforms._multi_view import views_of
from fastload.transforms._native_steps import NativeSteps, native_runs
from fastload.transforms._nodes import Node, expand
from fastload.transforms._stage import PlacedStep, RunsInPythonError, Size
from fastload.transforms._tensor_part import SampleForm


@dataclass(frozen=True)
class TransformStage:
    """One transform of the pipeline. Containers are flattened, and a RandomApply is followed by its contents.

    Attributes:
        name: Class name.
        problem: Why and from where on it runs in Python, as a clause; None if it is native.
        is_called_natively: Whether native code runs it all the same when Python calls it with an image.
    """

    name: str
    problem: str | None
    is_called_natively: bool = False


@dataclass(frozen=True, eq=False)
class LoweredTransform:
    """A pipeline as a native part and a Python part. Two pipelines are equal if they give the same bytes: they have the
    same steps, and the same objects in the Python part.

    Attributes:
        steps: The steps of the native part in order, each with the position of its stage, counted from the first view;
            csrc/image/steps says what each step of fastload._native does.
        size: Size of the native part's results; None if it depends on the image.
        form: Form of the native part's results.
        python_part: The user's objects that follow, in calling order.
        stages: All of its transforms in order, for explain().
        views: The pipelines of the views, if the pipeline is a MultiView and nothing else.
    """

    steps: tuple[PlacedStep, ...]
    size: Size | None
    form: SampleForm
    python_part: tuple[Any, ...]
    stages: tuple[TransformStage, ...]
    views: tuple[LoweredTransform, ...] = ()

    @property
    def native_count(self) -> int:
        """The number of its native transforms."""
        return sum(stage.problem is None for stage in self.stages)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LoweredTransform) and self._identity() == other._identity()

    def _identity(self) -> dict[str, Any]:
        # The user's objects define their own ==, and equal objects may have different states.
        return {**vars(self), "python_part": [id(transform) for transform in self.python_part]}


def lower_transform(transform: object) -> LoweredTransform:
    """Lowers `transform`, which takes an RGB PIL image: a container of torchvision or torch, one transform, or None.

    Raises RunsInPythonError if it cannot even be cut.
    """
    nodes = _nodes_of(transform)
    whole = _lower(nodes, 0)
    views = views_of(nodes[0].transform) if len(nodes) == 1 else None
    return whole if views is None else replace(whole, views=_lower_views(views))


def _lower_views(views: Sequence[object]) -> tuple[LoweredTransform, ...]:
    """Lowers each view. Positions count on from view to view, so that no two steps draw the same numbers."""
    lowered: list[LoweredTransform] = []
    for view in views:
        try:
            nodes = _nodes_of(view)
        except RunsInPythonError:
            return ()
        lowered.append(_lower(nodes, sum(len(previous.stages) for previous in lowered)))
    return tuple(lowered)


def _nodes_of(transform: object) -> list[Node]:
    try:
        return [] if transform is None else expand(transform)
    except RecursionError:
        raise RunsInPythonError("a container of transforms contains itself") from None


def _lower(nodes: Sequence[Node], first_position: int) -> LoweredTransform:
    """Lowers the pipeline of `nodes`; the positions of its steps count on from `first_position`."""
    native = NativeSteps()
    stages: list[TransformStage] = []
    count, problem = 0, None
    for node in nodes:
        try:
            native.take(node, first_position + len(stages))
        except RunsInPythonError as error:
            problem = f"runs in Python from here on ({error})"
            break
        stages += _stages_of(node, len(stages), None)
        count += 1
    cut, gets_tensor = len(stages), native.form.sample != "pil"
    for run, again in native_runs(nodes[count:]):
        for node in run:
            problem = problem if len(stages) == cut else f"in Python, after position {cut + 1}"
            is_called_natively = again is not None and not gets_tensor
            stages += _stages_of(node, len(stages), problem, is_called_natively=is_called_natively)
        # Known transforms turn tensors into tensors; the user's code may make an image of one.
        gets_tensor = any(node.makes_tensor for node in run) or (gets_tensor and all(node.known for node in run))
    python_part = tuple(node.transform for node in nodes[count:])
    return LoweredTransform(tuple(native.steps), native.size, native.form, python_part, tuple(stages))


def _stages_of(
    node: Node, position: int, problem: str | None, where: str = "", *, is_called_natively: bool = False
) -> list[TransformStage]:
    name = _recognize.class_name(type(node.transform))
    if isinstance(node.transform, FunctionType):
        name = f"{name} {node.transform.__qualname__}"
    stages = [TransformStage(name + where, problem, is_called_natively)]
    inner = None if problem is None else f"in Python, after position {position + 1}"
    for held in node.held or ():
        number = position + len(stages)
        stages += _stages_of(held, number, inner, f" in {name}", is_called_natively=is_called_natively)
    return stages
