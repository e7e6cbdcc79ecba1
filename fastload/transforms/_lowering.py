"""From a torchvision pipeline to a native part and a Python part, with the same bytes and random draws.

A pipeline is cut where the first transform stands that has no native form: what comes before becomes steps and a table
(the native part), and the user's own objects from there on are the Python part. Only torchvision's exact classes are
recognised, v1 and v2, with nothing about the object or the class overridden.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import FunctionType
from typing import Any, Literal

import torch

from fastload.transforms import _recognize
from fastload.transforms._multi_view import views_of
from fastload.transforms._native_steps import NativeSteps
from fastload.transforms._pipeline import Node, expand
from fastload.transforms._stage import PlacedStep, RunsInPythonError

SampleKind = Literal["pil", "tensor", "tv_image"]


@dataclass(frozen=True)
class TransformStage:
    """One transform of the pipeline: containers flattened, and a RandomApply followed by what it holds.

    Attributes:
        position: From 0.
        total: Number of transforms.
        name: Class name.
        problem: Why and since when it runs in Python, as a clause; None where it is native.
    """

    position: int
    total: int
    name: str
    problem: str | None

    def __str__(self) -> str:
        return f"position {self.position + 1} of {self.total}, {self.name}: {self.problem or 'native'}"


@dataclass(frozen=True, eq=False)
class LoweredTransform:
    """A pipeline as a native part and a Python part. Two of them are equal where they give the same bytes: with the
    same steps, and a Python part of the very same objects.

    Attributes:
        steps: The native part's, in order, each with the position of its stage, counted from the first view's. What
            an object of fastload._native does, csrc/image/steps tells.
        height, width: Size of what the native part makes; None where it depends on the image.
        dtype, element_size: Of its elements.
        table: 3 * 256 elements in `dtype` (element 256 * c + v is what value v of channel c becomes), or None where
            the result is the uint8 image itself.
        sample: What the native part makes of a sample: "pil" for an RGB PIL image, "tensor" for a torch.Tensor [3,
            height, width], "tv_image" for a torchvision.tv_tensors.Image of that shape, which batches as a plain
            tensor.
        is_interleaved: In the user's pipeline the native part's tensor has the memory layout [height, width,
            channel]. It matters to a Python part, not to a batch.
        python_part: The user's objects that follow, in calling order.
        stages: What explain() shows.
    """

    steps: tuple[PlacedStep, ...]
    height: int | None
    width: int | None
    dtype: torch.dtype
    element_size: int
    table: bytes | None
    sample: SampleKind
    is_interleaved: bool
    python_part: tuple[Any, ...]
    stages: tuple[TransformStage, ...]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LoweredTransform) and self._identity() == other._identity()

    def _identity(self) -> dict[str, Any]:
        # What == of the Python part's objects means is the user's own, and equal ones may each have a state.
        return {**vars(self), "python_part": [id(transform) for transform in self.python_part]}

    @property
    def handover(self) -> SampleKind | None:
        """What Python gets from the native part: to call its own with, or as the sample itself; None for nothing."""
        return self.sample if self.python_part or self.sample == "pil" else None


@dataclass(frozen=True)
class NotLowered:
    """Why a pipeline cannot even be cut, as a sentence without a full stop."""

    reason: str
    stages: tuple[TransformStage, ...] = ()


def lower_transform(transform: object, first_position: int = 0) -> LoweredTransform | NotLowered:
    """Lower `transform`, which takes an RGB PIL image: a container of torchvision or torch, one transform, or None.

    The positions of its steps count on from `first_position`.

    The objects can be changed later without notice and torch's defaults matter to them, so lower again at each epoch
    and compare: about 0.5 ms.
    """
    try:
        nodes = [] if transform is None else expand(transform)
    except RecursionError:
        return NotLowered("a container of transforms contains itself")
    native = NativeSteps()
    cut: int | None = None
    stages: list[TransformStage] = []
    python_part: list[Any] = []
    total = sum(node.count for node in nodes)
    for node in nodes:
        position, problem = len(stages), None
        if cut is None:
            try:
                native.take(node, first_position + position)
            except RunsInPythonError as error:
                cut, problem = position, f"runs in Python from here on ({error})"
        else:
            problem = f"in Python, after position {cut + 1}"
        stages += _stages_of(node, position, total, problem)
        if cut is not None:
            python_part.append(node.transform)
    return _result(native, tuple(python_part), tuple(stages))


def lower_views(transform: object) -> list[LoweredTransform] | None:
    """Each view of a MultiView, lowered as a pipeline of its own; None where `transform` is more or something else.

    Positions count on from view to view, so that no two steps draw the same numbers from a counter.
    """
    try:
        nodes = expand(transform)
    except RecursionError:
        return None
    views = views_of(nodes[0].transform) if len(nodes) == 1 else None
    if views is None:
        return None
    lowered: list[LoweredTransform] = []
    for view in views:
        form = lower_transform(view, sum(len(previous.stages) for previous in lowered))
        if not isinstance(form, LoweredTransform):
            return None
        lowered.append(form)
    return lowered


def _result(native: NativeSteps, python_part: tuple[Any, ...], stages: tuple[TransformStage, ...]) -> LoweredTransform:
    height, width = native.size or (None, None)
    form = native.form
    dtype = torch.uint8 if form is None else form.dtype
    return LoweredTransform(
        steps=tuple(native.steps),
        height=height,
        width=width,
        dtype=dtype,
        element_size=dtype.itemsize,
        table=None if form is None else form.table,
        sample="pil" if form is None else form.sample,
        is_interleaved=form is not None and form.is_interleaved,
        python_part=python_part,
        stages=stages,
    )


def _stages_of(node: Node, position: int, total: int, problem: str | None, where: str = "") -> list[TransformStage]:
    name = _recognize.class_name(type(node.transform))
    if isinstance(node.transform, FunctionType):
        name = f"{name} {node.transform.__qualname__}"
    stages = [TransformStage(position, total, name + where, problem)]
    inner = None if problem is None else f"in Python, after position {position + 1}"
    for held in node.held or ():
        stages += _stages_of(held, position + len(stages), total, inner, f" in {name}")
    return stages
