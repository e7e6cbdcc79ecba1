"""torchvision's pipelines, run natively if they are called with a deferred image.

Note [native pipelines]
The call methods of torchvision's containers are replaced, and nothing is stored on the user's objects, which may be
copied and pickled at any time. A pipeline is cut into parts: each run of transforms that native code knows is one
native call, and the others are called as before. Any other argument, and any change of a pipeline since it was cut,
makes the call go to torchvision's own method.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import weakref
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from PIL.JpegImagePlugin import JpegImageFile

from fastload import _native
from fastload._images._batch_rows import rows_of_thread
from fastload._images._deferred import Deferred, image_of, pillow_obeys
from fastload._images._gray import first_channel, mode_of_gray, rgb_bytes
from fastload._images._opened import load_deferred, marks
from fastload._images._source import (
    ImagePixels,
    SharedPixels,
    Source,
    Steps,
    StepsFailedError,
    resize_order_of_pillow,
)
from fastload._images._tally import native_tally
from fastload._pillow import _pillow
from fastload._pillow._decode_image import thread_decoder
from fastload._process._interrupts import is_interrupt
from fastload._process._originals import Replacements, original_of
from fastload._workers._native_draws import (
    UnknownDrawsError,
    thread_draws,
    thread_generator,
    uniform_rule,
    with_torch_exp,
)
from fastload.transforms import _recognize
from fastload.transforms._native_steps import NativeSteps, check_surroundings, native_runs
from fastload.transforms._nodes import Node, expand, held_by
from fastload.transforms._stage import RunsInPythonError
from fastload.transforms._tensor_part import tensor_of
from fastload.transforms._user_code import code_of

_Call = Callable[..., Any]


class _Segment:
    """A run of transforms that native code knows, starting from an image."""

    def __init__(self, nodes: list[Node], native: NativeSteps) -> None:
        self.transforms = [node.transform for node in nodes]
        self._form = native.form
        self._makes_tensors = native.form.sample != "pil"
        self._gray_form = dataclasses.replace(native.form, is_interleaved=True)  # torchvision's strides
        self._steps = with_torch_exp(native.steps)
        self._plan = self._new_plan(())
        if self._plan.is_random:
            uniform_rule()  # raises if torch's draws are unknown
        self._image_type = _recognize.image_type()
        self._gray_becomes = mode_of_gray(nodes)  # None if it ends in an RGB image again, which passes on its mode
        if self._gray_becomes == "RGB" and not self._makes_tensors:
            self._gray_becomes = None

    def _new_plan(self, before: Steps) -> _native.TransformPlan:
        """Returns the plan of these steps after those that the image remembers."""
        is_image = self._form.sample == "pil"
        number = len(before)
        return _native.TransformPlan(
            [*enumerate(before), *((number + position, step) for position, step in self._steps)],
            element_size=self._form.dtype.itemsize,
            channels_last=is_image or self._form.is_interleaved,
            table=self._form.table,
            resize_order=resize_order_of_pillow(),
            allow_variable_size=True,
        )

    def run(self, image: Any) -> Any:
        made = self.run_natively(image)
        if made is not None:
            return made
        for transform in self.transforms:
            image = transform(image)
        return image

    def run_natively(self, image: Any) -> Any:
        mode = _mode_of(image)
        becomes = self._mode_after(mode)
        if becomes is None or (recipe := _recipe_of(image)) is None:
            return None
        is_gray = becomes == "L"
        pixels = self._pixels_of(*recipe, is_gray=is_gray)
        if pixels is None or self._makes_tensors:
            return None if pixels is None else self._tensor_of(pixels, is_gray)
        made = image_of(pixels, image)
        if not thread_decoder().keeps_info:
            made.info = {}
        return made

    def makes_tensors_of(self, mode: str) -> bool:
        return self._makes_tensors and self._mode_after(mode) is not None

    def _mode_after(self, mode: str | None) -> str | None:
        """Returns the mode after these transforms; None if they cannot run natively on `mode`."""
        return self._gray_becomes if mode == "L" else mode

    def tensor_from(self, source: ImagePixels | SharedPixels) -> torch.Tensor | None:
        """Returns the tensor for these pixels if makes_tensors_of(source.mode); None if torchvision has to make it."""
        is_gray = self._mode_after(source.mode) == "L"
        pixels = self._pixels_of(source, (), is_gray=is_gray)
        return None if pixels is None else self._tensor_of(pixels, is_gray)

    def _pixels_of(self, source: Source, steps: Steps, *, is_gray: bool) -> NDArray[np.uint8] | None:
        """Returns pixels in SampleDecoder's form; None if torchvision has to report an error."""
        rows = rows_of_thread() if self._makes_tensors and not is_gray else None
        try:
            plan = self._new_plan(steps) if steps else self._plan
            draws = thread_draws() if plan.is_random else None
            generator = thread_generator()
            begin_draws = None if draws is None else functools.partial(draws.begin, generator)
            pixels = source.run(plan, begin_draws, None if rows is None else rows.place())
        except (StepsFailedError, MemoryError, ValueError):
            return None
        if draws is not None:
            draws.end(generator)
        if rows is not None:
            rows.note(pixels.nbytes)
        return pixels

    def _tensor_of(self, pixels: NDArray[np.uint8], is_gray: bool) -> torch.Tensor:
        with torch._C.DisableTorchFunction():  # a mode that watches for draws would see each call here
            if not is_gray:
                return tensor_of(pixels, self._form, self._image_type)
            form = self._form
            channel = first_channel(pixels, form.dtype.itemsize, is_interleaved=form.is_interleaved)
            return tensor_of(channel, self._gray_form, self._image_type)


def _recipe_of(image: Any) -> tuple[Source, Steps] | None:
    """Returns the source and steps of an RGB or gray image; None if native code cannot begin with it."""
    held = vars(image).get("_im")
    if held is None and marks.has(image):
        held = load_deferred(image)
    if type(held) is Deferred and held.recipe is not None:
        return held.recipe
    # Pillow's own memory: its pixels are copied, which costs less than the work on them.
    return (ImagePixels(rgb_bytes(image), image.size), ()) if type(image) is Image.Image and min(image.size) else None


def _mode_of(image: Any) -> str | None:
    """Returns the mode of an RGB or gray image of Pillow's own class; None for anything else."""
    mode = image.mode if type(image) in (Image.Image, JpegImageFile) else None
    return mode if mode in ("RGB", "L") else None


class _Pipeline:
    """Transforms that are called one after another, cut into parts.

    Attributes:
        is_native: Whether one of the parts is native.
        whole: The only part, if it is native.
    """

    def __init__(self, transforms: Sequence[Any]) -> None:
        self._parts: list[Any] = []
        # Weak references: _plans keeps this object, which would keep the transforms alive.
        self._seen: list[tuple[weakref.ref[Any], type, dict[str, Any]]] = []
        self._users_code: list[tuple[weakref.ref[Any], Any]] = []
        self.is_native = False
        self.whole: _Segment | None = None
        nodes = [node for transform in transforms for node in expand(transform)]
        for run, native in native_runs(nodes):
            if native is None:
                self._parts.append(run[0].transform)
                continue
            segment = _Segment(run, native)
            self.whole = segment if len(run) == len(nodes) else None
            self._parts.append(segment.run)
            self._look_at_nodes(run)
            self.is_native = True
        self._look_at_containers(transforms)

    def _look_at(self, transform: Any) -> None:
        """Records the object's current state, and the user's own code that a call of it runs."""
        seen = weakref.ref(transform)
        self._seen.append((seen, type(transform), _state_of(transform)))
        if not type(transform).__module__.startswith(("torchvision.", "torch.")):
            self._users_code.append((seen, code_of(transform)))

    def _look_at_nodes(self, nodes: Sequence[Node]) -> None:
        for node in nodes:
            self._look_at(node.transform)
            self._look_at_nodes(node.held or ())

    def _look_at_containers(self, transforms: Sequence[Any]) -> None:
        for transform in transforms:
            members = held_by(transform)
            if members is not None:
                self._look_at(transform)
                self._look_at_containers(members)

    def is_current(self) -> bool:
        """Returns whether nothing has changed about the native parts."""
        if _recognize.has_global_hooks():
            return False
        try:
            for reference, kind, state in self._seen:
                seen = reference()
                if type(seen) is not kind or vars(seen) != state:
                    return False
            return all(code_of(reference()) is code for reference, code in self._users_code)
        except Exception as error:
            if is_interrupt(error):
                raise
            return False  # raised by the == of an attribute, which must have changed

    def run(self, image: Any) -> Any:
        if self.whole is not None:
            return self.whole.run(image)
        for part in self._parts:
            image = part(image)
        return image


def _state_of(transform: Any) -> dict[str, Any]:
    """Returns the attributes, with copies of those that may be changed in place."""
    return {
        name: copy.copy(value) if isinstance(value, (list, dict, set)) else value
        for name, value in vars(transform).items()
    }


class _Plans:
    """The pipelines that were called, by identity."""

    def __init__(self) -> None:
        self._plans: dict[int, tuple[weakref.ref[Any], _Pipeline | None]] = {}

    def of(self, container: Any) -> _Pipeline | None:
        """Returns the pipeline of `container`; None if nothing of it is native."""
        number, plans = id(container), self._plans
        reference, pipeline = plans.get(number, (None, None))
        if reference is None or reference() is not container or (pipeline is not None and not pipeline.is_current()):
            pipeline = _planned([container])
            plans[number] = (weakref.ref(container, functools.partial(plans.pop, number)), pipeline)
        return pipeline


def _planned(transforms: Sequence[Any]) -> _Pipeline | None:
    try:
        pipeline = _Pipeline(transforms)
    except (RunsInPythonError, RecursionError, UnknownDrawsError):
        return None
    return pipeline if pipeline.is_native and pipeline.is_current() else None


_plans = _Plans()


class PythonPart:
    """A sequence of the user's transforms in calling order, run natively if they are called with an image."""

    def __init__(self, transforms: Sequence[Any]) -> None:
        self._transforms = tuple(transforms)
        self._is_cut = False
        self._pipeline: _Pipeline | None = None

    def run(self, image: Any) -> Any:
        pipeline = self._current() if _is_native_input(image) else None
        if pipeline is not None:
            return pipeline.run(image)
        for transform in self._transforms:
            image = transform(image)
        return image

    def tensor_maker(self, mode: str) -> Callable[[ImagePixels | SharedPixels], torch.Tensor | None] | None:
        """Returns a function from pixels of this mode to a tensor; None unless all transforms are native and make one.

        The function returns None if Python has to make the tensor.
        """
        pipeline = self._current()
        whole = None if pipeline is None else pipeline.whole
        return whole.tensor_from if whole is not None and whole.makes_tensors_of(mode) else None

    def _current(self) -> _Pipeline | None:
        if not self._is_cut or (self._pipeline is not None and not self._pipeline.is_current()):
            self._pipeline = _planned(self._transforms)
            self._is_cut = True
        return self._pipeline


def _is_for(container: Any, image: Any) -> _Pipeline | None:
    """Returns the pipeline of `container` if it is to run on `image`."""
    return _plans.of(container) if _is_native_input(image) else None


def _is_native_input(image: Any) -> bool:
    return _mode_of(image) is not None and runs_natively()


def runs_natively() -> bool:
    """Returns whether pipelines that this thread calls now are native where they can be."""
    if native_tally() is None or _pillow.is_reference() or not pillow_obeys():
        return False
    try:
        check_surroundings()
    except RunsInPythonError:
        return False
    return True


def _call_of_one(torchvisions: _Call) -> _Call:
    """Returns a replacement for Compose.__call__ of v1."""

    def __call__(self: Any, img: Any) -> Any:
        pipeline = _is_for(self, img)
        return torchvisions(self, img) if pipeline is None else pipeline.run(img)

    return __call__


def _call_of_many(torchvisions: _Call) -> _Call:
    """Returns a replacement for Compose.forward of v2."""

    def forward(self: Any, *inputs: Any) -> Any:
        pipeline = _is_for(self, inputs[0]) if len(inputs) == 1 else None
        return torchvisions(self, *inputs) if pipeline is None else pipeline.run(inputs[0])

    return forward


def _call_of_preset(torchvisions: _Call) -> _Call:
    """Returns a replacement for a preset's forward, which is native as a whole or not at all."""

    def run_natively(preset: Any, img: Any) -> Any:
        pipeline = _is_for(preset, img)
        return None if pipeline is None or pipeline.whole is None else pipeline.whole.run_natively(img)

    def forward(self: Any, img: Any) -> Any:
        made = run_natively(self, img)
        return torchvisions(self, img) if made is None else made

    # torch.jit.script compiles torchvision's own forward, but looks its names up in the globals of the replacement.
    return FunctionType(forward.__code__, torchvisions.__globals__, closure=forward.__closure__)


def _tensor_function(torchvisions: _Call, kind: type) -> _Call:
    """Returns a replacement for a function that does what a transform of `kind` does."""

    @functools.cache
    def segment() -> _Segment | None:
        nodes, native = next(native_runs(expand(kind())))
        return None if native is None else _Segment(nodes, native)

    def function(pic: Any) -> Any:
        native = segment() if _is_native_input(pic) else None
        made = None if native is None else native.run_natively(pic)
        return torchvisions(pic) if made is None else made

    return function


# Key: the name of torchvision's class, and whether it is a torch module.
_CALLS = {
    ("Compose", False): _call_of_one,
    ("Compose", True): _call_of_many,
    ("ImageClassification", True): _call_of_preset,
}


class PipelineCalls(Replacements):
    """The replacement of torchvision's call methods, if torchvision is loaded."""

    def exchange(self) -> None:
        """Replaces the methods; skips those that are replaced already, or are not torchvision's own."""
        for owner in _recognize.pipeline_types():
            is_module = issubclass(owner, torch.nn.Module)
            self._exchange(owner, "forward" if is_module else "__call__", _CALLS[owner.__name__, is_module])
        for module, name, kind in _recognize.tensor_functions():
            self._exchange(module, name, functools.partial(_tensor_function, kind=kind))

    def _exchange(self, owner: Any, name: str, make: Callable[[_Call], _Call]) -> None:
        found = vars(owner).get(name)
        if original_of(found) is found and _recognize.is_torchvisions(found):
            self.replace(owner, name, make)
