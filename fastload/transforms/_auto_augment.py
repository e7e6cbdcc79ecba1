"""RandAugment, TrivialAugmentWide and AutoAugment as lists of all operations that they choose from.

Magnitudes come from the user's own object. The matrices of operations that move pixels come from torchvision's and
Pillow's own code, run on an image that only records them.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

from fastload import _native
from fastload._pillow._pillow import RgbImage
from fastload._process._interrupts import is_interrupt
from fastload.transforms import _parameters, _recognize
from fastload.transforms._color import posterize_op
from fastload.transforms._pillow_rules import AFFINE_FILTERS
from fastload.transforms._stage import Family, RunsInPythonError, Size, StageContext

# Operation -> (its magnitudes, or None if it has none; whether a sign is drawn for them).
_Space = dict[str, tuple[tuple[float, ...] | None, bool]]

_MOVES = frozenset({"ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate"})
_BLENDS = {
    "Brightness": _native.Brightness,
    "Color": _native.Saturation,
    "Contrast": _native.Contrast,
    "Sharpness": _native.Sharpness,
}
_PLAIN = {
    "Identity": _native.Identity,
    "AutoContrast": _native.Autocontrast,
    "Equalize": _native.Equalize,
    "Invert": _native.Invert,
}
_AUTO_AUGMENT_BINS = 10
_AFFINE = 0  # Pillow's integers
_NEAREST = 0
_ROTATIONS = {2: _native.Rotate90, 3: _native.Rotate180, 4: _native.Rotate270}


class _Enumerator:
    """The operations of one policy object on images of one size."""

    def __init__(self, transform: Any, context: StageContext) -> None:
        if context.size is None:
            raise RunsInPythonError("the images come in several sizes", "after a transform that gives a fixed size")
        _parameters.affine_interpolation(transform.interpolation, context.family)
        if context.family == "v1" and not _recognize.is_torchvisions(_recognize.loaded("autoaugment")._apply_op):
            raise RunsInPythonError("_apply_op of torchvision's functions was replaced")
        self.family = context.family
        self.size = context.size
        self._transform = transform
        self._fill = _parameters.fill_of(transform, context.family)

    def space(self, num_bins: int) -> _Space:
        if self.family == "v1":
            helper = self._transform._augmentation_space
            takes_size = helper.__func__.__code__.co_argcount == 3
            found = helper(num_bins, self.size) if takes_size else helper(num_bins)
            return {name: (_listed(magnitudes), bool(signed)) for name, (magnitudes, signed) in found.items()}
        space = self._transform._AUGMENTATION_SPACE
        found = {name: (make(num_bins, *self.size), signed) for name, (make, signed) in space.items()}
        return {
            name: (None if magnitudes is None else _listed(magnitudes), bool(signed) and magnitudes is not None)
            for name, (magnitudes, signed) in found.items()
        }

    def choice(
        self, name: str, magnitudes: tuple[float, ...], is_signed: bool, probability: float = 1.0
    ) -> _native.PolicyChoice:
        """Returns the choice with its operations bin after bin, the positive one first if there is a sign."""
        kind: Any = type(self._transform)
        moves = (self._transform.interpolation, self._fill) if name in _MOVES else None
        ops = _enumerated(kind, self.family, name, magnitudes, is_signed, self.size, moves)
        return _native.PolicyChoice(ops=ops, is_signed=is_signed, num_bins=len(magnitudes), probability=probability)


def _listed(magnitudes: Any) -> tuple[float, ...] | None:
    """Lists magnitudes; None for v1's 0-dimensional tensor, which means that an operation has none."""
    return tuple(magnitudes.tolist()) if magnitudes.ndim > 0 else None


def _enumerating(
    lower: Callable[[Any, _Enumerator], _native.Step],
) -> Callable[[Any, StageContext], list[_native.Step]]:
    def lower_policy(transform: Any, context: StageContext) -> list[_native.Step]:
        try:
            return [lower(transform, _Enumerator(transform, context))]
        except RunsInPythonError:
            raise
        except Exception as error:
            if is_interrupt(error):
                raise
            # If torchvision would raise for a sample, it will do so in Python.
            raise RunsInPythonError(f"listing its operations raises {type(error).__name__}: {error}") from error

    return lower_policy


@_enumerating
def lower_rand_augment(transform: Any, enumerator: _Enumerator) -> _native.Step:
    num_ops = transform.num_ops
    if type(num_ops) is not int or not 1 <= num_ops <= _native.MAX_POLICY_OPS:
        raise RunsInPythonError(f"num_ops {num_ops!r}", f"ints from 1 to {_native.MAX_POLICY_OPS}")
    choices = [
        enumerator.choice(name, (0.0 if magnitudes is None else magnitudes[transform.magnitude],), is_signed)
        for name, (magnitudes, is_signed) in enumerator.space(transform.num_magnitude_bins).items()
    ]
    return _native.RandAugment(num_ops=num_ops, choices=choices, family=enumerator.family)


@_enumerating
def lower_trivial_augment(transform: Any, enumerator: _Enumerator) -> _native.Step:
    num_bins = transform.num_magnitude_bins
    if type(num_bins) is not int or num_bins < 2:
        raise RunsInPythonError(f"num_magnitude_bins {num_bins!r}", "ints from 2")
    space = enumerator.space(num_bins)
    if any(magnitudes is not None and len(magnitudes) != num_bins for magnitudes, _ in space.values()):
        raise RunsInPythonError(f"its operations do not have {num_bins} magnitudes")
    choices = [
        enumerator.choice(name, (0.0,) if magnitudes is None else magnitudes, is_signed)
        for name, (magnitudes, is_signed) in space.items()
    ]
    return _native.TrivialAugmentWide(choices=choices, family=enumerator.family)


@_enumerating
def lower_auto_augment(transform: Any, enumerator: _Enumerator) -> _native.Step:
    space = enumerator.space(_AUTO_AUGMENT_BINS)
    policies = transform.policies if enumerator.family == "v1" else transform._policies
    chosen = [_sub_policy(policy, space, enumerator) for policy in policies]
    return _native.AutoAugment(policies=chosen, family=enumerator.family)


def _sub_policy(policy: Any, space: _Space, enumerator: _Enumerator) -> list[_native.PolicyChoice]:
    if len(policy) != 2:
        raise RunsInPythonError(f"a policy of {len(policy)} operations", "two")
    choices = []
    for name, probability, magnitude_bin in policy:
        magnitudes, is_signed = space[name]
        if (magnitudes if enumerator.family == "v2" else magnitude_bin) is None:
            magnitude = 0.0
        elif magnitudes is None:
            raise RunsInPythonError("a policy asks for a magnitude that its operation does not have")
        else:
            magnitude = magnitudes[magnitude_bin]
        choices.append(enumerator.choice(name, (magnitude,), is_signed, _parameters.probability(probability)))
    return choices


@functools.lru_cache(maxsize=512)
def _enumerated(
    kind: Any,
    family: Family,
    name: str,
    magnitudes: tuple[float, ...],
    is_signed: bool,
    size: Size,
    moves: tuple[Any, tuple[int, int, int]] | None,
) -> tuple[_native.PixelOp, ...]:
    """Lists the operations for the magnitudes; `moves` are interpolation and fill of operations that move pixels.

    Cached, because a policy has hundreds of operations, which are the same in every epoch and never change.
    """
    signs = (1.0, -1.0) if is_signed else (1.0,)
    values = [magnitude * sign for magnitude in magnitudes for sign in signs]
    if moves is not None:
        return tuple(_recorded_op(kind, family, name, value, size, *moves) for value in values)
    return tuple(_pixel_op(family, name, value) for value in values)


def _recorded_op(
    kind: Any, family: Family, name: str, magnitude: float, size: Size, mode: Any, fill: tuple[int, int, int]
) -> _native.PixelOp:
    image = _RecordedImage(size)
    if family == "v1":
        _recognize.loaded("autoaugment")._apply_op(image, name, magnitude, interpolation=mode, fill=fill)
    else:
        # The method does not use its object, and a cached result must not keep the user's object alive.
        bare = kind.__new__(kind)
        bare._apply_image_or_video_transform(image, name, magnitude, interpolation=mode, fill={"others": fill})
    if image.op is None:
        raise RunsInPythonError(f"{name} does not move the image")
    return image.op


def _pixel_op(family: Family, name: str, magnitude: float) -> _native.PixelOp:
    if not math.isfinite(magnitude):
        raise RunsInPythonError(f"{name} of magnitude {magnitude}")
    if name in _PLAIN:
        return _PLAIN[name]()
    if name in _BLENDS:
        return _BLENDS[name](factor=1.0 + magnitude)
    if name == "Posterize":
        return posterize_op(int(magnitude))
    if name == "Solarize":
        return _native.Solarize(threshold=magnitude if family == "v1" else 255.0 * magnitude)
    raise RunsInPythonError(f"its operation {name} is not native")


class _RecordedImage(RgbImage):
    """An RGB image without pixels, which turning, shearing or shifting returns, with the last operation in `op`."""

    def __init__(self, size: Size) -> None:
        # Image.__init__ is not called: it sets attributes that are properties here.
        self.op: _native.PixelOp | None = None
        self._height_and_width = size

    @property
    def mode(self) -> str:
        return "RGB"

    @property
    def size(self) -> tuple[int, int]:
        height, width = self._height_and_width
        return width, height

    def copy(self) -> RgbImage:
        return self._note(_native.Identity())

    def transpose(self, method: Any) -> RgbImage:
        if int(method) not in _ROTATIONS:
            raise RunsInPythonError(f"it transposes by {method!r}")
        return self._note(_ROTATIONS[int(method)]())

    def transform(
        self,
        size: tuple[int, int],
        method: Any,
        data: Sequence[Any] | None = None,
        resample: Any = _NEAREST,
        fill: int = 1,
        fillcolor: Any = None,
    ) -> RgbImage:
        interpolation = AFFINE_FILTERS.get(resample)
        if tuple(size) != self.size or method != _AFFINE or interpolation is None or data is None or len(data) < 6:
            raise RunsInPythonError("it moves pixels", "affine transforms to the same size")
        matrix = [float(element) for element in data[:6]]
        return self._note(_native.Affine(matrix=matrix, fill=fillcolor, interpolation=interpolation))

    def _note(self, op: _native.PixelOp) -> RgbImage:
        self.op = op
        return self
