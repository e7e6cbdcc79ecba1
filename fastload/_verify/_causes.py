"""Which stage is to blame: the rules of docs/verify.md, in their order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.data import default_collate, default_convert

from fastload._errors import SampleError
from fastload._pillow import _decode_image
from fastload._pillow._pillow import classify_failure
from fastload._verify._compare import Sample, ValueDifference, Where, difference, is_label
from fastload._verify._pixels import is_same_picture, native_stage
from fastload._verify._replay import replay_sample
from fastload._verify._report import Stage
from fastload._verify._rng_states import RandomWorlds
from fastload._verify._runner import Delivery, LoaderRunner, error_kind
from fastload._verify._sample_parts import LoadFailed, Origin, Unknown, file_digest, find_origin, path_of
from fastload._verify._settings import PipelineRun, StepPair, pair_steps, run_side_by_side, step_stage

_MAX_DETAIL = 300
_CONFIRMED = "; its pixels follow from these draws"


@dataclass(frozen=True)
class Finding:
    """The stage of a sample, and a sentence's worth of what differs there."""

    stage: Stage
    detail: str


@dataclass(frozen=True)
class DeliveredSample:
    """One sample as a loader delivered it.

    Attributes:
        index: in the data set, or None where unknown.
        values: its part of the batch.
        report: what a native loader says it did, or None.
    """

    index: Any
    values: Sample
    report: Any


class Attributor:
    """Takes differing samples apart again, on both sides, to find the first stage that differs.

    Samples are loaded and transformed once more in this thread, from generators of its own; `worlds` sees to it that
    nobody notices.
    """

    def __init__(self, old: LoaderRunner, new: LoaderRunner, worlds: RandomWorlds) -> None:
        self._runners = (old, new)
        self._worlds = worlds
        self._reasons = _why_draws_differ(old, new)
        # torch's numbers follow one another: behind a sample that drew more or fewer, the others get other ones.
        self._can_go_on_elsewhere = old.rng == new.rng == "torch"
        self._has_other_sample_before = False

    def stage_of(
        self, old: DeliveredSample, new: DeliveredSample, differing: Mapping[Where, ValueDifference]
    ) -> Finding:
        """The first stage at which two samples of one place differ; `differing` says in which values they do."""
        finding = self._stage_of(old, new, differing)
        self._has_other_sample_before |= finding.stage in ("order", "read")
        return finding

    def _stage_of(
        self, old: DeliveredSample, new: DeliveredSample, differing: Mapping[Where, ValueDifference]
    ) -> Finding:
        if not same_index(old.index, new.index):
            return Finding("order", f"index {old.index} against {new.index}")
        if old.index is None or new.index is None:
            return _by_place(old.values, differing, "the samples' indices are not known")
        if (devices := _devices(old.values)) != (others := _devices(new.values)):
            return Finding("structure", f"on {', '.join(devices)} against {', '.join(others)}")
        try:
            left = self._origin(0, old.index)
            is_shared = self._runners[0].loader.dataset is self._runners[1].loader.dataset
            right = left if is_shared else self._origin(1, new.index)
        except LoadFailed as failure:
            return Finding("read", _shortened(f"cannot be loaded again: {type(failure.cause).__name__}: {failure}"))
        if isinstance(left, Unknown):
            return self._of_unknown(old.values, differing, left)
        if isinstance(right, Unknown):
            return self._of_unknown(old.values, differing, right)
        if not any(where[: len(left.where)] == left.where for where in differing):
            return Finding("label", _values_text(old.values, new.values, differing))
        return self._before_transforms(left, right) or self._from_transforms(left, right, (old, new))

    def _origin(self, number: int, index: Any) -> Origin | Unknown:
        return find_origin(self._runners[number].loader.dataset, index, self._worlds)

    def _of_unknown(self, values: Sample, differing: Mapping[Where, ValueDifference], origin: Unknown) -> Finding:
        found = _by_place(values, differing, origin.reason)
        if found.stage == "values" and not origin.is_repeatable:
            return Finding("random numbers", "the data set gives another sample each time, also from equal generators")
        return found

    def _before_transforms(self, old: Origin, new: Origin) -> Finding | None:
        """Compares the images that go into the transforms, and the files they are from."""
        if difference(old.image, new.image) is None:
            return None
        is_same = is_same_picture(old.image, new.image)
        if old.path is None or new.path is None:
            return Finding("decode" if is_same else "read", "the data sets give other images before any transform")
        digests = [None, None] if old.path == new.path else [file_digest(path) for path in (old.path, new.path)]
        if digests[0] == digests[1]:
            return Finding("decode", f"equal bytes in the file, other pixels from it: {old.path}")
        names = f"{old.path} against {new.path}"
        if is_same:
            return Finding("decode", _shortened(f"the same picture, encoded in other bytes: {names}"))
        return Finding("read", _shortened(f"another picture: {names}"))

    def _from_transforms(self, old: Origin, new: Origin, sides: tuple[DeliveredSample, DeliveredSample]) -> Finding:
        try:
            run = run_side_by_side(pair_steps(old.steps, new.steps), old.image, new.image, self._worlds)
        except Exception as error:  # noqa: BLE001 - transforms of the user's raise what they like
            return Finding("values", _shortened(f"the transforms, run again, raise {type(error).__name__}: {error}"))
        if run.stage is not None and run.pair is not None:
            return Finding(run.stage, _pair_text(run.pair, run))
        found = [_value_at(side.values, origin.where) for side, origin in zip(sides, (old, new), strict=True)]
        expected = [self._expected(number, side, (old, new)[number], run) for number, side in enumerate(sides)]
        reasons = self._reasons_of(run)
        for number, origin in enumerate((old, new)):
            if expected[number] is not None and difference(expected[number], found[number]) is not None:
                return self._after_transforms(number, origin, expected[number], found[number])
        is_confirmed = any(image is not None for image in expected)
        if not is_confirmed and not reasons and is_same_picture(*found):
            # Other draws would hardly have given the same picture; so one of the two computes otherwise.
            number = 0 if self._runners[0].has_native_part else 1
            return self._after_transforms(number, (old, new)[number], found[1 - number], found[number])
        return Finding("random numbers", _draws_text(reasons, sides, is_confirmed=is_confirmed))

    def _reasons_of(self, run: PipelineRun) -> list[str]:
        """Why the loaders may have drawn differently for a sample."""
        reasons = list(self._reasons)
        if not reasons and self._has_other_sample_before and self._can_go_on_elsewhere:
            reasons.append("a sample before it is another one, and torch's numbers go on from where that one left them")
        modes = {runner.mode for runner in self._runners if runner.loader.num_workers > 0}
        if len(modes) > 1 and (owners := run.draws - {"torch"}):
            reasons.append(
                f"the transforms draw from the generator of {' and '.join(sorted(owners))}, which threads share and "
                "processes have copies of"
            )
        return reasons

    def _expected(self, number: int, side: DeliveredSample, origin: Origin, run: PipelineRun) -> Any:
        """What the loader should have given by its own account; None where nobody knows its draws."""
        if not run.draws:
            return run.result
        if not self._runners[number].is_native or side.report is None:
            return None
        return replay_sample(origin.image, origin.steps, side.report.views, self._worlds)

    def _after_transforms(self, number: int, origin: Origin, expected: Any, found: Any) -> Finding:
        """One loader's image is not what its data set's own transforms give."""
        name = ("old", "new")[number]
        runner = self._runners[number]
        if not runner.has_native_part or runner.loader.collate_fn not in (default_collate, default_convert):
            return Finding(
                "values", f"the {name} loader's image is not what its data set gives: collate_fn or a changed file"
            )
        if origin.path is not None and _decodes_otherwise(origin):
            return Finding("decode", f"the {name} loader's decoder gives other pixels than Pillow: {origin.path}")
        return Finding(
            native_stage(expected, found), f"the {name} loader's native code leaves what its transforms give"
        )

    def error_finding(self, old: Delivery, new: Delivery) -> tuple[Finding, Any]:
        """(stage, data set index or None) where the loaders did not raise the same kind of error for a batch."""
        self._has_other_sample_before = True
        number = 1 if new.error is not None else 0
        delivery = (old, new)[number]
        error = delivery.error
        assert error is not None
        other = (new, old)[number]
        others = "gives a batch" if other.error is None else f"raises {error_kind(other.error)}"
        first_line = str(error).partition("\n")[0]
        detail = f"the {('old', 'new')[number]} loader raises {error_kind(error)}: {first_line}; the other {others}"
        if isinstance(error, SampleError) and error.stage != "transform":
            return Finding(_error_stage(error.stage), _shortened(detail)), error.index
        for index in [error.index] if isinstance(error, SampleError) else delivery.indices or []:
            try:
                self._origin(number, index)
            except LoadFailed as failure:
                if type(failure.cause).__name__ == error_kind(error):
                    path = "" if failure.path is None else f" ({failure.path})"
                    return Finding(_failure_stage(failure), _shortened(f"{detail}{path}")), index
        return Finding(_failure_stage(LoadFailed(error, None, None)), _shortened(detail)), None

    def paths(self, old_index: Any, new_index: Any) -> list[str | None]:
        """The files of two samples, where the data sets tell."""
        indices = (old_index, new_index)
        return [
            None if index is None else path_of(runner.loader.dataset, index)
            for runner, index in zip(self._runners, indices, strict=True)
        ]


def _draws_text(reasons: list[str], sides: tuple[DeliveredSample, DeliveredSample], *, is_confirmed: bool) -> str:
    text = "; ".join(reasons) or "equal settings, yet other draws"
    if any(side.report is not None for side in sides):
        text += "; " + " against ".join(
            "drawn by torch" if side.report is None else _views_text(side) for side in sides
        )
    if is_confirmed:
        text = f"{_shortened(text, _MAX_DETAIL - len(_CONFIRMED))}{_CONFIRMED}"
    return _shortened(text)


def _views_text(side: DeliveredSample) -> str:
    views = side.report.views
    return str(views[0] if len(views) == 1 else views)


def same_index(old: Any, new: Any) -> bool:
    """Whether two keys are the same; unknown ones may be."""
    if old is None or new is None:
        return True
    try:
        return bool(old == new)
    except Exception:  # noqa: BLE001 - keys may be of any type
        return False


def _by_place(values: Sample, differing: Mapping[Where, ValueDifference], reason: str) -> Finding:
    """What can be said without looking behind the sample."""
    if all(is_label(where, values) for where in differing):
        return Finding("label", f"[{']['.join(map(repr, next(iter(differing))))}] differs")
    for where, found in differing.items():
        if found.structure is not None and not is_label(where, values):
            return Finding("structure", found.structure)
    return Finding("values", reason)


def _values_text(old: Sample, new: Sample, differing: Mapping[Where, ValueDifference]) -> str:
    where = next(iter(differing))
    left, right = (_shortened(_scalar_text(side.get(where)), 60) for side in (old, new))
    return f"{left} against {right}"


def _scalar_text(value: Any) -> str:
    return repr(value.item()) if isinstance(value, torch.Tensor) and value.numel() == 1 else repr(value)


def _pair_text(pair: StepPair, run: PipelineRun) -> str:
    text = pair.name
    if run.stage == "random numbers":
        text += ": gives another result each time, also from equal generators"
    elif run.difference is None:
        text += ": only the parameters differ; equal draws gave equal results"
    elif run.difference.structure is not None:
        text += f": {run.difference.structure}"
    return _shortened(text)


def _decodes_otherwise(origin: Origin) -> bool:
    try:
        pixels = _decode_image.decode_image(origin.path or "", output="pil")
    except Exception:  # noqa: BLE001 - the loader did decode it, so this is another fault
        return False
    return bool(pixels.tobytes() != origin.image.tobytes())


def _error_stage(stage: str) -> Stage:
    """The stage of this report for one of SampleError's."""
    names: dict[str, Stage] = {"open": "read", "read": "read", "transform": "values"}
    return names.get(stage, "decode")


def _failure_stage(failure: LoadFailed) -> Stage:
    if failure.step is not None:
        return step_stage(failure.step)
    if failure.path is None and not isinstance(failure.cause, OSError):
        return "values"  # nothing says that a file was being read
    return _error_stage(classify_failure(failure.cause, failure.path or "").stage)


def _why_draws_differ(old: LoaderRunner, new: LoaderRunner) -> list[str]:
    """What about two loaders makes them draw differently, as far as their settings tell; nothing if these are equal."""
    reasons = []
    rngs = [old.rng, new.rng]
    if rngs[0] != rngs[1]:
        reasons.append(f"rng={rngs[0]!r} against rng={rngs[1]!r}")
    elif rngs[0] == "torch" and old.loader.num_workers != new.loader.num_workers:
        reasons.append(
            f"num_workers {old.loader.num_workers} against {new.loader.num_workers}: each worker has random numbers of "
            "its own"
        )
    seeds = [getattr(runner.loader, "seed", None) for runner in (old, new)]
    if rngs == ["sample", "sample"] and seeds[0] != seeds[1]:
        reasons.append(f"seed {seeds[0]} against {seeds[1]}")
    states = [_generator_state(runner.loader.generator) for runner in (old, new)]
    if states[0] != states[1]:
        reasons.append("the loaders' generators begin in other states")
    return reasons


def _devices(values: Sample) -> list[str]:
    return sorted({value.device.type for value in values.values() if isinstance(value, torch.Tensor)})


def _value_at(values: Sample, where: Where) -> Any:
    """The value at `where`, on the CPU; the list of views where it has parts of its own in the batch."""
    if where not in values:
        return [_value_at(values, place) for place in values if place[:-1] == where] or None
    value = values[where]
    return value.cpu() if isinstance(value, torch.Tensor) else value


def _generator_state(generator: torch.Generator | None) -> bytes | None:
    return None if generator is None else generator.get_state().numpy().tobytes()


def _shortened(text: str, limit: int = _MAX_DETAIL) -> str:
    text = " ".join(text.split())
    return text if len(text) <= limit else f"{text[: limit - 3]}..."
