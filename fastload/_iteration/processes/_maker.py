"""Batches made by processes that run Python."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

from fastload._decode_cache._worker_cache import WorkerCache
from fastload._iteration._maker import TorchValues
from fastload._iteration.processes._child import ChildPlan
from fastload._iteration.processes._process_group import ProcessGroup, context_of
from fastload._iteration.python._fetcher import FetchPlan
from fastload._iteration.python._loader_workers import LoaderWorkers
from fastload._iteration.python._maker import WorkerMaker
from fastload._iteration.python._pinning import pinning_of
from fastload._iteration.python._python_plan import PythonPlan
from fastload._iteration.python._resume_point import resume_points
from fastload._iteration.python._worker_group import WorkerGroup
from fastload._workers._data_pipes import with_graph
from fastload._workers._places import HeldGenerators
from fastload._workers._user_code import NAMES


class ProcessMaker(WorkerMaker):
    """Makes batches with the user's dataset and collate_fn in processes, as torch's DataLoader does.

    Args:
        plan: How the batches are made.
        record: The loader's record of its iterations in workers.
        context: The loader's multiprocessing_context, or None.
        make_cache: Opens a process's cache of decoded images. Can be pickled.
    """

    def __init__(
        self,
        plan: PythonPlan,
        record: LoaderWorkers,
        context: Any,
        make_cache: Callable[[], WorkerCache],
    ) -> None:
        super().__init__(plan, record)
        self._context, self._make_cache = context_of(context), make_cache

    def _new_group(self, values: TorchValues) -> WorkerGroup:
        setup, code, fetch = self._setup, with_graph(self._plan.code, values.graph_seed), self._plan.fetch
        is_forked = self._context.get_start_method() == "fork"
        child = ChildPlan(
            code=code,
            held=HeldGenerators(code.roots, NAMES) if is_forked else None,
            make_fetch_plan=functools.partial(
                FetchPlan,
                is_batched=fetch.is_batched,
                drop_last=fetch.drop_last,
                rng=fetch.rng,
                naming=fetch.naming,
                make_guard=fetch.make_guard,
                native_images=fetch.native_images,
            ),
            make_cache=self._make_cache,
            num_workers=setup.num_threads,
            base_seed=values.base_seed,
            is_in_order=self._plan.is_ordered,
            resume_point=resume_points(setup.resumed, setup.num_threads),
            max_batches=setup.max_batches,
            parent_pid=os.getpid() if is_forked else None,
        )
        return ProcessGroup(
            child,
            context=self._context,
            record=self._record,
            pinning=pinning_of(setup.delivery, values),
            in_order=setup.is_in_order,
            max_batches=setup.max_batches,
        )
