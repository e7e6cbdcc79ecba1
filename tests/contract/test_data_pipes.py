"""Data pipes, whose graph torch seeds, shuffles and shards: the same batches as from torch's DataLoader."""

from __future__ import annotations

import errno
import functools
import os
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed
from both_loaders import assert_same
from torch.utils.data import get_worker_info, graph_settings
from torch.utils.data.datapipes.iter import IterableWrapper
from torch.utils.data.datapipes.map import SequenceWrapper

import fastload
from fastload._iteration.processes import _worker_processes

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:Some child DataPipes")


def _drawn(number: int) -> tuple[int, float]:
    return number, torch.rand(()).item()


PIPES: dict[str, Callable[[], Any]] = {
    "sharded": lambda: IterableWrapper(range(20)).shuffle().sharding_filter().map(_drawn),
    "shuffled by index": lambda: SequenceWrapper(range(20)).shuffle(),
    "indexed": lambda: SequenceWrapper(range(20)).map(_drawn),
}


def _seed_again(worker_id: int) -> None:
    """Replaces the seeds that torch has given the graph."""
    graph_settings.apply_random_seed(get_worker_info().dataset, torch.Generator().manual_seed(worker_id))  # type: ignore[union-attr]


def _epochs_of_pipe(kind: Any, pipe: str, **arguments: Any) -> Any:
    """Returns three epochs, and the states that torch's default generator and the loader's are left in."""
    torch.manual_seed(6)
    loader = kind(PIPES[pipe](), batch_size=3, **arguments)
    epochs = [list(map(repr, loader)) for _ in range(3)]
    generator = arguments.get("generator") or torch.default_generator
    return epochs, torch.get_rng_state().tolist(), generator.get_state().tolist()


@pytest.mark.parametrize("workers", [(0, False), (1, False), (2, False), (2, True)])
@pytest.mark.parametrize("shuffle", [None, False, True])
@pytest.mark.parametrize("pipe", PIPES)
@pytest.mark.parametrize("has_generator", [False, True])
@pytest.mark.parametrize("init_fn", [None, _seed_again])
def test_data_pipes_are_shuffled_sharded_and_seeded_as_by_torch(
    pipe: str, shuffle: bool | None, workers: tuple[int, bool], has_generator: bool, init_fn: Any
) -> None:
    def run(kind: Any) -> Any:
        generator = torch.Generator().manual_seed(7) if has_generator else None
        num_workers, persistent_workers = workers
        return _epochs_of_pipe(
            kind,
            pipe,
            shuffle=shuffle,
            num_workers=num_workers,
            persistent_workers=persistent_workers,
            generator=generator,
            worker_init_fn=init_fn,
        )

    assert_same(run)


@pytest.mark.filterwarnings("ignore:.*gives every sample to each of them")
@pytest.mark.parametrize("pipe", PIPES)
@pytest.mark.parametrize("num_workers", [0, 2])
def test_ranks_share_the_items_of_a_data_pipe(pipe: str, num_workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"is_initialized": True, "get_rank": 1, "get_world_size": 3, "new_group": None}.items():
        monkeypatch.setattr(torch.distributed, name, lambda *_, value=value, **__: value)
    mine = assert_same(functools.partial(_epochs_of_pipe, pipe=pipe, num_workers=num_workers))
    assert len("".join(mine[0][0])) > 0


def test_a_data_pipe_is_not_moved_to_threads_when_no_process_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: Any) -> None:
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(_worker_processes, "start_workers", refuse)
    with pytest.raises(BlockingIOError):
        iter(fastload.DataLoader(IterableWrapper(range(3)), num_workers=2))


@pytest.mark.parametrize("workers", ["auto", "threads", "processes"])
def test_workers_of_data_pipes_are_processes(workers: Any) -> None:
    loader = fastload.DataLoader(IterableWrapper(range(5)), batch_size=2, workers=workers, num_workers=1)
    reason = "threads cannot share the graph of a data pipe"
    assert loader.explain().verdict == f"not native: samples are loaded in Python, by one process: {reason}"
    assert [batch.tolist() for batch in loader] == [[0, 1], [2, 3], [4]]
    assert "1 process" in repr(loader)
