"""Runs the same program on torch's DataLoader and on fastload's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch.utils.data

import fastload

LOADERS = (torch.utils.data.DataLoader, fastload.DataLoader)


def outcome(action: Callable[[], Any]) -> tuple[str, Any]:
    """Returns ("returned", value) or ("raised", exact type of the exception)."""
    try:
        return "returned", action()
    except Exception as error:  # noqa: BLE001 - what is raised is what is compared
        return "raised", type(error)


def on_both(action: Callable[[Any], Any]) -> tuple[Any, Any]:
    """Returns the results of `action` for torch's class and for fastload's."""
    theirs, mine = map(action, LOADERS)
    return theirs, mine


def labels_of(batches: Any) -> list[list[int]]:
    return [labels.tolist() for _, labels in batches]


def negated(image: torch.Tensor) -> torch.Tensor:
    """Negates the image: a step that only Python knows."""
    return -image
