"""Objects with any attributes or parts, and a worker's copies of them."""

from __future__ import annotations

from typing import Any, NamedTuple

from fastload._workers._objects import OwnObjects, copies


class Box:
    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)


class Point(NamedTuple):
    x: Any
    y: Any


def own(root: Any) -> OwnObjects:
    """Returns all that a worker has of its own if `root` is the dataset."""
    return copies((root, None, None), 1)[0]


def copy_of(root: Any) -> Any:
    return own(root).roots[0]
