"""A user's pipeline as a list of transforms, in calling order; the one place where objects are identified."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

from fastload.transforms import _recognize
from fastload.transforms._catalog import CATALOG, NATIVE_NAMES, USERS, NativeTransform
from fastload.transforms._stage import Family, RunsInPythonError
from fastload.transforms._user_code import pipeline_in, role_of


@dataclass(frozen=True)
class Node:
    """A transform of the flattened pipeline.

    Attributes:
        transform: The user's object.
        family: Family of its class, if torchvision has exactly that class; "v1" for a known object of the user's; else
            None.
        known: Known properties of its class, even if `problem` says that the object differs; None if there are none.
        problem: Why it has no native form, whatever is before it; None if it may have one.
        held: The contents of a plain RandomApply; None for anything else.
    """

    transform: Any
    family: Family | None = None
    known: NativeTransform | None = None
    problem: str | None = None
    held: tuple[Node, ...] | None = None

    @property
    def count(self) -> int:
        return 1 + sum(node.count for node in self.held or ())

    @property
    def makes_tensor(self) -> bool:
        return self.known is not None and self.known.makes_tensor

    def plain(self) -> tuple[NativeTransform, Family]:
        """Returns what is known about an unchanged torchvision transform. Raises RunsInPythonError for any other."""
        if self.problem is not None:
            raise RunsInPythonError(self.problem)
        assert self.known is not None
        assert self.family is not None
        return self.known, self.family


def expand(transform: Any) -> list[Node]:
    """Lists the transforms in calling order. A container that is not plain counts as one transform."""
    family = _recognize.family_of(type(transform))
    try:
        members = _recognize.members_of(transform, family)
    except RunsInPythonError as error:
        return [Node(transform, family, problem=str(error))]
    if members is None:
        return _expand_single(transform, family)
    nodes = [node for member in members for node in expand(member)]
    return [Node(transform, family, held=tuple(nodes))] if type(transform).__name__ == "RandomApply" else nodes


def _expand_single(transform: Any, family: Family | None) -> list[Node]:
    if (known := _known(transform, family)) is not None:
        return [Node(transform, family, known, _problem(transform, known))]
    if (inner := pipeline_in(transform)) is not None:
        return expand(inner)
    users = USERS.get(role_of(transform))
    return [Node(transform, family, None, _problem(transform, None)) if users is None else Node(transform, "v1", users)]


def _known(transform: Any, family: Family | None) -> NativeTransform | None:
    return None if family is None else CATALOG[family].get(type(transform).__name__)


def _problem(transform: Any, known: NativeTransform | None) -> str | None:
    if known is None and not type(transform).__module__.startswith("torchvision."):
        return "it is code of your own"
    if known is None:
        return str(RunsInPythonError("not native yet", NATIVE_NAMES))
    try:
        return _recognize.change_of(transform, known.attributes)
    except AttributeError as error:  # another version's class, or an attribute was deleted
        return f"it is not as known: {error}"


def held_by(transform: Any) -> list[Any] | None:
    """Returns the contents of a container that expand() looks into; None for anything else."""
    if (inner := pipeline_in(transform)) is not None:
        return [inner]
    with contextlib.suppress(RunsInPythonError):
        return _recognize.members_of(transform, _recognize.family_of(type(transform)))
    return None


def taken_apart(transform: Any) -> list[Any] | None:
    """Returns the parts of an object that is not a container: a preset's parts, or the pipeline in a user's class.

    Returns None if it is neither, or is not as known.
    """
    if (inner := pipeline_in(transform)) is not None:
        return [inner]
    known = _known(transform, _recognize.family_of(type(transform)))
    if known is None or known.parts is None or _problem(transform, known) is not None:
        return None
    with contextlib.suppress(AttributeError, TypeError, ValueError):
        return known.parts(transform)
    return None
