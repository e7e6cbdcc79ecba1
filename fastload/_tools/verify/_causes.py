"""Why samples and batches differ, as far as it can be proved: the rules of docs/verify.md, in their order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from fastload._errors import SampleError
from fastload._pillow._pillow import classify_failure
from fastload._tools.verify._compare import Sample, ValueDifference, Where, is_label
from fastload._tools.verify._findings import Finding, shortened
from fastload._tools.verify._proofs import Side, proved_finding
from fastload._tools.verify._report import Stage
from fastload._tools.verify._runner import DeliveredSample, LoaderRunner, Outcome
from fastload._tools.verify._sample_parts import LoadFailed
from fastload._tools.verify._settings import loader_differences, stage_of_step

# Stages of SampleError that have another name here; every other one is a stage of decoding.
_STAGES: dict[str, Stage] = {"open": "read", "read": "read", "transform": "values"}
_SHARED = "worker threads share what the data set, its transforms and collate_fn hold"


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
