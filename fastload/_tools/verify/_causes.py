"""Why samples and batches differ, as far as it can be proved: the rules of docs/verify.md, in their order.

A rule gives a finding only for what it has seen. It does not guess what it cannot know, such as the draws of a loader
that reports none: then the report names what differs and says that the cause is not known.
"""

from __future__ import annotations

import contextlib
import filecmp
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch.utils.data import default_collate, default_convert

from fastload._errors import SampleError
from fastload._pillow import _decode_image
from fastload._pillow._pillow import classify_failure
from fastload._tools.verify._compare import Sample, ValueDifference, Where, difference, is_label
from fastload._tools.verify._replay import replay_sample
from fastload._tools.verify._report import Finding, Stage, shortened
from fastload._tools.verify._runner import DeliveredSample, LoaderRunner, Outcome
from fastload._tools.verify._sample_parts import LoadFailed, SampleParts
from fastload._tools.verify._settings import loader_differences, stage_of_step, transforms_difference

_CONFIRMED = "; its pixels follow from these draws"
# Stages of SampleError that have another name here; every other one is a stage of decoding.
_STAGES: dict[str, Stage] = {"open": "read", "read": "read", "transform": "values"}
_SHARED = "worker threads share what the data set, its transforms and collate_fn hold"


@dataclass(frozen=True)
class Side:
    """One of two samples that differ, and the parts it is made of; `name` is its loader's: "old" or "new"."""

    name: str
    sample: DeliveredSample
    parts: SampleParts

    @cached_property
    def is_as_expected(self) -> bool | None:
        """Whether the delivered image is what it has to be; None if that is unknown."""
        return self.is_expected(self.sample)

    def is_expected(self, sample: DeliveredSample) -> bool | None:
        """Compares with what a data set that draws nothing gives, or else with a replay of a native loader's report."""
        runner = self.sample.runner
        if not runner.has_torchs_batches:
            return None
        expected = self.parts.result
        if self.parts.has_draws:
            if not runner.is_native or sample.report is None:
                return None
            views, generators = sample.report.views, runner.generators
            expected = replay_sample(self.parts.image, self.parts.steps, views, generators)
        if expected is None or isinstance(expected, Mapping):
            return None
        delivered = _collated(expected, is_batched=runner.is_batched)
        return difference(delivered, value_at(sample.values, self.parts.where)) is None


def proved_finding(
    old: Side, new: Side, differing: Mapping[Where, ValueDifference], known_differences: list[str]
) -> Finding:
    """Finds the first stage at which two samples differ, in the order of the flow; known differences are clauses."""
    if not any(where[: len(old.parts.where)] == old.parts.where for where in differing):
        return Finding("label", _values_text(old, new, next(iter(differing))))
    if difference(old.parts.image, new.parts.image) is not None:
        return _of_sources(old.parts.path, new.parts.path)
    if (setting := transforms_difference(old.parts, new.parts)) is not None:
        return Finding(setting.stage, shortened(setting.detail))
    sides = (old, new)
    for side in sides:
        if side.is_as_expected is False:
            return _of_unexpected(side, known_differences)
    if all(side.sample.runner.has_torchs_batches for side in sides) and any(
        side.is_as_expected and side.parts.has_draws for side in sides
    ):
        draws = " against ".join(_draws_text(side.sample.report) for side in sides)
        text = f"{'; '.join(known_differences) or 'equal settings, yet other draws'}; {draws}"
        return Finding("random numbers", shortened(text, _CONFIRMED))
    if old.is_as_expected and new.is_as_expected:
        return Finding("values", "each loader agrees with its data set: the transforms make different images of one")
    for found in differing.values():
        if found.structure is not None:
            return Finding("structure", found.structure)
    return _without_cause("the images differ", known_differences)


def _values_text(old: Side, new: Side, where: Where) -> str:
    values = (side.sample.values.get(where) for side in (old, new))
    plain = (value.item() if isinstance(value, torch.Tensor) and value.numel() == 1 else value for value in values)
    return " against ".join(shortened(repr(value), limit=60) for value in plain)


def _of_sources(old_path: str | None, new_path: str | None) -> Finding:
    """Returns the finding for images that differ before any transform."""
    if old_path is None or new_path is None:
        return Finding("values", "the data sets give other images before any transform")
    with contextlib.suppress(OSError):
        if old_path == new_path or filecmp.cmp(old_path, new_path, shallow=False):
            return Finding("decode", f"equal bytes in the file, other pixels from it: {old_path}")
    return Finding("read", shortened(f"other bytes in the file, other pixels from it: {old_path} against {new_path}"))


def _of_unexpected(side: Side, known_differences: list[str]) -> Finding:
    """Returns the finding for an image that is not what its data set gives, or not what its loader reports."""
    uncached = side.sample.runner.without_cache(side.sample.index)
    if uncached is not None and side.is_expected(uncached):
        where = "" if side.parts.path is None else f": {side.parts.path}"
        return Finding("cache", f"the {side.name} loader's image is right without a cache (cache=None){where}")
    if not side.sample.runner.is_native:
        return _without_cause(f"the {side.name} loader's image is not what its data set gives", known_differences)
    with contextlib.suppress(Exception):  # the loader did decode the file, so an error is another fault
        path, pixels = side.parts.path, side.parts.image.tobytes()
        if path is not None and _decode_image.decode_image(path, output="pil").tobytes() != pixels:
            return Finding("decode", f"the {side.name} loader's decoder gives other pixels than Pillow: {path}")
    return Finding("values", f"the {side.name} loader's native code differs from its transforms")


def _draws_text(report: Any) -> str:
    if report is None:
        return "drawn by torch"
    views = [[tuple(step) for step in view] for view in report.views]  # without the names: a detail is short
    return str(views[0] if len(views) == 1 else views)


def _without_cause(text: str, known_differences: list[str]) -> Finding:
    known = f"; known to differ: {'; '.join(known_differences)}" if known_differences else ""
    return Finding("values", shortened(f"{text}, and the cause is not known{known}"))


def value_at(values: Sample, where: Where) -> Any:
    """Returns the value at `where`, on the CPU; if it has parts of its own in the batch, the list of these views."""
    if where not in values:
        return [value_at(values, place) for place in values if place[:-1] == where] or None
    value = values[where]
    return value.cpu() if isinstance(value, torch.Tensor) else value


def _collated(image: Any, *, is_batched: bool) -> Any:
    """Converts an image, or each of several views, as torch's collate function does for a batch."""
    if isinstance(image, (list, tuple)):
        return [_collated(view, is_batched=is_batched) for view in image]
    return default_collate([image])[0] if is_batched else default_convert(image)  # type: ignore[no-untyped-call]


class Causes:
    """Takes differing samples apart again, on both sides, and says what can be proved about each.

    Samples are loaded once more in this thread, from equal states of all generators, and the states are put back.
    """

    def __init__(self, old: LoaderRunner, new: LoaderRunner) -> None:
        self._old = old
        self._new = new
        self._shared = [_SHARED] if old.runs_python_in_threads or new.runs_python_in_threads else []
        self._loader_differences = loader_differences(old, new) + self._shared
        # torch's random numbers form one sequence: a sample that draws more or fewer of them changes all later samples.
        self._can_go_on_elsewhere = old.rng == new.rng == "torch"
        self._has_other_sample_before = False

    def of_sample(
        self, old: DeliveredSample, new: DeliveredSample, differing: Mapping[Where, ValueDifference]
    ) -> Finding:
        """Finds the first stage at which two samples of one position differ; `differing` has the values that do."""
        finding = self._of_sample(old, new, differing)
        self._has_other_sample_before |= finding.stage in ("order", "read")
        return finding

    def _of_sample(
        self, old: DeliveredSample, new: DeliveredSample, differing: Mapping[Where, ValueDifference]
    ) -> Finding:
        if not same_index(old.index, new.index):
            return Finding("order", f"index {old.index} against {new.index}")
        if old.index is None or new.index is None:
            return _by_place(old.values, differing, "the samples' indices are not known")
        if (devices := _devices(old.values)) != (others := _devices(new.values)):
            return Finding("structure", f"on {', '.join(devices)} against {', '.join(others)}")
        try:
            left = self._old.parts(old.index)
            is_shared = self._old.loader.dataset is self._new.loader.dataset
            right = left if is_shared else self._new.parts(new.index)
        except LoadFailed as failure:
            return Finding("values", shortened(f"cannot be loaded again: {type(failure.cause).__name__}: {failure}"))
        if isinstance(left, str) or isinstance(right, str):
            reason = next(parts for parts in (left, right) if isinstance(parts, str))
            return _by_place(old.values, differing, shortened("; ".join([reason, *self._shared])))
        return proved_finding(Side("old", old, left), Side("new", new, right), differing, self._known_differences())

    def _known_differences(self) -> list[str]:
        """Returns the known differences of the loaders that may give them other samples."""
        if not self._loader_differences and self._has_other_sample_before and self._can_go_on_elsewhere:
            return ["an earlier sample differs, and torch's random numbers continue from where it left them"]
        return self._loader_differences

    def of_error(self, old: Outcome, new: Outcome) -> tuple[Finding, Any]:
        """Returns (finding, data set index or None) for a batch with an error that the other loader did not raise."""
        self._has_other_sample_before = True
        is_new = new.error is not None
        name, runner = ("new", self._new) if is_new else ("old", self._old)
        outcome, other = (new, old) if is_new else (old, new)
        error, kind = outcome.error, outcome.error_kind
        assert error is not None
        others = "gives a batch" if other.error is None else f"raises {other.error_kind}"
        first_line = str(error).partition("\n")[0]
        detail = f"the {name} loader raises {kind}: {first_line}; the other {others}"
        if isinstance(error, SampleError) and error.stage != "transform":
            return Finding(_STAGES.get(error.stage, "decode"), shortened(detail)), error.index
        for index in [error.index] if isinstance(error, SampleError) else outcome.indices or []:
            try:
                runner.parts(index)
            except LoadFailed as failure:
                if type(failure.cause).__name__ == kind:
                    path = "" if failure.path is None else f" ({failure.path})"
                    step = "" if failure.step is None else f"; raised by {type(failure.step).__qualname__}"
                    return Finding(_failure_stage(failure), shortened(f"{detail}{path}", step)), index
        return Finding(_failure_stage(LoadFailed(error, None, None)), shortened(detail)), None


def same_index(old: Any, new: Any) -> bool:
    """Returns whether two keys may be the same; unknown keys may."""
    if old is None or new is None:
        return True
    try:
        return bool(old == new)
    except Exception:  # noqa: BLE001 - keys may be of any type
        return False


def _by_place(values: Sample, differing: Mapping[Where, ValueDifference], reason: str) -> Finding:
    """Returns the finding from the values alone, for samples that cannot be taken apart for this reason."""
    if all(is_label(where, values) for where in differing):
        return Finding("label", f"[{']['.join(map(repr, next(iter(differing))))}] differs")
    for where, found in differing.items():
        if found.structure is not None and not is_label(where, values):
            return Finding("structure", found.structure)
    return Finding("values", reason)


def _failure_stage(failure: LoadFailed) -> Stage:
    if failure.step is not None:
        return stage_of_step(failure.step)
    if failure.path is None and not isinstance(failure.cause, OSError):
        return "values"  # nothing says that a file was being read
    return _STAGES.get(classify_failure(failure.cause, failure.path or "")[0], "decode")


def _devices(values: Sample) -> list[str]:
    return sorted({value.device.type for value in values.values() if isinstance(value, torch.Tensor)})
