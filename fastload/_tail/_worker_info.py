"""torch.utils.data.get_worker_info() for threads: each sees its own, the others see what torch says."""

from __future__ import annotations

import functools
import inspect
import sys
import threading
from typing import Any

import torch.utils.data
from torch.utils.data._utils import collate, worker


class _ThreadInfo(threading.local):
    worker_info: Any = None


_this_thread = _ThreadInfo()


def set_worker_info(worker_id: int, num_workers: int, seed: int, dataset: Any) -> None:
    """Makes ``torch.utils.data.get_worker_info()`` in this thread tell these values, for the rest of its life.

    Code that has imported the function itself by name before the first call of this one keeps torch's, which says None.
    """
    fields: dict[str, Any] = {"id": worker_id, "num_workers": num_workers, "seed": seed, "dataset": dataset}
    if "worker_method" in inspect.signature(worker.WorkerInfo).parameters:
        fields["worker_method"] = "thread"
    info = worker.WorkerInfo(**fields)
    if (own_of_torch := getattr(worker, "_thread_local_worker_info", None)) is not None:
        own_of_torch.worker_info = info
        return
    _this_thread.worker_info = info
    _install()


@functools.cache
def _install() -> None:
    torchs_own = torch.utils.data.get_worker_info

    @functools.wraps(torchs_own)
    def get_worker_info() -> Any:
        if (info := torchs_own()) is not None or (info := _this_thread.worker_info) is None:
            return info
        # default_collate asks whether to write into memory that processes share; here is one process.
        is_asked_by_collate = sys._getframe(1).f_globals is vars(collate)
        return None if is_asked_by_collate else info

    for module in (torch.utils.data, worker):
        vars(module)["get_worker_info"] = get_worker_info
