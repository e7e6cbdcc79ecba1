"""torch's per-process settings, answered for each worker thread as in a worker process.

``torch.utils.data.get_worker_info()``, ``torch.manual_seed()`` and the like ask this thread's worker if it has one, and
are torch's own in all other threads. The function objects themselves are changed, not replaced: data sets have imported
them by name long before the first worker's thread begins.
"""

from __future__ import annotations

import functools
import inspect
import sys
import threading
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.utils.data
from torch.utils.data._utils import collate, worker

from fastload._workers._collate_memory import WorkerMemory
from fastload._workers._generators import WorkerGenerators

_INFO_FIELDS = frozenset(inspect.signature(worker.WorkerInfo).parameters)


@dataclass(frozen=True)
class WorkerGlobals:
    """The per-process settings of the worker that a thread works for.

    Attributes:
        info: The result of get_worker_info().
        generator: Used instead of the process's default generator.
        memory: The memory that default_collate writes batches to; None: torch's allocator.
    """

    info: worker.WorkerInfo
    generator: torch.Generator
    memory: WorkerMemory | None = None

    @classmethod
    def of(
        cls, generators: WorkerGenerators, num_workers: int, *, dataset: Any, memory: WorkerMemory | None = None
    ) -> WorkerGlobals:
        """Returns the settings of the worker with these generators; its info has the fields that torch knows."""
        number, seed = generators.worker_id, generators.worker_seed
        fields: dict[str, Any] = {"id": number, "num_workers": num_workers, "seed": seed, "dataset": dataset}
        if "worker_method" in _INFO_FIELDS:
            fields["worker_method"] = "thread"
        if "rng" in _INFO_FIELDS:
            fields["rng"] = worker._RNG(generators.random, generators.torch, generators.numpy)
        return cls(worker.WorkerInfo(**fields), generators.torch, memory)


class _ThisThread(threading.local):
    worker: WorkerGlobals | None = None


_this_thread = _ThisThread()


def set_worker_globals(globals_of_worker: WorkerGlobals | None) -> None:
    """Makes the calling thread work for a worker from now on; None: for none."""
    _exchange()
    _this_thread.worker = globals_of_worker


@functools.cache
def _exchange() -> None:
    for change in prepared_changes():
        change()


@functools.cache
def prepared_changes() -> tuple[Callable[[], None], ...]:
    """Prepares what the first worker changes. Called before workers are forked, it leaves them few pages to change."""
    return (
        _change_of(worker.get_worker_info, _get_worker_info),
        _change_of(inspect.getattr_static(torch.UntypedStorage, "_new_shared").__func__, _new_shared),
        *(
            _change_of(getattr(torch.random, name), functools.partial(_of_generator, replacement))
            for name, replacement in _OF_GENERATOR.items()
        ),
    )


def _change_of(function: Any, replacement: Callable[..., Any]) -> Callable[[], None]:
    """Returns what makes `function` call `replacement`, which gets the original and the thread's worker first."""
    torchs_own = types.FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    torchs_own.__kwdefaults__ = function.__kwdefaults__
    signature = inspect.signature(function)

    def ask(*args: Any, _ask: Callable[..., Any], **kwargs: Any) -> Any:
        return _ask(*args, **kwargs)

    def change() -> None:
        # In this order, since other threads may call it at any moment.
        function.__kwdefaults__ = {
            "_ask": lambda *args, **kwargs: replacement(torchs_own, _this_thread.worker, *args, **kwargs)
        }
        function.__code__ = ask.__code__
        function.__signature__ = signature

    return change


def _get_worker_info(torchs_own: Callable[[], Any], of_thread: WorkerGlobals | None) -> Any:
    return torchs_own() if of_thread is None else of_thread.info


def _new_shared(
    torchs_own: Callable[..., Any], of_thread: WorkerGlobals | None, cls: Any, size: int, **options: Any
) -> Any:
    """Gives default_collate, which asks for shared memory in a worker, the worker's own memory instead."""
    # The frames between default_collate and this one: three functions of torch, and the lambda of _change_of().
    if of_thread is None or sys._getframe(4).f_globals is not vars(collate):
        return torchs_own(cls, size, **options)
    memory = of_thread.memory if torch.device(options.get("device") or "cpu").type == "cpu" else None
    return cls(size, **options) if memory is None else memory.storage(cls, size)


def _of_generator(
    replacement: Callable[..., Any],
    torchs_own: Callable[..., Any],
    of_thread: WorkerGlobals | None,
    *args: Any,
    **kwargs: Any,
) -> Any:
    if of_thread is None:
        return torchs_own(*args, **kwargs)
    return replacement(of_thread.generator, *args, **kwargs)


# The seeds of devices are left out. They belong to the training, and torch's worker processes cannot reach them either.
_OF_GENERATOR: dict[str, Callable[..., Any]] = {
    "manual_seed": lambda generator, seed: generator.manual_seed(int(seed)),
    "seed": lambda generator: generator.seed(),
    "initial_seed": lambda generator: generator.initial_seed(),
    "get_rng_state": lambda generator: generator.get_state(),
    "set_rng_state": lambda generator, new_state: generator.set_state(new_state),
}
