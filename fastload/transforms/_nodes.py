"""A user's pipeline as a list of transforms, in calling order; the one place where an object is asked who it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fastload.transforms import _recognize
from fastload.transforms._catalog import NATIVE_NAMES, NativeTransform, native_transform, users_transform
from fastload.transforms._stage import Family, RunsInPythonError
from fastload.transforms._user_code import pipeline_in


@dataclass(frozen=True)
class Node:
    """A transform of the flattened pipeline.

    Attributes:
        transform: The user's object.
        family: Of its class, where torchvision has exactly that; "v1" for an object of the user's that is known; else
            None.
        known: What is known about its class, also where `problem` says that the object is another; else None.
        problem: Why it has no native form, whatever is before it; None where it may have one.
        held: What a plain RandomApply applies; None for anything else.
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
        """What is known about a transform that is as torchvision made it, or RunsInPythonError."""
        if self.problem is not None:
            raise RunsInPythonError(self.problem)
        assert self.known is not None
        assert self.family is not None
        return self.known, self.family


def expand(transform: Any) -> list[Node]:
    """The transforms in calling order. A container that is anything but plain is one of them."""
    kind = type(transform)
    family = _recognize.family_of(kind)
    container = _recognize.container_name(kind, family)
    if container is None:
        return _expand_single(transform, family)
    try:
        members = _recognize.members_of(transform, container)
    except RunsInPythonError as error:
        return [Node(transform, family, problem=str(error))]
    nodes = [node for member in members for node in expand(member)]
    return [Node(transform, family, held=tuple(nodes))] if container == "RandomApply" else nodes


def _expand_single(transform: Any, family: Family | None) -> list[Node]:
    known = None if family is None else native_transform(type(transform), family)
    if known is not None:
        return [Node(transform, family, known, _problem(transform, known))]
    inner = pipeline_in(transform) if family is None else None
    if inner is not None:
        return expand(inner)
    users = users_transform(transform)
    return [Node(transform, family, None, _problem(transform, None)) if users is None else Node(transform, "v1", users)]


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
    """What a container that expand() looks into holds; None for anything else."""
    family = _recognize.family_of(type(transform))
    inner = pipeline_in(transform) if family is None else None
    if inner is not None:
        return [inner]
    container = _recognize.container_name(type(transform), family)
    try:
        return None if container is None else _recognize.members_of(transform, container)
    except RunsInPythonError:
        return None


def taken_apart(transform: Any) -> list[Any] | None:
    """What an object that is no container does one after the other: a preset's parts, or a user's class's pipeline.

    None where it is neither, or not as known.
    """
    kind = type(transform)
    family = _recognize.family_of(kind)
    if family is None:
        inner = pipeline_in(transform)
        return None if inner is None else [inner]
    known = native_transform(kind, family)
    if known is None or known.parts is None or _problem(transform, known) is not None:
        return None
    try:
        return known.parts(transform)
    except (AttributeError, TypeError, ValueError):
        return None
