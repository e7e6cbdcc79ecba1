"""Short ways to lower a transform in tests and to see where it was cut."""

from __future__ import annotations

from typing import Any

import torchvision_shim  # noqa: F401
from recipes import MEAN, STD  # noqa: F401 - for the importer
from torchvision import transforms as T
from torchvision.transforms import v2

from fastload.transforms._lowering import lower_transform as lowered

FAMILIES = {"v1": T, "v2": v2}
# torchvision before 0.20 has no RGB, and before 0.21 other names for the methods of a transform.
RGB = getattr(v2, "RGB", v2.Identity)
TRANSFORM, MAKE_PARAMS, CHECK_INPUTS = (
    ("transform", "make_params", "check_inputs")
    if hasattr(v2.Transform, "make_params")
    else ("_transform", "_get_params", "_check_inputs")
)


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
