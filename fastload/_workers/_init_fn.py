"""Calls worker_init_fn for a loader whose threads run no Python."""

from __future__ import annotations

from collections.abc import Callable

import torch

from fastload._process._exit import start_threads
from fastload._process._started_thread import StartedThread
from fastload._workers._exchanges import exchanged
from fastload._workers._generators import WorkerGenerators
from fastload._workers._inherited import ThreadState, own_context
from fastload._workers._torch_globals import WorkerGlobals, set_worker_globals
from fastload._workers._user_code import UserCode
from fastload._workers._worker_error import WorkerFailure, without_frames


def init_native_workers(code: UserCode, num_workers: int, base_seed: int) -> list[torch.Generator] | WorkerFailure:
    """Calls worker_init_fn, if there is one, for each worker, in a thread that ends with the call.

    Returns:
        The workers' generators after their calls. If a call raised: the failure of each batch.

    Raises:
        ThreadStartError: The system refuses a thread.
    """
    generators: list[torch.Generator] = []
    if code.init_fn is None:
        return generators
    for worker_id in range(num_workers):
        of_worker = WorkerGenerators(base_seed, worker_id)
        call = _Call(code.init_fn, of_worker, WorkerGlobals.of(of_worker, num_workers, dataset=code.dataset))
        start_threads([call])
        call.join()
        if call.error is not None:
            failure = WorkerFailure.of(call.error, f"in DataLoader worker thread {worker_id}")
            without_frames(call.error)
            return failure
        generators.append(of_worker.torch)
    return generators


class _Call(StartedThread):
    """A call of `init_fn` as a worker with these generators and settings, and with the state of the calling thread."""

    def __init__(self, init_fn: Callable[[int], None], generators: WorkerGenerators, of_worker: WorkerGlobals) -> None:
        super().__init__(name=f"fastload-init-{generators.worker_id}", daemon=True)
        self._init_fn = init_fn
        self._generators = generators
        self._globals = of_worker
        self._state, self._context = ThreadState(), own_context()
        self.error: BaseException | None = None

    def run(self) -> None:
        generators = self._generators
        set_worker_globals(self._globals)
        try:
            with exchanged(), generators.entered(), self._state.entered():
                self._context.run(self._init_fn, generators.worker_id)
        except BaseException as error:  # noqa: BLE001 - a thread has no caller
            self.error = error
