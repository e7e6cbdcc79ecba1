"""A user's pipeline as a flat list of transforms, in calling order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fastload.transforms import _recognize


@dataclass(frozen=True)
class Node:
    """A transform of the flattened pipeline; `held` is what a RandomApply applies, None for anything else."""

    transform: Any
    held: tuple[Node, ...] | None = None

    @property
    def count(self) -> int:
        return 1 + sum(node.count for node in self.held or ())


def expand(transform: Any) -> list[Node]:
    """The transforms in calling order. A container that is anything but plain is one of them."""
    members = _recognize.members_of(transform)
    if members is not None:
        return [node for member in members for node in expand(member)]
    applied = _recognize.applied_by(transform)
    if applied is None:
        return [Node(transform)]
    return [Node(transform, tuple(node for member in applied for node in expand(member)))]
