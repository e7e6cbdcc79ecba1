"""Native steps of the transforms that change an image's size or move its pixels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastload import _native
from fastload.transforms import _parameters
from fastload.transforms._stage import RunsInPythonError, Size, StageContext


def lower_random_resized_crop(transform: Any, context: StageContext) -> list[_native.Step]:
    height, width = _parameters.height_and_width(transform.size)
    scale = _parameters.interval(transform.scale, "scale")
    ratio = _parameters.interval(transform.ratio, "ratio")
    if scale[0] < 0 or ratio[0] <= 0:
        raise RunsInPythonError(f"scale {scale} or ratio {ratio} is not positive")
    if ratio[0] >= 2 or ratio[1] <= 0.5:  # half of a side of one pixel is rounded to an empty crop
        raise RunsInPythonError(f"ratio {ratio} may leave nothing of a narrow image", "first < 2 and second > 0.5")
    return [
        _native.RandomResizedCrop(
            height=height,
            width=width,
            scale=scale,
            ratio=ratio,
            log_ratio=_parameters.log_ratio(transform, context.family),
            interpolation=_parameters.interpolation(transform.interpolation, context.family),
        )
    ]


def lower_resize(transform: Any, context: StageContext) -> list[_native.Step]:
    interpolation = _parameters.interpolation(transform.interpolation, context.family)
    if transform.size is None and context.family == "v2":
        height, width = _resized_longer_side(context.size, transform.max_size)
        return [_native.Resize(height=height, width=width, interpolation=interpolation)]
    sizes = _parameters.sizes(transform.size)
    max_size = transform.max_size
    if len(sizes) == 1:
        if max_size is not None and (_parameters.side(max_size) <= sizes[0]):
            raise RunsInPythonError(f"max_size {max_size} is not greater than size {sizes[0]}")
        limit = None if max_size is None else _parameters.side(max_size)
        step = _native.ResizeShorterSide(size=sizes[0], max_size=limit, interpolation=interpolation)
        _check_sides(sorted(step.size_after(context.size) or ()))
        return [step]
    if max_size is not None:
        raise RunsInPythonError(f"max_size {max_size} together with height and width")
    return [_native.Resize(height=sizes[0], width=sizes[1], interpolation=interpolation)]


def lower_center_crop(transform: Any, context: StageContext) -> list[_native.Step]:
    both = _parameters.sizes(transform.size)  # one side: a square
    return [_native.CenterCrop(height=both[0], width=both[-1])]


def lower_pad(transform: Any, context: StageContext) -> list[_native.Step]:
    paddings = _parameters.paddings(transform.padding)
    fill = _parameters.fill_of(transform, context.family)
    return [_pad_step(paddings, fill, _parameters.padding_mode(transform.padding_mode), context)]


def lower_random_crop(transform: Any, context: StageContext) -> list[_native.Step]:
    height, width = _parameters.height_and_width(transform.size)
    fill = _parameters.fill_of(transform, context.family)
    mode = _parameters.padding_mode(transform.padding_mode)
    pad_if_needed = _parameters.flag(transform.pad_if_needed, "pad_if_needed")
    paddings = _own_padding(transform.padding, context)
    pads = [] if paddings is None else [_pad_step(paddings, fill, mode, context)]
    if pads and pad_if_needed and context.family == "v2" and mode in ("reflect", "symmetric"):
        # v2 adds up both paddings and mirrors once, which is not the mirror image of a mirror image.
        raise RunsInPythonError(f"padding and pad_if_needed together with padding_mode {mode}")
    crop = _native.RandomCrop(
        height=height,
        width=width,
        pad_if_needed=pad_if_needed,
        padding_mode=mode,
        fill=fill,
        family=context.family,
    )
    return [*pads, crop]


def _own_padding(padding: object, context: StageContext) -> tuple[int, int, int, int] | None:
    """Returns (left, top, right, bottom) of a RandomCrop, or None if it does not pad: v2 does not pad by zeros."""
    if padding is None:
        return None
    if context.family == "v1":
        return _parameters.paddings(padding)
    if not isinstance(padding, list) or len(padding) != 4:
        raise RunsInPythonError(f"padding {padding!r} was set on the object")
    left, right, top, bottom = _parameters.paddings(padding)  # v2 keeps them in this order
    return (left, top, right, bottom) if any((left, top, right, bottom)) else None


def _pad_step(
    paddings: tuple[int, int, int, int], fill: tuple[int, int, int], mode: str, context: StageContext
) -> _native.Step:
    left, top, right, bottom = paddings
    step = _native.Pad(left=left, top=top, right=right, bottom=bottom, padding_mode=mode, fill=fill)
    _check_sides(step.size_after(context.size) or ())
    return step


def lower_horizontal_flip(transform: Any, context: StageContext) -> list[_native.Step]:
    return [_native.RandomHorizontalFlip(probability=_parameters.probability(transform.p))]


def lower_vertical_flip(transform: Any, context: StageContext) -> list[_native.Step]:
    return [_native.RandomVerticalFlip(probability=_parameters.probability(transform.p))]


def lower_random_rotation(transform: Any, context: StageContext) -> list[_native.Step]:
    mode = _parameters.affine_interpolation(transform.interpolation, context.family)
    if _parameters.flag(transform.expand, "expand"):
        raise RunsInPythonError(f"expand {transform.expand}", "False")
    center = None if transform.center is None else _parameters.pair(transform.center, "center")
    degrees = _parameters.interval(transform.degrees, "degrees")
    fill = _parameters.fill_of(transform, context.family)
    return [_native.RandomRotation(degrees=degrees, center=center, fill=fill, interpolation=mode)]


def _resized_longer_side(size: Size | None, max_size: object) -> Size:
    """Follows v2's rule for a `size` of None: the short side is truncated."""
    if size is None:
        raise RunsInPythonError("size None on images of several sizes")
    long = _parameters.side(max_size)
    short = int(long * min(size) / max(size))
    _check_sides((short, long))
    return (short, long) if size[0] <= size[1] else (long, short)


def _check_sides(sides: Sequence[int]) -> None:
    """Refuses a known size that no native image can have."""
    if sides and not (min(sides) >= 1 and max(sides) <= _native.MAX_IMAGE_SIDE):
        raise RunsInPythonError(f"it gives sides of {sides[0]} and {sides[1]}", f"1 to {_native.MAX_IMAGE_SIDE}")
