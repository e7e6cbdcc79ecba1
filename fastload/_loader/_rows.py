"""The text of explain() for a loader."""

from __future__ import annotations

from collections.abc import Sized
from typing import cast

from fastload._decode_cache._cache import is_of_pixels
from fastload._delivery._device import is_host
from fastload._images._array_dataset import ArrayDataset, holds_array
from fastload._images._opener import is_registered
from fastload._loader._current import CurrentLoader
from fastload._loader._explanation import Explanation, explanation_of
from fastload._loader._resuming import state_rows
from fastload._planning._advice import advice
from fastload._planning._plan import LoaderPlan
from fastload._planning._verdicts import Mode, StageVerdict, gil_advice
from fastload._workers._worker_objects import sharing_rows


def explain_loader(now: CurrentLoader, plan: LoaderPlan) -> Explanation:
    """Explains stage by stage how `plan` loads."""
    if now.is_of_processes:
        verdict = f"not native: samples are loaded in Python, by torch's worker processes: {now.loader.num_workers}"
        return explanation_of(
            verdict,
            *plan.verdicts,
            *_image_rows(now, Mode.PYTHON),
            *_device_rows(now, plan.mode),
            *state_rows(now, plan.mode),
        )
    by = {0: "in the calling thread", 1: "by one thread"}.get(
        now.loader.num_workers, f"by {now.loader.num_workers} threads"
    )
    if plan.mode is Mode.PYTHON and _is_array_native(now):
        verdict = f"partly native: samples are made natively of the data set's array, {by}"
        num_samples = len(cast(Sized, now.loader.dataset))
        source = StageVerdict("source", f"{type(now.loader.dataset).__name__}, {num_samples} samples in an array")
        rows = [source, *plan.verdicts[1:]]
        about = [*_sharing_rows(now, plan.mode), *_device_rows(now, plan.mode), *state_rows(now, plan.mode)]
        return explanation_of(verdict, *rows, *about)
    verdict = {
        Mode.NATIVE: f"native: batches are read, decoded and transformed {by}",
        Mode.PARTLY_NATIVE: f"partly native: samples are {_native_work(plan)}, {by}",
        Mode.PYTHON: f"not native: samples are loaded in Python, {by}",
        Mode.TORCH: "not native: torch's own iterator runs, unchanged",
    }[plan.mode]
    return explanation_of(
        verdict,
        *plan.verdicts,
        *_image_rows(now, plan.mode),
        *_cache_rows(now, plan),
        *_sharing_rows(now, plan.mode),
        *_device_rows(now, plan.mode),
        *state_rows(now, plan.mode),
        *advice(now.loader, plan.mode, plan.source, plan.transform),
        *filter(None, [gil_advice(now.kept.stats())]),
    )


def _is_array_native(now: CurrentLoader) -> bool:
    """Returns whether the workers make samples from an array without the Python code of torchvision's data set."""
    is_known = now.loader.num_workers > 0 and now.images_obstacle() is None and holds_array(now.loader.dataset)
    return is_known and ArrayDataset(now.loader.dataset).is_native()


def _image_rows(now: CurrentLoader, mode: Mode) -> list[str]:
    if mode is not Mode.PYTHON:
        return []
    reason = now.images_obstacle()
    what = f"decoded by Pillow ({reason})" if reason else "decoded natively as your code asks for them"
    if reason is None and now.loader.num_workers == 0 and not is_registered():
        what = "decoded by Pillow in the calling thread; natively with num_workers=1 or more"
    return [f"{'images':<10} JPEG files that Pillow opens: {what}"]


def _cache_rows(now: CurrentLoader, plan: LoaderPlan) -> list[StageVerdict]:
    mode, setting = plan.mode, now.cache_setting(plan)
    if is_of_pixels(setting) and (why := plan.why_no_pixels()) is not None:
        return [StageVerdict("cache", "pixels", f"iter() raises a ValueError, as {why}")]
    is_native = mode in (Mode.NATIVE, Mode.PARTLY_NATIVE)
    opens_natively = mode is Mode.PYTHON and now.loader.num_workers > 0 and now.images_obstacle() is None
    if setting is None or not (is_native or opens_natively):
        return []
    return [StageVerdict("cache", *now.kept.cache.describe(setting))]


def _sharing_rows(now: CurrentLoader, mode: Mode) -> list[str]:
    if now.loader.num_workers == 0 or mode not in (Mode.PYTHON, Mode.PARTLY_NATIVE):
        return []
    return sharing_rows(now.arguments.code, copied=now.settings.copy)


def _device_rows(now: CurrentLoader, mode: Mode) -> list[str]:
    rows, device = [], now.settings.device
    if not is_host(device):
        how = "pixels are copied, and converted there" if mode is Mode.NATIVE else "batches are pinned and copied"
        rows.append(f"{'device':<10} {getattr(device, 'name', device)}: {how} on fastload's stream")
    if now.settings.device_transform is not None:
        rows.append(f"{'device':<10} device_transform: called with each batch")
    return rows


def _native_work(plan: LoaderPlan) -> str:
    """Describes what native code does with samples that Python finishes, and what is left to Python."""
    if plan.transform is not None and plan.transform.stages and plan.transform.native_count == 0:
        return "read and decoded natively, then transformed in Python"
    return "read, decoded and transformed natively, then finished in Python"
