"""The native part of a pipeline: the steps and the table, to which transforms add until one has no native form."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from fastload import _native
from fastload._pillow._originals import changing
from fastload._process._originals import Originals, Owner
from fastload.transforms import _recognize
from fastload.transforms._nodes import Node, expand
from fastload.transforms._parameters import probability
from fastload.transforms._stage import PlacedStep, RunsInPythonError, Size, StageContext
from fastload.transforms._tensor_part import SampleForm, TensorProbe, lower_random_erasing

_TO_TENSOR = "PILToTensor, ToTensor or v2.ToImage"
_BEFORE_TENSORS = f"before {_TO_TENSOR}"
_MAX_OPERATIONS = _native.MAX_OPERATIONS - 1  # a RandomErasing may follow


class NativeSteps:
    """The native part as it grows: its steps, and the size and form of its results as in LoweredTransform."""

    def __init__(self) -> None:
        self.steps: list[PlacedStep] = []
        self.size: Size | None = None
        self.form = SampleForm()
        self._probe: TensorProbe | None = None
        self._is_erased = False

    def take(self, node: Node, position: int) -> None:
        """Adds a transform, or raises RunsInPythonError and changes nothing."""
        check_surroundings()
        try:
            if node.known is not None and node.known.parts is not None:
                self._take_parts(node, node.known.parts, position)
            elif self.form.sample == "pil" and not node.makes_tensor:
                self._take_on_image(node, position)
            else:
                self._take_on_tensor(node, position)
        except AttributeError as error:  # another version's class, or an attribute was deleted
            raise RunsInPythonError(f"it is not as known: {error}") from error

    def _take_parts(self, node: Node, parts: Callable[[Any], list[Any]], position: int) -> None:
        node.plain()
        try:
            transforms = parts(node.transform)
        except (TypeError, ValueError) as error:
            raise RunsInPythonError(f"it is not as known: {error}") from error
        grown = copy.copy(self)
        grown.steps = [*self.steps]
        for part in (part for transform in transforms for part in expand(transform)):
            try:
                grown.take(part, position)
            except RunsInPythonError as error:
                raise RunsInPythonError(f"its {_recognize.class_name(type(part.transform))}: {error}") from error
        vars(self).update(vars(grown))

    def _take_on_image(self, node: Node, position: int) -> None:
        steps, size = _image_steps(node, position, self.size)
        count = sum(step.max_operations for _, step in [*self.steps, *steps])
        if count > _MAX_OPERATIONS:
            raise RunsInPythonError(f"{count} image operations", f"at most {_MAX_OPERATIONS}")
        self.steps += steps
        self.size = size

    def _take_on_tensor(self, node: Node, position: int) -> None:
        if node.held is not None:
            raise RunsInPythonError("not native on tensors", _BEFORE_TENSORS)
        known, family = node.plain()
        if self._is_erased and not known.keeps_elements:
            raise RunsInPythonError("not native after a RandomErasing")
        if self._probe is not None and known.erases:
            self.steps.append((position, lower_random_erasing(node.transform, family, self.form.dtype)))
            self._is_erased = True
            return
        if self._probe is not None and not known.on_tensor:
            raise RunsInPythonError("not native on tensors", _BEFORE_TENSORS)
        self._probe = self._probe or TensorProbe()
        self.form = self._probe.apply(node.transform)


def native_runs(nodes: Sequence[Node]) -> Iterator[tuple[list[Node], NativeSteps | None]]:
    """Cuts `nodes` into runs that native code can do from an image on, and single others, with None."""
    rest = list(nodes)
    while rest:
        native, count = NativeSteps(), 0
        with contextlib.suppress(RunsInPythonError):
            for node in rest:
                native.take(node, count)
                count += 1
        is_native = bool(native.steps) or native.form.sample != "pil"  # otherwise it does nothing
        count = count if is_native else 1
        yield rest[:count], native if is_native else None
        rest = rest[count:]


# The functions with which torchvision's classes draw random numbers.
_DRAWING = Originals(
    [
        Owner("torch", torch, ("empty", "exp", "log", "rand", "randint", "randperm", "tensor")),
        Owner("torch.Tensor", torch.Tensor, ("item", "normal_", "uniform_")),
    ],
    lambda owner, name, found: found is getattr(_TORCHS[owner], name),
)
_TORCHS: dict[Any, Any] = {torch: torch._C._VariableFunctions, torch.Tensor: torch._C.TensorBase}


def check_surroundings() -> None:
    """Raises RunsInPythonError if torchvision would not call the original functions of torch and Pillow, or would draw
    its random numbers in another type or on another device.
    """
    replaced = _DRAWING.replaced() or changing.replaced()
    if replaced is not None:
        raise RunsInPythonError(f"{replaced} was replaced")
    if _makes_floats_on_cpu():
        return
    probe = torch.empty(0)
    if probe.dtype != torch.float32 or probe.device.type != "cpu":
        raise RunsInPythonError(f"torch's defaults are {probe.dtype} on {probe.device}", "torch.float32 on cpu")


def _makes_floats_on_cpu() -> bool:
    """Returns whether torch.empty() would surely make float32 on the CPU; False if it has to be tried.

    A tried tensor would release the GIL at its end.
    """
    is_plain = torch._C._len_torch_function_stack() == 0  # a default device is a mode
    return is_plain and torch.get_default_dtype() is torch.float32 and torch._C._get_default_device() == "cpu"


def _image_steps(node: Node, position: int, size: Size | None) -> tuple[list[PlacedStep], Size | None]:
    """Returns the steps of a transform on PIL images of `size`, and the size after them."""
    lowered = _steps_of(node, size) if node.held is None else [_random_apply_step(node, node.held, position, size)]
    for step in lowered:
        size = step.size_after(size)
    return [(position, step) for step in lowered], size


def _steps_of(node: Node, size: Size | None) -> list[_native.Step]:
    known, family = node.plain()
    if known.makes_tensor:
        raise RunsInPythonError("not native in a RandomApply")
    if known.on_image is None:
        raise RunsInPythonError("not native on images", f"after {_TO_TENSOR}")
    replaced = _recognize.replaced_function(family)
    if replaced is not None:
        raise RunsInPythonError(f"{replaced} of torchvision's functions was replaced")
    try:
        return known.on_image(node.transform, StageContext(family, size))
    except ValueError as error:  # an argument that the native step does not take
        raise RunsInPythonError(str(error)) from error


def _random_apply_step(node: Node, held: tuple[Node, ...], position: int, size: Size | None) -> _native.Step:
    inner: list[PlacedStep] = []
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
    assert node.family is not None
    return _native.RandomApply(probability=probability(node.transform.p), family=node.family, steps=inner)
