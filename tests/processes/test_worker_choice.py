"""workers="auto": the choice between threads and processes, and what a program sees of it."""

from __future__ import annotations

import errno
import functools
import multiprocessing
import os
import pickle
import sys
import threading
import types
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import recipes
import torch
from both_loaders import Threads
from flat_values import flat
from image_folders import make_clean_folder
from numbered import Numbered
from torch.utils.data import IterableDataset, RandomSampler, get_worker_info
from torchvision.datasets import ImageFolder

import fastload
from fastload._iteration.processes._maker import ProcessMaker

Auto = functools.partial(fastload.DataLoader, workers="auto")
MAIN_PID = os.getpid()
OF_TORCH = "Cannot re-initialize CUDA in forked subprocess"


def use_cuda() -> None:
    """Uses CUDA as after a fork, if the calling process is a worker."""
    if os.getpid() != MAIN_PID:
        with mock.patch.object(torch.cuda, "_is_in_bad_fork", return_value=True):
            torch.cuda._lazy_init()


class UsesCuda(Numbered):
    """Its samples use CUDA from index `first` on; `bad` is one that cannot be loaded."""

    def __init__(self, first: int = 0, bad: int = -1) -> None:
        super().__init__()
        self.first, self.bad = first, bad

    def sample(self, index: int) -> Any:
        if index >= self.first:
            use_cuda()
        if index == self.bad:
            raise ValueError("a bad sample")
        return index, torch.rand(2)


class Stream(IterableDataset[Any]):
    """A stream whose shards end one after another, with a position for each worker."""

    def __init__(self) -> None:
        self.positions = {0: 0, 1: 0}

    def __iter__(self) -> Any:
        worker, positions = self._worker(), self.positions
        while positions[worker] < 5 + 4 * worker:
            positions[worker] += 1
            use_cuda()
            yield positions[worker] * 10 + worker, torch.rand(1)
        positions[worker] = 0

    def _worker(self) -> int:
        info = get_worker_info()
        assert info is not None
        return info.id

    def state_dict(self) -> Any:
        return {"position": self.positions[self._worker()]}

    def load_state_dict(self, state: Any) -> None:
        use_cuda()
        self.positions[self._worker()] = state["position"]


class CountedSampler(RandomSampler):
    num_asked = 0

    def __iter__(self) -> Iterator[int]:
        self.num_asked += 1
        return super().__iter__()


def kind_of_workers(iterator: Any) -> str:
    return "threads" if isinstance(iterator._workers[0], threading.Thread) else "processes"


# ---- the rules -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> ImageFolder:
    return ImageFolder(str(make_clean_folder(tmp_path_factory.mktemp("clean"), 6)), recipes.evaluation(40, 32))


@pytest.mark.parametrize(
    ("arguments", "makers"),
    [
        ({}, "by 2 threads"),
        ({"collate_fn": list}, "by 2 processes: collate list runs in Python"),
        ({"dataset": Numbered()}, "by 2 processes: your Python runs for each sample"),
        ({"dataset": Numbered(), "num_workers": 1}, "by one process: your Python runs for each sample"),
        ({"dataset": Numbered(), "num_workers": 0}, "in the calling thread"),
        ({"dataset": Numbered(), "workers": "threads"}, "by 2 threads"),
        ({"dataset": Numbered(), "workers": "processes"}, "by 2 processes"),
    ],
)
def test_form_and_reason_are_shown(images: ImageFolder, arguments: dict[str, Any], makers: str) -> None:
    loader = Auto(**{"dataset": images, "num_workers": 2, **arguments})
    assert loader.explain().verdict.endswith(f" {makers}")
    if arguments.keys() <= {"collate_fn", "dataset"}:
        assert "2 workers" in repr(loader)
        next(iter(loader))
        assert ("2 processes" if "process" in makers else "2 threads") in repr(loader)


@pytest.mark.parametrize("is_native", [False, True])
def test_too_many_workers_are_counted_as_what_they_will_be(images: ImageFolder, is_native: bool) -> None:
    with pytest.warns(UserWarning, match="threads, more than" if is_native else "worker processes"):
        Auto(images if is_native else Numbered(), num_workers=(os.cpu_count() or 1) + 1)


# ---- objects of a GPU ------------------------------------------------------------------------------------------------


class OnGpu:
    """Made by cupy. No method of it is to be called."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} was asked for")


OnGpu.__module__ = "cupy._core.core"


class Holds(Numbered):
    def __init__(self, held: Any) -> None:
        super().__init__()
        self.held = held


def _closure(held: Any) -> Callable[..., Any]:
    return lambda samples: (samples, held)[0]


@pytest.mark.parametrize(
    "arguments",
    [
        lambda held: {"dataset": Holds([{"deep": held}])},
        lambda held: {"dataset": Numbered(), "collate_fn": functools.partial(_closure, held)},
        lambda held: {"dataset": Numbered(), "collate_fn": _closure(held)},
        lambda held: {"dataset": Numbered(), "worker_init_fn": Holds(held).__getitem__},
    ],
    ids=["container", "partial", "closure", "method"],
)
def test_objects_of_packages_for_gpus_are_found(monkeypatch: pytest.MonkeyPatch, arguments: Any) -> None:
    monkeypatch.setitem(sys.modules, "cupy", types.ModuleType("cupy"))
    found = arguments(OnGpu())
    verdict = Auto(num_workers=2, **found).explain().verdict
    assert "by 2 threads: " in verdict
    assert verdict.endswith("is made by cupy, which works on a GPU, which a forked process cannot use")
    assert "by 2 processes" in fastload.DataLoader(num_workers=2, workers="processes", **found).explain().verdict
    assert "by 2 processes: your" in Auto(num_workers=2, multiprocessing_context="spawn", **found).explain().verdict


def test_tensors_and_modules_on_a_gpu_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    class Elsewhere(torch.Tensor):
        @classmethod
        def __torch_dispatch__(cls, *_: Any) -> Any:
            raise AssertionError("a method was called")

    monkeypatch.setattr(torch.backends.cuda, "is_built", lambda: True)
    tensor = torch.Tensor._make_wrapper_subclass(Elsewhere, (2,), device="cuda:1")  # type: ignore[attr-defined]
    module = torch.nn.Linear(2, 2)
    module._parameters["weight"] = tensor
    for held, path in ((tensor, ""), (module, "._parameters['weight']")):
        verdict = Auto(Holds(held), num_workers=1).explain().verdict
        assert f"by one thread: dataset.held{path} is a Tensor on cuda:1" in verdict
    assert "by one process" in Auto(Holds(torch.nn.Linear(2, 2)), num_workers=1).explain().verdict


# ---- CUDA in a worker ------------------------------------------------------------------------------------------------


def _epoch(make: Any, dataset: Any, **arguments: Any) -> list[Any]:
    """Returns the batches of two epochs, the state after each batch, and where torch's generator ends."""
    torch.manual_seed(5)
    loader, found = make(dataset, **{"batch_size": 3, "num_workers": 2, **arguments}), []
    for _ in range(2):
        for batch in loader:
            found.append((flat(batch), flat(loader.state_dict())))
    return [found, flat(torch.get_rng_state())]


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"shuffle": True, "persistent_workers": True},
        {"rng": "sample", "seed": 3, "shuffle": True, "prefetch_factor": 3},
        {"snapshot_every_n_steps": 4, "num_workers": 1},
    ],
)
@pytest.mark.parametrize("dataset", [UsesCuda, Stream])
def test_an_epoch_begins_again_as_if_threads_had_begun_it(dataset: Any, arguments: dict[str, Any]) -> None:
    if dataset is Stream:
        arguments = {name: value for name, value in arguments.items() if name != "shuffle"}
    children, expected = set(multiprocessing.active_children()), _epoch(Threads, dataset(), **arguments)
    with pytest.warns(RuntimeWarning, match="has begun again in threads") as caught:
        assert _epoch(Auto, dataset(), **arguments) == expected
    assert len(caught) == 1
    assert children.issuperset(multiprocessing.active_children())


def test_a_resumed_epoch_begins_again_too() -> None:
    torch.manual_seed(5)
    loader = Threads(Stream(), 3, num_workers=2)
    iterator = iter(loader)
    next(iterator)
    state, expected = pickle.dumps(loader.state_dict()), flat(list(iterator))
    again = Auto(Stream(), 3, num_workers=2)
    again.load_state_dict(pickle.loads(state))
    with pytest.warns(RuntimeWarning, match="has begun again in threads"):
        assert flat(list(again)) == expected


def test_bad_samples_are_the_same_ones(tmp_path: Path) -> None:
    ledgers, arguments = [tmp_path / "threads", tmp_path / "auto"], {"on_error": "skip", "max_errors": 1.0}
    expected = _epoch(Threads, UsesCuda(bad=5), ledger=ledgers[0], **arguments)
    with pytest.warns(RuntimeWarning, match="has begun again in threads"):
        assert _epoch(Auto, UsesCuda(bad=5), ledger=ledgers[1], **arguments) == expected
    lines = [[line.partition('"index"')[2] for line in ledger.read_text().splitlines()] for ledger in ledgers]
    assert lines[0] == lines[1]
    assert lines[0]


def test_the_sampler_is_asked_once_and_the_loader_remembers() -> None:
    sampler = CountedSampler(UsesCuda())
    loader = Auto(UsesCuda(), sampler=sampler, num_workers=2)
    iterator = iter(loader)
    assert kind_of_workers(iterator) == "processes"
    num_asked = sampler.num_asked
    with pytest.warns(RuntimeWarning, match="has begun again in threads"):
        next(iterator)
    assert sampler.num_asked == num_asked
    assert kind_of_workers(iterator) == "threads"
    assert "by 2 threads: your Python uses CUDA, which a forked process cannot" in loader.explain().verdict
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert kind_of_workers(iter(loader)) == "threads"


@pytest.mark.parametrize(("workers", "first"), [("auto", 2), ("processes", 0)])
def test_a_later_use_of_cuda_is_an_error_with_a_next_step(workers: Any, first: int) -> None:
    iterator = iter(fastload.DataLoader(UsesCuda(first=first), 2, num_workers=2, workers=workers))
    if first:
        next(iterator)
    with pytest.raises(RuntimeError, match=OF_TORCH) as raised:
        next(iterator)
    assert str(raised.value).rstrip().endswith('pass workers="threads"')


@pytest.mark.parametrize("step", ["_start_threads", "submit"])
def test_an_interrupt_while_it_begins_again_loses_nothing(monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    torch.manual_seed(5)
    expected = flat(list(Threads(UsesCuda(), 3, num_workers=2)))
    left, called = [KeyboardInterrupt()], getattr(ProcessMaker, step)

    def interrupted(maker: Any, *arguments: Any) -> Any:
        found = called(maker, *arguments)
        if maker._moved is not None and left:
            raise left.pop()
        return found

    monkeypatch.setattr(ProcessMaker, step, interrupted)
    torch.manual_seed(5)
    iterator = iter(Auto(UsesCuda(), 3, num_workers=2))
    with pytest.raises(KeyboardInterrupt):
        next(iterator)
    with pytest.warns(RuntimeWarning, match="has begun again in threads"):
        assert flat(list(iterator)) == expected


# ---- no process can be started ---------------------------------------------------------------------------------------


def _twice(make: Any) -> list[Any]:
    torch.manual_seed(5)
    loader = make(Numbered(), 4, shuffle=True, num_workers=2)
    iterator = iter(loader)
    assert kind_of_workers(iterator) == "threads"
    return [flat(list(iterator)), flat(list(loader))]


@pytest.mark.parametrize("number", [errno.EAGAIN, errno.ENOMEM, errno.EPERM])
def test_where_the_system_refuses_a_fork_threads_work(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    children, expected = set(multiprocessing.active_children()), _twice(Threads)
    fork, left = os.fork, [True]

    def refused() -> int:
        if left:
            left.clear()
            return fork()
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fork", refused)
    with pytest.warns(RuntimeWarning, match=rf"starts no process \({os.strerror(number)}\), so threads") as caught:
        assert _twice(Auto) == expected
    assert len(caught) == 1
    assert children.issuperset(multiprocessing.active_children())
    with pytest.raises(OSError, match=os.strerror(number)):
        iter(fastload.DataLoader(Numbered(), num_workers=2, workers="processes"))


def test_another_error_of_the_start_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused() -> int:
        raise OSError(errno.EMFILE, "too many files")

    monkeypatch.setattr(os, "fork", refused)
    with pytest.raises(OSError, match="too many files"):
        iter(Auto(Numbered(), num_workers=2))


def test_in_a_daemonic_process_threads_work(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = _twice(Threads)
    monkeypatch.setitem(multiprocessing.current_process()._config, "daemon", True)  # type: ignore[attr-defined]
    with pytest.warns(RuntimeWarning, match="this process is daemonic and cannot start processes, so") as caught:
        assert _twice(Auto) == expected
    assert len(caught) == 1
    with pytest.raises(AssertionError, match="daemonic processes are not allowed to have children"):
        iter(fastload.DataLoader(Numbered(), num_workers=2, workers="processes"))
