"""From a torchvision pipeline to a native head and the rest of it, with the same bytes and random draws.

A pipeline is cut where the first transform stands that has no native form: what comes before becomes steps and a table
(the head), and the user's own objects from there on are the tail. Only torchvision's exact classes are recognised,
v1 and v2, with nothing about the object or the class overridden.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch

from fastload.transforms import _geometry, _recognize
from fastload.transforms._catalog import NATIVE_NAMES, NativeTransform, native_transform
from fastload.transforms._parameters import probability
from fastload.transforms._stage import Family, RunsInPythonError, Size, StageContext, Step
from fastload.transforms._tensor_part import TensorForm, TensorProbe, lower_random_erasing

_TO_TENSOR = "PILToTensor, ToTensor or v2.ToImage"
_BEFORE_TENSORS = f"before {_TO_TENSOR}"
_MAX_RESOLVED_STEPS = 16  # of the native plan (csrc/image/transform_plan.h)

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


@dataclass(frozen=True)
class LoweredTransform:
    """A pipeline as a native head and a Python tail. Two of them are equal where they give the same bytes.

    Attributes:
        steps: The head's, in order; each a dict of "kind", "position" (that of its stage) and
            random_resized_crop: height, width, scale, ratio, log_ratio, interpolation;
            resize: height, width, interpolation; resize_shorter_side: size, max_size (None: none), interpolation;
            center_crop: height, width; pad: left, top, right, bottom, fill, padding_mode;
            random_crop: height, width, pad_if_needed, fill, padding_mode, draws;
            horizontal_flip, vertical_flip: probability; random_apply: probability, draws, steps;
            pixel_op: probability (None: always, without a draw), op;
            color_jitter: brightness, contrast, saturation, hue, each (low, high) or None;
            policy: rule, draws, and num_ops and choices (rand_augment), choices (trivial_augment) or policies
            (auto_augment); random_erasing, which comes after the table: probability, scale, ratio, log_ratio, value,
            draws. `draws` is "v1" or "v2": whose order of random draws. Probabilities and the bounds of a log_ratio
            are float32 numbers.
        height, width: Size of what the head makes; None where it depends on the image.
        dtype, element_size: Of its elements.
        table: 3 * 256 elements in `dtype` (element 256 * c + v is what value v of channel c becomes), or None where
            the result is the uint8 image itself.
        sample: What the head makes of a sample: "pil" for an RGB PIL image, "tensor" for a torch.Tensor [3, height,
            width], "tv_image" for a torchvision.tv_tensors.Image of that shape, which batches as a plain tensor.
        is_interleaved: In the user's pipeline the head's tensor has the memory layout [height, width, channel]. It
            matters to a tail, not to a batch.
        tail: The user's objects that follow, in calling order.
        stages: What explain() shows.
    """

    steps: tuple[Step, ...]
    height: int | None
    width: int | None
    dtype: torch.dtype
    element_size: int
    table: bytes | None
    sample: SampleKind
    is_interleaved: bool
    tail: tuple[Any, ...]
    stages: tuple[TransformStage, ...]

    @property
    def handover(self) -> SampleKind | None:
        """What Python gets from the head: to call the tail with, or as the sample itself. None: nothing is left."""
        return self.sample if self.tail or self.sample == "pil" else None


@dataclass(frozen=True)
class NotLowered:
    """Why a pipeline cannot even be cut, as a sentence without a full stop."""

    reason: str
    stages: tuple[TransformStage, ...] = ()


def lower_transform(transform: object) -> LoweredTransform | NotLowered:
    """Lower `transform`, which takes an RGB PIL image: a container of torchvision or torch, one transform, or None.

    The objects can be changed later without notice and torch's defaults matter to them, so lower again at each epoch
    and compare: about 0.5 ms.
    """
    try:
        nodes = [] if transform is None else _expand(transform)
    except RecursionError:
        return NotLowered("a container of transforms contains itself")
    head = _Head()
    cut: int | None = None
    stages: list[TransformStage] = []
    tail: list[Any] = []
    total = sum(node.count for node in nodes)
    for node in nodes:
        position, problem = len(stages), None
        if cut is None:
            try:
                head.take(node, position)
            except RunsInPythonError as error:
                cut, problem = position, f"runs in Python from here on ({error})"
        else:
            problem = f"in Python, after position {cut + 1}"
        stages += _stages_of(node, position, total, problem)
        if cut is not None:
            tail.append(node.transform)
    return head.lowered(tuple(tail), tuple(stages))


@dataclass(frozen=True)
class _Node:
    """A transform of the flattened pipeline; `held` is what a RandomApply applies, None for anything else."""

    transform: Any
    held: tuple[_Node, ...] | None = None

    @property
    def count(self) -> int:
        return 1 + sum(node.count for node in self.held or ())


def _expand(transform: Any) -> list[_Node]:
    """The transforms in calling order. A container that is anything but plain is one of them."""
    members = _recognize.members_of(transform)
    if members is not None:
        return [node for member in members for node in _expand(member)]
    applied = _recognize.applied_by(transform)
    if applied is None:
        return [_Node(transform)]
    return [_Node(transform, tuple(node for member in applied for node in _expand(member)))]


def _stages_of(node: _Node, position: int, total: int, problem: str | None, where: str = "") -> list[TransformStage]:
    name = _recognize.class_name(type(node.transform))
    stages = [TransformStage(position, total, name + where, problem)]
    inner = None if problem is None else f"in Python, after position {position + 1}"
    for held in node.held or ():
        stages += _stages_of(held, position + len(stages), total, inner, f" in {name}")
    return stages


class _Head:
    """The native prefix as it grows."""

    def __init__(self) -> None:
        self._steps: list[Step] = []
        self._size: Size | None = None
        self._probe: TensorProbe | None = None
        self._form: TensorForm | None = None
        self._is_erased = False

    def take(self, node: _Node, position: int) -> None:
        """Adds a transform, or raises RunsInPythonError and has not changed."""
        _check_surroundings()
        try:
            if self._form is None and not _makes_tensor(node):
                self._take_on_image(node, position)
            else:
                self._take_on_tensor(node, position, self._form)
        except AttributeError as error:  # another version's class, or an attribute was deleted
            raise RunsInPythonError(f"it is not as known: {error}") from error

    def _take_on_image(self, node: _Node, position: int) -> None:
        steps, size = _image_steps(node, position, self._size)
        count = sum(map(_resolved_count, [*self._steps, *steps]))
        if count > _MAX_RESOLVED_STEPS:
            raise RunsInPythonError(f"{count} image operations", f"at most {_MAX_RESOLVED_STEPS}")
        self._steps += steps
        self._size = size

    def _take_on_tensor(self, node: _Node, position: int, form: TensorForm | None) -> None:
        if node.held is not None:
            raise RunsInPythonError("not native on tensors", _BEFORE_TENSORS)
        known, family = _known(node.transform)
        if self._is_erased:
            raise RunsInPythonError("not native after a RandomErasing")
        if form is not None and known.erases:
            step = lower_random_erasing(node.transform, family, form.dtype)
            self._steps.append({**step, "position": position})
            self._is_erased = True
            return
        if form is not None and not known.on_tensor:
            raise RunsInPythonError("not native on tensors", _BEFORE_TENSORS)
        self._probe = self._probe or TensorProbe()
        self._form = self._probe.apply(node.transform)

    def lowered(self, tail: tuple[Any, ...], stages: tuple[TransformStage, ...]) -> LoweredTransform:
        height, width = self._size or (None, None)
        form = self._form
        dtype = torch.uint8 if form is None else form.dtype
        return LoweredTransform(
            steps=tuple(self._steps),
            height=height,
            width=width,
            dtype=dtype,
            element_size=dtype.itemsize,
            table=None if form is None else form.table,
            sample="pil" if form is None else form.sample,
            is_interleaved=form is not None and form.is_interleaved,
            tail=tail,
            stages=stages,
        )


def _check_surroundings() -> None:
    """Refuse where torchvision would draw its random numbers in another type or on another device."""
    probe = torch.empty(0)
    if probe.dtype != torch.float32 or probe.device.type != "cpu":
        raise RunsInPythonError(f"torch's defaults are {probe.dtype} on {probe.device}", "torch.float32 on cpu")


def _known(transform: Any) -> tuple[NativeTransform, Family]:
    """What is known about a transform that is as torchvision made it."""
    found = native_transform(type(transform))
    if found is None:
        raise RunsInPythonError(*(_recognize.container_problem(transform) or ("not native yet", NATIVE_NAMES)))
    change = _recognize.change_of(transform, found[0].attributes)
    if change is not None:
        raise RunsInPythonError(change)
    return found


def _makes_tensor(node: _Node) -> bool:
    found = native_transform(type(node.transform))
    return found is not None and found[0].makes_tensor


def _image_steps(node: _Node, position: int, size: Size | None) -> tuple[list[Step], Size | None]:
    """The steps of a transform on PIL images of `size`, and the size after them."""
    if node.held is None:
        known, family = _known(node.transform)
        if known.makes_tensor:
            raise RunsInPythonError("not native in a RandomApply")
        if known.on_image is None:
            raise RunsInPythonError("not native on images", f"after {_TO_TENSOR}")
        replaced = _recognize.replaced_function(family)
        if replaced is not None:
            raise RunsInPythonError(f"{replaced} of torchvision's functions was replaced")
        lowered = known.on_image(node.transform, StageContext(family, size))
        steps = [{**step, "position": position} for step in lowered]
    else:
        steps = [_random_apply_step(node, node.held, position, size)]
    for step in steps:
        size = _geometry.size_after(step, size)
    return steps, size


def _random_apply_step(node: _Node, held: tuple[_Node, ...], position: int, size: Size | None) -> Step:
    inner: list[Step] = []
    inner_position = position + 1
    for member in held:
        try:
            steps, size = _image_steps(member, inner_position, size)
        except RunsInPythonError as error:
            name = _recognize.class_name(type(member.transform))
            raise RunsInPythonError(f"it holds {name}: {error}") from error
        inner += steps
        inner_position += member.count
    if not inner:
        raise RunsInPythonError("it holds nothing that changes an image")
    return {
        "kind": "random_apply",
        "position": position,
        "probability": probability(node.transform.p),
        "draws": _recognize.family_of(type(node.transform)),
        "steps": inner,
    }


def _resolved_count(step: Step) -> int:
    """How many image operations a step can come to."""
    if step["kind"] == "random_apply":
        return sum(map(_resolved_count, step["steps"]))
    if step["kind"] == "policy":
        return int(step.get("num_ops", 2 if step["rule"] == "auto_augment" else 1))
    return {"random_resized_crop": 2, "color_jitter": 4}.get(step["kind"], 1)
