"""The choice between threads and processes for the user's Python: Note [the form of workers]."""

from __future__ import annotations

import multiprocessing
import warnings
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from torch.utils.data import DataLoader

from fastload._planning._plan import LoaderPlan
from fastload._planning._verdicts import Mode
from fastload._workers._data_pipes import is_data_pipe

# Note [the form of workers]
# With workers="auto", iter() chooses before anything starts:
# 1. If no Python runs for a sample or a batch, native threads load.
# 2. Python that works on a GPU runs in threads, as a forked process cannot use CUDA after its parent has. It is found
#    by its objects, or by torch's error in a worker; spawned processes can use CUDA.
# 3. If no process can be started, threads run all Python, and a warning gives the reason.
# 4. Everything else runs in processes.
# "processes" sets rules 2 and 3 aside, "threads" also rule 4. A data pipe runs in processes in any case: each worker
# shards its own graph.


class WorkerForm(NamedTuple):
    """The form of a loader's workers.

    Attributes:
        kind: "caller" without workers.
        reason: Why "auto" chose it, as a clause; None if it had no choice.
        is_forced: Whether no process could be started.
    """

    kind: Literal["caller", "threads", "processes"]
    reason: str | None = None
    is_forced: bool = False

    @property
    def is_of_processes(self) -> bool:
        return self.kind == "processes"


class FormMemory:
    """Everything that a loader remembers of the forms of its workers."""

    def __init__(self) -> None:
        self._last: WorkerForm | None = None
        self._asked = ""
        self.why_threads: str | None = None  # why processes were given up for good, as a clause
        self._has_warned = False

    def last(self, workers: str) -> WorkerForm | None:
        """Returns the form of the last iteration; None before the first one with this value of the argument."""
        return self._last if workers == self._asked else None

    def begin(self, form: WorkerForm, workers: str) -> None:
        """Notes the form of the iteration that begins. Warns, once, if no process can be started."""
        self._last, self._asked = form, workers
        if form.is_forced:
            self._warn(f"{form.reason}, so threads run the data set's Python code")

    def no_process(self, reason: str) -> None:
        """Notes that no process could be started for this iteration. Warns once."""
        self.begin(WorkerForm("threads", reason, is_forced=True), "auto")

    def give_up(self) -> None:
        """Notes that a worker process was refused CUDA, so that this and later iterations use threads. Warns once."""
        self.why_threads = "your Python uses CUDA, which a forked process cannot"
        self._last = WorkerForm("threads", self.why_threads)
        self._warn(
            "the data set's Python code uses CUDA, which worker processes cannot use because they are forked. The "
            "iteration has begun again in threads, and later ones use threads too. workers='threads' says so at once"
        )

    def _warn(self, text: str) -> None:
        if not self._has_warned:
            self._has_warned = True
            warnings.warn(text, RuntimeWarning, stacklevel=2)


def choose_form(
    plan: LoaderPlan, loader: DataLoader[Any], workers: str, find_gpu: Callable[[], str | None]
) -> WorkerForm:
    """Chooses the form of a loader's workers: Note [the form of workers].

    `find_gpu` returns why processes cannot use the GPU that the user's Python works on, as a clause, or None.
    """
    if loader.num_workers == 0:
        return WorkerForm("caller")
    if plan.mode is Mode.NATIVE:
        return WorkerForm("threads")
    if is_data_pipe(loader.dataset):
        return WorkerForm("processes", "threads cannot share the graph of a data pipe")
    if workers != "auto":
        return WorkerForm("processes" if workers == "processes" else "threads")
    if (worker_method := getattr(loader, "worker_method", "multiprocessing")) != "multiprocessing":
        return WorkerForm("threads", f"worker_method={worker_method!r}")
    if (why := find_gpu()) is not None:
        return WorkerForm("threads", why)
    if multiprocessing.current_process().daemon:
        return WorkerForm("threads", "this process is daemonic and cannot start processes", is_forced=True)
    return WorkerForm("processes", _why_python(plan))


def _why_python(plan: LoaderPlan) -> str:
    """Returns why Python runs, as a clause that names the stage if native code begins the samples."""
    if plan.mode is Mode.PYTHON:
        return "your Python runs for each sample"
    stage = next(verdict for verdict in plan.verdicts if verdict.mode is plan.mode)
    return f"{stage.stage} {stage.what} runs in Python"
