"""Several views of one image."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any


class MultiView:
    """Makes several views of each image, which is read and decoded once: multi-crop and contrastive training.

    If all of its transforms are native, the views are, too. It is a transform like any other, and works with torch's
    DataLoader as well.

    Args:
        transforms: Transforms that are called with the PIL image, and draw their random numbers, in this order.

    Returns:
        From a call: the list of the transforms' results. A loader's batch is [[batch of view 1, batch of view 2, ...],
        labels].

    Raises:
        ValueError: `transforms` is empty.
        TypeError: `transforms` is not a list of transforms.

    Example:
        >>> views = fastload.MultiView([transform, transform])
        >>> loader = fastload.DataLoader(fastload.ImageFolder("train", views), batch_size=4, num_workers=2)
        >>> [first, second], labels = next(iter(loader))
        >>> first.shape == second.shape == torch.Size([4, 3, 32, 32])
        True
    """

    def __init__(self, transforms: Sequence[Callable[[Any], Any]]) -> None:
        if isinstance(transforms, (str, bytes)) or not isinstance(transforms, Iterable):
            raise TypeError(f"transforms must be a list of transforms, got {transforms!r}")
        self.transforms = list(transforms)
        for transform in self.transforms:
            if not callable(transform):
                raise TypeError(f"transforms must hold callables, got {transform!r}")
        if not self.transforms:
            raise ValueError("transforms must hold at least one transform, got none")

    def __call__(self, image: Any) -> list[Any]:
        return [transform(image) for transform in self.transforms]

    def __repr__(self) -> str:
        return f"MultiView({self.transforms!r})"


_own_call = MultiView.__call__


def views_of(transform: object) -> list[Callable[[Any], Any]] | None:
    """Returns the transforms of a MultiView if nothing about it was overridden; else None."""
    is_plain = type(transform) is MultiView and vars(transform).keys() == {"transforms"}
    if not is_plain or MultiView.__call__ is not _own_call:
        return None
    transforms = transform.transforms  # type: ignore[attr-defined]
    return list(transforms) if type(transforms) in (list, tuple) and transforms else None
