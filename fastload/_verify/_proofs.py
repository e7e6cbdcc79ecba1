"""What can be proved of two samples whose images differ: rules, in the order of the flow.

A rule gives a finding only for what it has seen. What it cannot know, such as the draws of a loader that reports none,
it does not guess: then the report names what differs and says that the cause is not known.
"""

from __future__ import annotations

import filecmp
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch.utils.data import default_collate, default_convert

from fastload._pillow import _decode_image
from fastload._verify._compare import Sample, ValueDifference, Where, difference
from fastload._verify._findings import Finding, shortened
from fastload._verify._replay import replay_sample
from fastload._verify._rng_states import Generators
from fastload._verify._runner import DeliveredSample, LoaderRunner
from fastload._verify._sample_parts import SampleParts
from fastload._verify._settings import transforms_difference

_CONFIRMED = "; its pixels follow from these draws"


@dataclass(frozen=True)
class Side:
    """One of two samples that differ, and what lies behind it.

    Attributes:
        name: of its loader: "old" or "new".
        generators: of both loaders.
    """

    name: str
    runner: LoaderRunner
    sample: DeliveredSample
    parts: SampleParts
    generators: Generators

    @cached_property
    def is_as_expected(self) -> bool | None:
        """Whether the delivered image is what it has to be; None where nobody knows what that is.

        A data set that draws nothing tells; else what a native loader reports, done again.
        """
        if not self.runner.has_torchs_batches:
            return None
        expected = self.parts.result
        if self.parts.has_draws:
            if not self.runner.is_native or self.sample.report is None:
                return None
            expected = replay_sample(self.parts.image, self.parts.steps, self.sample.report.views, self.generators)
        if expected is None or isinstance(expected, Mapping):
            return None
        delivered = _collated(expected, is_batched=self.runner.is_batched)
        return difference(delivered, value_at(self.sample.values, self.parts.where)) is None


Rule = Callable[[Side, Side, list[str]], Finding | None]


def image_finding(
    old: Side, new: Side, differing: Mapping[Where, ValueDifference], known_differences: list[str]
) -> Finding:
    """What the images of two samples differ by first.

    Args:
        differing: the values in which the samples differ.
        known_differences: of the loaders, a clause each.
    """
    for rule in _RULES:
        if (finding := rule(old, new, known_differences)) is not None:
            return finding
    for found in differing.values():
        if found.structure is not None:
            return Finding("structure", found.structure)
    return Finding("values", _text_without_cause("the images differ", known_differences))


def _other_source(old: Side, new: Side, known_differences: list[str]) -> Finding | None:
    """The images that go into the transforms differ."""
    if difference(old.parts.image, new.parts.image) is None:
        return None
    paths = [old.parts.path, new.parts.path]
    if None in paths:
        return Finding("values", "the data sets give other images before any transform")
    if paths[0] == paths[1] or _have_equal_bytes(str(paths[0]), str(paths[1])):
        return Finding("decode", f"equal bytes in the file, other pixels from it: {paths[0]}")
    return Finding("read", shortened(f"other bytes in the file, other pixels from it: {paths[0]} against {paths[1]}"))


def _have_equal_bytes(path: str, other: str) -> bool:
    try:
        return filecmp.cmp(path, other, shallow=False)
    except OSError:
        return False


def _other_transforms(old: Side, new: Side, known_differences: list[str]) -> Finding | None:
    """The data sets' transforms are not the same."""
    found = transforms_difference(old.parts, new.parts)
    return None if found is None else Finding(found[0], shortened(found[1]))


def _other_than_expected(old: Side, new: Side, known_differences: list[str]) -> Finding | None:
    """One loader's image is not what its data set gives, or not what its report says."""
    side = next((side for side in (old, new) if side.is_as_expected is False), None)
    if side is None:
        return None
    if not side.runner.is_native:
        text = f"the {side.name} loader's image is not what its data set gives"
        return Finding("values", _text_without_cause(text, known_differences))
    if side.parts.path is not None and _decodes_otherwise(side.parts.path, side.parts.image):
        text = f"the {side.name} loader's decoder gives other pixels than Pillow: {side.parts.path}"
        return Finding("decode", text)
    return Finding("values", f"the {side.name} loader's native code leaves what its transforms give")


def _decodes_otherwise(path: str, image: Any) -> bool:
    try:
        pixels = _decode_image.decode_image(path, output="pil")
    except Exception:  # noqa: BLE001 - the loader did decode it, so this is another fault
        return False
    return bool(pixels.tobytes() != image.tobytes())


def _other_draws(old: Side, new: Side, known_differences: list[str]) -> Finding | None:
    """One image follows from the draws that its loader reports; by the same transforms the other has other draws."""
    sides = (old, new)
    is_confirmed = any(side.is_as_expected and side.parts.has_draws for side in sides)
    if not is_confirmed or not all(side.runner.has_torchs_batches for side in sides):
        return None
    draws = " against ".join(_draws_text(side.sample.report) for side in sides)
    text = f"{'; '.join(known_differences) or 'equal settings, yet other draws'}; {draws}"
    return Finding("random numbers", shortened(text, _CONFIRMED))


def _draws_text(report: Any) -> str:
    if report is None:
        return "drawn by torch"
    return str(report.views[0] if len(report.views) == 1 else report.views)


def _other_results(old: Side, new: Side, known_differences: list[str]) -> Finding | None:
    """Each loader gives what its data set gives."""
    if not (old.is_as_expected and new.is_as_expected):
        return None
    return Finding("values", "each loader gives what its data set gives: the transforms make other images of one")


# In the order of the flow; the first finding counts.
_RULES: tuple[Rule, ...] = (_other_source, _other_transforms, _other_than_expected, _other_draws, _other_results)


def _text_without_cause(text: str, known_differences: list[str]) -> str:
    known = f"; known to differ: {'; '.join(known_differences)}" if known_differences else ""
    return shortened(f"{text}, and the cause is not known{known}")


def value_at(values: Sample, where: Where) -> Any:
    """The value at `where`, on the CPU; the list of views where it has parts of its own in the batch."""
    if where not in values:
        return [value_at(values, place) for place in values if place[:-1] == where] or None
    value = values[where]
    return value.cpu() if isinstance(value, torch.Tensor) else value


def _collated(image: Any, *, is_batched: bool) -> Any:
    """An image, or each of several views, as torch's collate function makes it a part of a batch."""
    if isinstance(image, (list, tuple)):
        return [_collated(view, is_batched=is_batched) for view in image]
    return default_collate([image])[0] if is_batched else default_convert(image)  # type: ignore[no-untyped-call]
