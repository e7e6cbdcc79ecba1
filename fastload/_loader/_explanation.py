"""Descriptions of a loader: the result of explain(), as text and as fields, and the line that repr() returns."""

from __future__ import annotations

from collections.abc import Sized
from typing import Any, NamedTuple, cast

from fastload._decode_cache._cache import is_of_pixels
from fastload._delivery._device import is_host
from fastload._display._table import Table
from fastload._display._units import counted
from fastload._images._array_dataset import ArrayDataset, holds_array
from fastload._images._opener import is_registered
from fastload._iteration._settings import LoaderSettings
from fastload._iteration.processes._start import copied_mib, why_not_shared
from fastload._loader._current import CurrentLoader
from fastload._loader._resuming import state_rows
from fastload._planning._advice import advice
from fastload._planning._plan import LoaderPlan
from fastload._planning._verdicts import Mode, StageVerdict, gil_advice
from fastload._planning._worker_form import WorkerForm
from fastload._process._config import TorchDataLoader
from fastload._workers._data_pipes import is_data_pipe

# len() of their classes is a quick look-up; len() of a user's class may read files, or raise.
_QUICK_PACKAGES = frozenset({"builtins", "fastload", "torch", "torchvision"})


class ExplanationRow(NamedTuple):
    """One stage of a loader, as explain() reports it.

    Attributes:
        stage: "source", "transform", "collate" and so on; "to change" for advice.
        what: The object found at this stage, or the text of a remark.
        reason: Why it is not native, or what Python does; None if it is native, and in a remark.
        is_native: Whether native code does it without Python; None in a remark.
    """

    stage: str
    what: str
    reason: str | None
    is_native: bool | None


class Explanation(str):
    """The text of explain(): a str, with the same content as fields.

    Attributes:
        verdict: The first line.
        rows: One row per stage, in the order of the text.

    Example:
        >>> explanation = fastload.DataLoader(list(range(10))).explain()
        >>> explanation.verdict
        'not native: samples are loaded in Python, in the calling thread'
        >>> explanation.as_dict()["rows"][0]["stage"]
        'source'
    """

    verdict: str
    rows: tuple[ExplanationRow, ...]

    def __new__(cls, text: str, rows: tuple[ExplanationRow, ...]) -> Explanation:
        self = super().__new__(cls, text)
        self.verdict, self.rows = text.partition("\n")[0], rows
        return self

    def __getnewargs__(self) -> tuple[Any, ...]:
        return str(self), self.rows

    @property
    def is_native(self) -> bool:
        """Whether native code makes the whole batch."""
        return self.verdict.startswith("native:")

    def as_dict(self) -> dict[str, Any]:
        """Returns the fields as plain dicts and lists, for logging as JSON.

        Returns:
            A dict with "verdict": str, "is_native": bool, and "rows": a list with a dict for each row, with "stage",
            "what", "reason" and "is_native".
        """
        return {"verdict": self.verdict, "is_native": self.is_native, "rows": [row._asdict() for row in self.rows]}

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))

    def _repr_html_(self) -> str:
        cells = [(row.stage, row.what, "native" if row.is_native else row.reason or "") for row in self.rows]
        return Table(self.verdict, cells, head=("stage", "what", "native, or why not")).html()


def explain_loader(now: CurrentLoader, plan: LoaderPlan) -> Explanation:
    """Explains stage by stage how `plan` loads."""
    form = now.form(plan)
    by = _makers(now.arguments.num_threads, form)
    rows: list[StageVerdict | str] = [*plan.verdicts]
    hints: list[str] = []
    if plan.mode is Mode.PYTHON and _is_array_native(now):
        by = _makers(now.arguments.num_threads, form._replace(reason=None))  # no Python of the user's for each sample
        verdict = f"partly native: samples are made natively of the data set's array, {by}"
        num_samples = len(cast(Sized, now.loader.dataset))
        rows[0] = StageVerdict("source", f"{type(now.loader.dataset).__name__}, {num_samples} samples in an array")
    else:
        verdict = {
            Mode.NATIVE: f"native: batches are read, decoded and transformed {by}",
            Mode.PARTLY_NATIVE: f"partly native: samples are {_native_work(plan)}, {by}",
            Mode.PYTHON: f"not native: samples are loaded in Python, {by}",
        }[plan.mode]
        rows += _image_rows(now, plan.mode)
        rows += _cache_rows(now, plan, form)
        hints += advice(now.loader, plan.mode, plan.source, plan.transform)
        if now.settings.workers == "threads":
            hints += filter(None, [gil_advice(now.kept.stats())])
    rows += [*_memory_rows(now, form), *_device_rows(now, plan.mode)]
    rows += [*state_rows(now, plan.mode, form), *hints]
    return Explanation("\n".join([verdict, *(f"  {row}" for row in rows)]), tuple(map(_row_of, rows)))


def _row_of(row: StageVerdict | str) -> ExplanationRow:
    """Converts a row; a text is a remark: its stage in ten columns, a blank, what it says."""
    if isinstance(row, StageVerdict):
        return ExplanationRow(row.stage, row.what, row.reason, row.reason is None)
    return ExplanationRow(row[:10].strip(), row[11:], None, None)


def _makers(number: int, form: WorkerForm) -> str:
    if form.kind == "caller":
        return "in the calling thread"
    one, several = ("process", "processes") if form.is_of_processes else ("thread", "threads")
    by = f"by one {one}" if number == 1 else f"by {number} {several}"
    return by if form.reason is None else f"{by}: {form.reason}"


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


def _cache_rows(now: CurrentLoader, plan: LoaderPlan, form: WorkerForm) -> list[StageVerdict]:
    setting = now.cache_setting(plan)
    if is_of_pixels(setting) and (why := plan.why_no_pixels()) is not None:
        return [StageVerdict("cache", "pixels", f"iter() raises a ValueError, as {why}")]
    opens_natively = now.loader.num_workers > 0 and now.images_obstacle() is None
    if setting is None or (plan.mode is Mode.PYTHON and not opens_natively):
        return []
    caches = now.kept.workers.caches if form.is_of_processes else now.kept.cache
    return [StageVerdict("cache", *caches.describe(setting))]


def _memory_rows(now: CurrentLoader, form: WorkerForm) -> list[str]:
    """Returns a row if each worker process will copy a large data set."""
    roots = now.arguments.code.roots
    if not form.is_of_processes or is_data_pipe(now.loader.dataset):
        return []
    why = why_not_shared(roots, now.loader.num_workers, now.loader.multiprocessing_context)
    if why is None:
        return []
    what = f"each process copies the data set's objects as it reads them, about {copied_mib(roots)} MiB: {why}"
    return [f"{'memory':<10} {what}. workers='threads' and arrays need no copies"]


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


def describe(loader: TorchDataLoader[Any], settings: LoaderSettings | None, last_form: WorkerForm | None = None) -> str:
    """Describes a loader in one line, from its attributes only: it plans nothing and calls no user code.

    torch's loaders have no settings, and a loader has no `last_form` of its workers before its first iteration.
    """
    number = loader.num_workers
    if settings is None:
        kind = "processes"
    else:
        kind = settings.workers if last_form is None else last_form.kind
        if last_form is None and kind != "threads":
            kind = "workers"  # native threads, if they make the batches
        number = min(number, settings.num_streams or number)
    parts = [_data(loader.dataset), *_batches(loader), _workers(number, kind)]
    if settings is not None and settings.steps is not None:
        parts.append(f"steps={settings.steps}")
    if settings is not None and not is_host(settings.device):
        parts.append(f"device={str(getattr(settings.device, 'name', settings.device))!r}")
    if settings is not None and settings.rng != "torch":
        parts.append(f"rng={settings.rng!r}" + ("" if settings.seed is None else f", seed={settings.seed}"))
    return f"<{_name(type(loader))}: {', '.join(parts)}>"


def _name(kind: type) -> str:
    package = kind.__module__.partition(".")[0]
    return {"fastload": "fastload.DataLoader", "torch": "torch.utils.data.DataLoader"}.get(package, kind.__qualname__)


def _data(dataset: object) -> str:
    name = type(dataset).__qualname__
    makers = (str(base.__module__) for base in type(dataset).__mro__ if "__len__" in vars(base))
    if next(makers, "").partition(".")[0] not in _QUICK_PACKAGES:
        return name
    try:
        return f"{name} of {counted(len(cast(Sized, dataset)), 'sample')}"
    except Exception:  # noqa: BLE001 - torch's classes call the user's objects inside them
        return name


def _batches(loader: TorchDataLoader[Any]) -> list[str]:
    if loader.batch_size is not None:
        return [f"batch_size={loader.batch_size}"]
    sampler = loader.batch_sampler
    return ["batch_size=None"] if sampler is None else [f"batch_sampler={type(sampler).__qualname__}"]


def _workers(number: int, kind: str) -> str:
    if number == 0:
        return "no workers"
    if kind == "processes":
        return counted(number, "process", "processes")
    return counted(number, "thread" if kind == "threads" else "worker")
