"""Finds the objects that workers share although they could change, with the reasons, for explain()."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fastload._workers._kinds import HANDLE
from fastload._workers._objects import copies
from fastload._workers._walk import walk

_OPEN_ONE_EACH = (
    "open it when a sample is first asked for or in worker_init_fn, or use fastload.per_thread(open_it), so that each "
    "worker has its own"
)
_DO_NOT_CHANGE = "where workers only read it, nothing is to be done"
_MAKE_ONE_EACH = (
    "make it in worker_init_fn, so that each worker has its own; where workers only read it, nothing is to be done"
)


@dataclass(frozen=True)
class SharedObject:
    """An object that all workers of a loader share, while torch's worker processes each have a copy.

    Attributes:
        path: The path from the loader's arguments: `dataset.index[3].env`.
        type_name: The name of its class, with the module.
        reason: Why it is not copied.
        remedy: How each worker gets one of its own.
    """

    path: str
    type_name: str
    reason: str
    remedy: str


def shared_rows(roots: tuple[Any, ...], names: tuple[str, ...]) -> tuple[SharedObject, ...]:
    """Returns a row for each shared object. Makes copies for one worker, and drops them.

    Args:
        roots: The dataset, collate_fn, worker_init_fn.
        names: Their names, with which paths begin.
    """
    (own,) = copies(roots, 1)
    shared = {id(thing): (thing, reason) for thing, reason in own.shared}
    own.end()
    rows = []
    for path, thing in walk(roots, names):
        if (found := shared.pop(id(thing), None)) is not None:
            rows.append(_row(path, *found))
    return (*rows, *(_row("", thing, reason) for thing, reason in shared.values()))


def _row(path: str, thing: Any, reason: str) -> SharedObject:
    kind = type(thing)
    module, name = (type.__getattribute__(kind, attribute) for attribute in ("__module__", "__qualname__"))
    is_handle = reason == HANDLE or "lmdb" in reason
    is_large = "MiB" in reason or "elements" in reason
    remedy = _OPEN_ONE_EACH if is_handle else _DO_NOT_CHANGE if is_large else _MAKE_ONE_EACH
    return SharedObject(path, name if module == "builtins" else f"{module}.{name}", reason, remedy)
