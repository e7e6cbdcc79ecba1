"""Short ways to lower a transform in tests, to see where it was cut, and to run what it became."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torchvision_shim  # noqa: F401
from native_steps import make_placed_plan, native_draws
from PIL import Image
from recipes import MEAN, STD  # noqa: F401 - for the importer
from torchvision import transforms as T
from torchvision import tv_tensors
from torchvision.transforms import v2

from fastload import _core
from fastload.transforms._lowering import LoweredTransform
from fastload.transforms._lowering import lower_transform as lowered
from fastload.transforms._tensor_part import tensor_of

FAMILIES = {"v1": T, "v2": v2}
# torchvision before 0.20 has no RGB, and before 0.21 other names for the methods of a transform.
RGB = getattr(v2, "RGB", v2.Identity)
TRANSFORM, MAKE_PARAMS, CHECK_INPUTS = (
    ("transform", "make_params", "check_inputs")
    if hasattr(v2.Transform, "make_params")
    else ("_transform", "_get_params", "_check_inputs")
)


def changed(transform: Any, /, **attributes: Any) -> Any:
    """Returns the transform with these attributes, set on the object whatever its class does with them."""
    vars(transform).update(attributes)
    return transform


def without(transform: Any, name: str) -> Any:
    """Returns the transform without an attribute."""
    delattr(transform, name)
    return transform


def lowered_step(transform: object) -> Any:
    """Returns the first step of a native form; the test knows which one it is."""
    return lowered(transform).steps[0][1]


def is_native(transform: object) -> bool:
    result = lowered(transform)
    return not result.python_part and not any(stage.problem for stage in result.stages)


def problem_of(transform: Any, before: list[Any], after: list[Any]) -> str:
    """Returns the verdict's reason why the pipeline of these three is cut at `transform`.

    The Python part has to begin with the very object, and nothing before it may be in Python.
    """
    result = lowered(T.Compose([*before, transform, *after]))
    assert result.python_part == (transform, *after)
    problems = [stage.problem for stage in result.stages]
    assert problems[: len(before)] == [None] * len(before)
    assert problems[len(problems) - len(after) :] == [f"in Python, after position {len(before) + 1}"] * len(after)
    problem = problems[len(before)]
    assert problem is not None
    assert problem.startswith("runs in Python from here on (")
    assert problem.endswith(")")
    return problem[len("runs in Python from here on (") : -1]


def _native_plan(transform: LoweredTransform, **changes: Any) -> _core.TransformPlan:
    form = transform.form
    is_interleaved = form.sample == "pil" or form.is_interleaved
    layout = {"element_size": form.dtype.itemsize, "channels_last": is_interleaved, "table": form.table}
    return make_placed_plan(transform.steps, **layout | changes)


def plan_of(transform: Any, **changes: Any) -> _core.TransformPlan:
    """Makes the plan of a pipeline that is native to its end. `changes` are arguments of make_placed_plan."""
    native = lowered(transform)
    assert not native.python_part, native.stages
    return _native_plan(native, **changes)


def run_lowered(transform: LoweredTransform, image: Image.Image) -> Any:
    """Runs the native steps on an RGB image with the draws of torch's generator, and the Python part on the result.

    Raises ValueError: The steps cannot be applied to the image.
    """
    form = transform.form
    plan = _native_plan(transform)
    decoder = _core.SampleDecoder(max_file_bytes=0, max_pixels=1 << 40, native_jpeg=True)
    state, draws = torch.get_rng_state(), native_draws(0)
    draws.load(state.numpy())
    made = decoder.run_pixels(image.tobytes(), image.width, image.height, plan, draws)
    if isinstance(made, dict):
        raise ValueError(made["detail"])
    draws.store(state.numpy())
    torch.set_rng_state(state)
    sample: Any = Image.fromarray(made) if form.sample == "pil" else tensor_of(made, form, tv_tensors.Image)
    if transform.size is not None:
        assert ((sample.height, sample.width) if form.sample == "pil" else sample.shape[1:]) == transform.size
    for python_transform in transform.python_part:
        sample = python_transform(sample)
    return sample


def random_image(width: int, height: int, seed: int = 3) -> Image.Image:
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8))


def assert_runs_as_torchvision(transform: Any, image: Image.Image, num_runs: int = 1) -> list[Any]:
    """Asserts that the lowered pipeline gives the pipeline's own samples, errors and draws; returns the samples."""

    def outcomes(run: Callable[[Image.Image], Any]) -> tuple[list[Any], torch.Tensor]:
        torch.manual_seed(17)
        try:
            return [run(image.copy()) for _ in range(num_runs)], torch.get_rng_state()
        except Exception as error:  # noqa: BLE001 - whatever it is, both have to raise it
            return [type(error)], torch.empty(0)

    result = lowered(transform)
    theirs, their_state = outcomes(transform)
    mine, state = outcomes(lambda given: run_lowered(result, given))
    for found, expected in zip(mine, theirs, strict=True):
        assert_same_sample(found, expected)
    assert torch.equal(state, their_state)
    return mine


def assert_same_sample(actual: Any, expected: Any) -> None:
    assert type(actual) is type(expected)
    if isinstance(expected, torch.Tensor):
        assert (actual.dtype, actual.shape, actual.stride()) == (expected.dtype, expected.shape, expected.stride())
        assert torch.equal(*(tensor.flatten().view(torch.uint8) for tensor in (actual, expected)))
    elif isinstance(expected, Image.Image):
        assert (actual.mode, actual.size) == (expected.mode, expected.size)
        assert actual.tobytes() == expected.tobytes()
    else:
        assert actual is expected
