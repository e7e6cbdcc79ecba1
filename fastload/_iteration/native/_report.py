"""Report on the samples of a native batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

_BOX = ("left", "top", "width", "height")
_PADS = ("pad_left", "pad_top", "pad_right", "pad_bottom")
_FACTOR = ("factor",)
# Kind of a step -> the names of its values, in their order.
STEP_FIELDS: dict[str, tuple[str, ...]] = {
    "crop": (*_BOX, *_PADS),
    "resize": ("width", "height", "interpolation"),
    "hflip": (),
    "vflip": (),
    "rotate90": (),
    "rotate180": (),
    "rotate270": (),
    "pad": ("left", "top", "right", "bottom", "padding_mode", "fill"),
    "affine": ("a", "b", "c", "d", "e", "f", "fill", "interpolation"),
    "gaussian_blur": ("kernel_width", "kernel_height", "sigma", "family"),
    "brightness": _FACTOR,
    "contrast": _FACTOR,
    "saturation": _FACTOR,
    "sharpness": _FACTOR,
    "hue": _FACTOR,
    "posterize": ("bits",),
    "solarize": ("threshold",),
    "autocontrast": (),
    "equalize": (),
    "invert": (),
    "grayscale": (),
    "erase": (*_BOX, "value"),
}


class TransformStep(tuple[Any, ...]):
    """One step that a transform did to a sample, with its random choices resolved: a named tuple of a kind and values.

    The names of the values depend on the kind. A step is a tuple: ``kind, *values = step`` unpacks it, ``step.width``
    is a value by its name, and ``step == ("hflip",)`` compares. Positions and sizes are in pixels.

    | kind | values |
    |---|---|
    | "crop" | left, top, width, height of the box; pad_left, pad_top, pad_right, pad_bottom: zeros around it |
    | "resize" | width, height, interpolation: the filter, such as "bilinear" |
    | "hflip", "vflip" | |
    | "rotate90", "rotate180", "rotate270" | counter-clockwise |
    | "pad" | left, top, right, bottom, padding_mode, fill |
    | "affine" | a, b, c, d, e, f: the matrix as in Pillow's Image.transform; fill, interpolation |
    | "gaussian_blur" | kernel_width, kernel_height, sigma; family: "v1" or "v2", which sets the arithmetic |
    | "brightness", "contrast", "saturation", "sharpness", "hue" | factor |
    | "posterize" | bits that each value keeps |
    | "solarize" | threshold: values at or above it are inverted |
    | "autocontrast", "equalize", "invert", "grayscale" | |
    | "erase" | left, top, width, height of the box in the finished tensor; value: the bytes of three elements |

    A fill is (red, green, blue).

    Example:
        >>> step = fastload.TransformStep(("resize", 224, 160, "bilinear"))
        >>> step
        resize(width=224, height=160, interpolation='bilinear')
        >>> kind, width, height, interpolation = step
        >>> step.height == height
        True
    """

    __slots__ = ()

    @property
    def kind(self) -> str:
        """The kind of the step: its first element."""
        name: str = self[0]
        return name

    @property
    def _fields(self) -> tuple[str, ...]:
        """The names of the elements, as in a named tuple."""
        return ("kind", *STEP_FIELDS[self.kind])

    def _asdict(self) -> dict[str, Any]:
        """Returns name -> element, as a named tuple does."""
        return dict(zip(self._fields, self, strict=True))

    def __getattr__(self, name: str) -> Any:
        fields = self._fields
        if name not in fields:
            raise AttributeError(f"a step {self.kind!r} has no {name!r}; it has {', '.join(fields)}")
        return self[fields.index(name)]

    def __repr__(self) -> str:
        values = zip(STEP_FIELDS[self.kind], self[1:], strict=True)
        return f"{self.kind}({', '.join(f'{name}={value!r}' for name, value in values)})"


@dataclass(frozen=True)
class SampleReport:
    """Report on one sample of a native batch; ``iterator.batch_report()`` returns one for each sample.

    Attributes:
        index: Index of the sample in the dataset.
        path: Path of the file, as given to the system.
        source: "native"; "coefficients" or "pixels" if a store had the image's coefficients or pixels; "fallback" if
            Pillow decoded the image.
        source_size: (width, height) of the decoded image in pixels; (0, 0) if it is not known.
        views: The steps of each view of a MultiView, or of the single result, in the order in which they were done. A
            step that changes nothing is left out.
        replaced: Index of the bad sample that this sample replaces, with on_error="replace"; else None.

    Example:
        >>> iterator = iter(fastload.DataLoader(dataset, batch_size=2))
        >>> images, labels = next(iterator)
        >>> report = iterator.batch_report()[0]
        >>> report.index, report.source
        (0, 'native')
        >>> {step.kind for step in report.steps} <= {"crop", "resize"}
        True
    """

    index: int
    path: str
    source: str
    source_size: tuple[int, int]
    views: tuple[tuple[TransformStep, ...], ...]
    replaced: int | None = None

    @property
    def steps(self) -> tuple[TransformStep, ...]:
        """The steps of the first view."""
        return self.views[0]
