"""Batches that fastload's own worker processes make: memory, states, failures and ends."""

from __future__ import annotations

import ctypes
import functools
import itertools
import multiprocessing
import os
import pickle
import re
import signal
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from both_loaders import Processes
from child_loader import wait_for
from children import RunChild
from flat_values import flat
from image_folders import save_jpeg
from numbered import Numbered
from PIL import Image
from process_faults import forking_thread
from torch.utils.data import DataLoader

import fastload
from fastload._iteration.processes import _arenas
from fastload._iteration.processes._packing import pack, unpack

SIDE = 160  # a float32 image of it has more than the bytes that are sent with their message


class Images(Numbered):
    """Images that are told apart by any of their numbers."""

    def sample(self, index: int) -> Any:
        return torch.full((SIDE, SIDE), float(index)), torch.rand(2), index


# ---- messages --------------------------------------------------------------------------------------------------------


def _sent(value: Any) -> Any:
    packed = pack(value)
    memory = [
        torch.frombuffer(bytearray(ctypes.string_at(part.address, part.nbytes)), dtype=torch.uint8).untyped_storage()
        if part.nbytes
        else torch.UntypedStorage(0)
        for part in packed.parts
    ]
    return unpack(packed.data, packed.begins, memory), sum(part.nbytes for part in packed.parts)


def test_a_view_is_sent_without_the_rest_of_its_storage() -> None:
    base = torch.arange(100_000.0)
    value, num_bytes = _sent([base[10:20], base[15:30:2], base.view(100, 1000).t()[3, :4]])
    assert flat(value) == flat([base[10:20], base[15:30:2], base.view(100, 1000).t()[3, :4]])
    assert num_bytes < 4 * 3100
    assert value[1].stride() == (2,)
    assert value[0].untyped_storage().data_ptr() == value[1].untyped_storage().data_ptr()
    value[0][5] = -1.0
    assert value[1][0] == -1.0


@pytest.mark.parametrize(
    "tensor",
    [
        torch.empty(0, 3),
        torch.tensor(5),
        torch.arange(6).view(2, 3).t(),
        torch.ones(2, 3).to_sparse(),
        torch.ones(3).expand(4, 3),
        torch.nn.Parameter(torch.ones(2)),
        torch.ones(3, dtype=torch.bfloat16),
    ],
    ids=lambda tensor: f"{tensor.dtype} {tuple(tensor.shape)}",
)
def test_tensors_of_every_kind_come_as_they_were(tensor: torch.Tensor) -> None:
    value, _ = _sent(tensor)
    assert type(value) is type(tensor)
    assert (value.dtype, value.shape, value.layout) == (tensor.dtype, tensor.shape, tensor.layout)
    assert value.requires_grad == tensor.requires_grad
    plain = (each.to_dense() for each in (value, tensor))
    assert torch.equal(*plain)


ARRAYS = {
    "read-only": np.broadcast_to(np.float32(3.0), (2, 3)),
    "image": np.asarray(Image.new("RGB", (200, 200))),
    "big-endian": np.arange(3, dtype=">i4"),
    "columns": np.asfortranarray(np.ones((2, 3))),
}


@pytest.mark.parametrize("loader", [DataLoader, Processes])
def test_arrays_in_a_batch_may_be_changed_as_with_torch(loader: Any) -> None:
    batches = loader(list(ARRAYS), batch_size=None, num_workers=1, collate_fn=ARRAYS.get)
    for array in batches:
        array += 1
        assert array.dtype.isnative


# ---- memory ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("variables", "keeps"), [({}, True), ({"MALLOC_TRIM_THRESHOLD_": "131072"}, False)])
def test_a_worker_keeps_the_memory_that_a_sample_frees_unless_the_user_has_set_that(
    run_child: RunChild, variables: dict[str, str | None], keeps: bool
) -> None:
    result = run_child(
        """
        import resource
        import numpy as np
        import fastload

        class Temporaries:
            num_before = 0
            def __len__(self):
                return 20
            def __getitem__(self, index):
                arrays = [np.full(8_000_000, 1, np.uint8) for _ in range(4)]
                del arrays
                num_faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
                before, self.num_before = self.num_before, num_faults
                return num_faults - before

        print(max(map(int, list(fastload.DataLoader(Temporaries(), num_workers=1))[10:])))
        """,
        env=variables,
    )
    assert (int(result.stdout) < 100) == keeps, result.stdout


def _write_into_free_slots(_: int) -> None:
    """Makes a worker fill each slot that is free whenever it is told of copied batches."""
    set_free = _arenas.SlotMemory.set_free

    def set_free_and_fill(memory: _arenas.SlotMemory, keys: list[int]) -> None:
        set_free(memory, keys)
        assert memory._slots is not None
        buffers = []
        for _ in range(15):  # a slot with a buffer is not free
            memory._slots.begin_batch()
            if (buffer := memory._slots.allocate(1 << 20)) is not None:
                torch.frombuffer(buffer, dtype=torch.uint8).fill_(0xA5)
                buffers.append(buffer)
            memory._slots.end_batch()
        assert len(buffers) > 1

    _arenas.SlotMemory.set_free = set_free_and_fill  # type: ignore[method-assign]


class _Saved(torch.autograd.Function):
    """Saves a batch for the backward pass."""

    @staticmethod
    def forward(context: Any, images: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        context.save_for_backward(images)
        return weight.sum()

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> Any:
        return None, context.saved_tensors[0][:, 0, 0]


@pytest.mark.parametrize("is_persistent", [False, True])
def test_a_batch_never_changes_while_it_is_held(is_persistent: bool) -> None:
    loader = Processes(
        Images(60), 2, num_workers=2, prefetch_factor=4, persistent_workers=is_persistent,
        worker_init_fn=_write_into_free_slots,
    )  # fmt: skip
    held: list[Any] = []
    with forking_thread(functools.partial(os._exit, 7)), forking_thread(functools.partial(os._exit, 7)):
        for _ in range(3):
            for images, _, numbers in loader:
                assert images.untyped_storage().nbytes() == images.nbytes
                weight = torch.zeros(2, requires_grad=True)
                views = (
                    images[0, 3:],
                    images.numpy()[1],
                    memoryview(images.numpy()),
                    images.as_strided((2, 3), (7, 5), 11),
                    torch.from_dlpack(images),
                    (weight, _Saved.apply(images, weight)),
                    pickle.dumps(images[1, :2]),
                )
                held.append((numbers.tolist(), images, views))
    assert len(held) == 90
    for (first, second), images, views in held:
        assert (images[0] == first).all()
        assert (images[1] == second).all()
        assert (views[0] == first).all()
        assert (views[1] == second).all()
        assert np.asarray(views[2])[1, 0, 0] == second
        assert (views[3] == first).all()
        assert (views[4][1] == second).all()
        views[5][1].backward()
        assert views[5][0].grad.tolist() == [first, second]
        assert (pickle.loads(views[6]) == second).all()
    assert not held[0][1].is_shared()


def _keeping() -> Any:
    kept: list[Any] = []

    def collate(samples: Any) -> Any:
        kept.append(torch.utils.data.default_collate(samples))
        return kept[-1], kept[max(0, len(kept) - 3)]  # an older one, too

    return collate


def test_batches_that_a_worker_keeps_stay_its_own() -> None:
    for new, old in Processes(Images(80), 2, num_workers=1, collate_fn=_keeping()):
        assert (new[0][0] == new[2][0]).all()
        assert (old[0][1] == old[2][1]).all()


@pytest.mark.parametrize("method", ["spawn", pytest.param("forkserver", marks=pytest.mark.slow)])
def test_workers_that_are_not_forked_have_arenas_too(method: str) -> None:
    loaders = (kind(Images(8), 4, num_workers=1, multiprocessing_context=method) for kind in (DataLoader, Processes))
    theirs, mine = (flat([(images, numbers) for images, _, numbers in loader]) for loader in loaders)
    assert mine == theirs


class Large(Numbered):
    def __getitem__(self, indices: Any) -> Any:
        return len(indices), os.urandom(5_000_000)


def test_large_requests_and_answers_wait_for_nothing() -> None:
    """Neither end blocks in a write while the other does."""
    batches = [list(range(50_000))] * 6
    loader = Processes(Large(), sampler=batches, batch_size=None, num_workers=2, prefetch_factor=3, timeout=60)
    assert [(number, len(data)) for number, data in loader] == [(50_000, 5_000_000)] * 6


class QuickThenHeld(Numbered):
    """A sample of many small tensors, or an error with a long text; sample 2 comes when it may."""

    def __init__(self) -> None:
        super().__init__()
        self.may_come = multiprocessing.Event()

    def __getitem__(self, index: int) -> Any:
        if index == 2:
            assert self.may_come.wait(30)
        if index == 1:
            raise ValueError("long" * 500_000)
        return [torch.full((4_000,), float(number)) for number in range(200)]


@pytest.mark.parametrize("index", [0, 1])
def test_a_long_answer_does_not_wait_for_the_next_sample(index: int) -> None:
    dataset = QuickThenHeld()
    iterator = iter(Processes(dataset, sampler=[index, 2], batch_size=None, num_workers=1))
    if index == 1:
        with pytest.raises(ValueError, match="longlong"):
            next(iterator)
    else:
        assert [float(tensor[-1]) for tensor in next(iterator)] == [float(number) for number in range(200)]
    dataset.may_come.set()
    assert len(next(iterator)) == 200


def test_a_worker_is_seeded_if_another_thread_seeds_at_its_fork() -> None:
    """torch's worker waits for ever for the locks that it inherits."""
    with torch.cuda._initialization_lock, torch.mtia._initialization_lock, torch.xpu._initialization_lock:
        iterator = iter(Processes(range(4), 4, num_workers=1, timeout=20))
    assert next(iterator).tolist() == [0, 1, 2, 3]


# ---- states ----------------------------------------------------------------------------------------------------------


def test_a_state_of_threads_goes_on_in_processes() -> None:
    torch.manual_seed(3)
    threads = fastload.DataLoader(Images(), 4, num_workers=2, shuffle=True)
    iterator = iter(threads)
    batches = [flat(next(iterator)) for _ in range(2)]
    state = threads.state_dict()
    batches += map(flat, iterator)
    processes = Processes(Images(), 4, num_workers=2, shuffle=True)
    processes.load_state_dict(state)
    assert [*batches[:2], *map(flat, processes)] == batches


class Opening(Numbered):
    def __init__(self, folder: Path) -> None:
        self.paths = sorted(folder.rglob("*.JPEG"))
        super().__init__(len(self.paths))

    def sample(self, index: int) -> Any:
        return np.asarray(Image.open(self.paths[index]).convert("RGB").crop((300, 300, 360, 360)))


class Bad(Numbered):
    def sample(self, index: int) -> Any:
        if index % 5 == 3:
            raise OSError(f"sample {index} is bad")
        return index


@pytest.mark.parametrize("on_error", ["skip", "replace"])
def test_bad_samples_are_treated_as_in_threads(on_error: Any, tmp_path: Path) -> None:
    def run(workers: Any) -> Any:
        ledger = tmp_path / f"{workers}.jsonl"
        loader = fastload.DataLoader(Bad(), 4, num_workers=2, workers=workers, on_error=on_error, ledger=ledger)
        batches = [batch.tolist() for batch in loader]
        stats = loader.stats()
        return batches, stats.samples_replaced, stats.samples_skipped, len(ledger.read_text().splitlines())

    assert run("processes") == run("threads")


def test_workers_share_the_indexes_that_they_make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FASTLOAD_CACHE", str(tmp_path))
    for number in range(4):
        save_jpeg(tmp_path / f"{number}.JPEG", number, 640, 480)
    dataset = Opening(tmp_path)
    for _ in range(2):
        assert len(list(Processes(dataset, None, num_workers=2))) == len(dataset)
    threads = fastload.DataLoader(dataset, None, num_workers=1, cache=fastload.Cache(tmp_path / "decode"))
    assert len(list(threads)) == len(dataset)
    assert threads.stats().cache_hits == len(dataset)


# ---- failures --------------------------------------------------------------------------------------------------------


class Dying(Numbered):
    """Sample 4 ends its worker once."""

    def __init__(self, end: Any) -> None:
        super().__init__(12)
        self.end = end

    def sample(self, index: int) -> Any:
        if index == 4:
            self.end()
        return index


def _killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _interrupted() -> None:
    raise KeyboardInterrupt("of the data set")


@pytest.mark.parametrize(
    ("end", "text"),
    [
        (_killed, r"exited unexpectedly: DataLoader worker \(pid \d+\) is killed by signal: Killed"),
        (functools.partial(os._exit, 3), "exited unexpectedly with exit code 3"),
        (_interrupted, "exited unexpectedly with KeyboardInterrupt: of the data set"),
        (functools.partial(exit, 5), "exited unexpectedly with SystemExit: 5"),
    ],
    ids=["signal", "exit", "interrupt", "system exit"],
)
def test_the_end_of_a_worker_is_an_error_in_its_turn_and_the_others_go_on(end: Any, text: str) -> None:
    iterator = iter(Processes(Dying(end), 2, num_workers=2))
    seen = []
    for _ in range(6):
        try:
            seen.append(next(iterator).tolist())
        except RuntimeError as error:
            seen.append(str(error))
    assert [batch for batch in seen if isinstance(batch, list)] == [[0, 1], [2, 3], [6, 7], [10, 11]]
    assert isinstance(seen[2], str)
    assert re.search(text, seen[2]), seen[2]
    assert seen[2].startswith("DataLoader worker (pid(s) ")
    assert "asked for [4, 5]" in seen[2]


class Ending(Images):
    """Its worker ends after sample 7, with batches sent."""

    def sample(self, index: int) -> Any:
        if index == 8:
            time.sleep(0.5)  # the answers before are sent
            _killed()
        return super().sample(index)


def test_batches_that_a_dead_worker_has_sent_keep_their_bytes() -> None:
    iterator = iter(Processes(Ending(), 2, num_workers=1, prefetch_factor=8))
    taken = [next(iterator)]
    assert wait_for(lambda: iterator._workers[0].exitcode is not None)
    loader = iterator._maker._group
    assert wait_for(lambda: loader.pump(0.05) and bool(loader._lost))
    taken += [next(iterator) for _ in range(3)]
    for images, _, numbers in taken:
        assert (images[0] == numbers[0]).all()
        assert (images[1] == numbers[1]).all()
    with pytest.raises(RuntimeError, match="exited unexpectedly"):
        next(iterator)
    assert loader._arenas[0].resident_bytes() == 0


class Locked(Numbered):
    def sample(self, index: int) -> Any:
        return {"number": index, "deep": [index, threading.Lock() if index == 5 else None]}


def test_a_batch_that_cannot_be_sent_is_named() -> None:
    iterator = iter(Processes(Locked(), 2, num_workers=1, collate_fn=list))
    assert [next(iterator)[0]["number"], next(iterator)[0]["number"]] == [0, 2]
    with pytest.raises(RuntimeError, match=r"batch\[1\]\['deep'\]\[1\] is a lock, which cannot be pickled"):
        next(iterator)
    assert next(iterator)[0]["number"] == 6


class Particular(Exception):
    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")
        self.one = one


class Raising(Numbered):
    def sample(self, index: int) -> Any:
        error = Particular(index, 2)
        error.where = "here"  # type: ignore[attr-defined]
        raise error


def test_an_error_has_its_text_its_type_where_it_can_and_its_cause() -> None:
    with pytest.raises(RuntimeError, match="Caught Particular in DataLoader worker process 0") as caught:
        next(iter(Processes(Raising(), num_workers=1)))
    assert "0 and 2" in str(caught.value)


# ---- ends ------------------------------------------------------------------------------------------------------------


def _children() -> set[int]:
    return {process.pid or 0 for process in multiprocessing.active_children()}


@pytest.mark.parametrize("is_persistent", [False, True])
def test_a_dropped_iterator_ends_its_workers_without_a_wait(is_persistent: bool) -> None:
    before = _children()
    loader = Processes(Images(), 2, num_workers=2, persistent_workers=is_persistent)
    iterator = iter(loader)
    next(iterator)
    started = time.monotonic()
    del iterator, loader
    assert time.monotonic() - started < 2
    assert wait_for(lambda: _children() <= before)


def test_workers_end_with_the_epoch_and_with_close() -> None:
    before = _children()
    loader = Processes(Images(), 2, num_workers=2)
    list(loader)
    assert _children() <= before
    iterator = iter(loader)
    next(iterator)
    loader.close()
    assert _children() <= before
    with pytest.raises(fastload.LoaderClosedError):
        next(iterator)


def test_a_fork_of_the_program_keeps_no_worker_and_hides_no_death() -> None:
    iterator = iter(Processes(Dying(_killed), 2, num_workers=1))
    pid = os.fork()
    if pid == 0:
        time.sleep(60)
        os._exit(0)
    try:
        seen = list(itertools.islice(iterator, 2))
        assert len(seen) == 2
        with pytest.raises(RuntimeError, match="exited unexpectedly"):
            next(iterator)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def test_workers_end_with_a_parent_that_is_killed(run_child: RunChild, tmp_path: Path) -> None:
    run_child(
        f"""
        import os, signal, time
        import fastload
        from pathlib import Path
        from numbered import Numbered
        pid = os.fork()
        if pid == 0:
            iterator = iter(fastload.DataLoader(Numbered(), 2, num_workers=2, workers="processes"))
            next(iterator)
            Path({str(tmp_path / "pids")!r}).write_text(" ".join(str(worker.pid) for worker in iterator._workers))
            time.sleep(60)
        while not Path({str(tmp_path / "pids")!r}).exists():
            time.sleep(0.01)
        time.sleep(0.1)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        for worker in Path({str(tmp_path / "pids")!r}).read_text().split():
            end = time.monotonic() + 30
            while Path("/proc", worker).exists() and "State:\\tZ" not in Path("/proc", worker, "status").read_text():
                assert time.monotonic() < end, worker
                time.sleep(0.05)
        """
    )
