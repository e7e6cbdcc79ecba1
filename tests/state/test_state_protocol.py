"""Promises of state_dict() and load_state_dict() besides the batches: their time, their subject, and their effects."""

from __future__ import annotations

import copy
import itertools
import pickle
import signal
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

import pytest
import recipes
import resumed_runs
import torch
from children import RunChild
from resumed_runs import SAMPLERS, Case, batch_of, program_bytes, resume, run_through
from state_checks import state_after_first
from torch.utils.data import Sampler
from torchvision.datasets import ImageFolder

import fastload


def states_on_the_way(loader: Any) -> tuple[list[dict[str, Any]], list[Any]]:
    """Returns the state before each batch and after the last, and the batches."""
    iterator, states, batches = iter(loader), [], []
    for batch in iterator:
        batches.append(batch_of(*batch))
        states.append(loader.state_dict())
    return states, batches


# ---- before the first iter() -----------------------------------------------------------------------------------------


def test_a_state_before_the_first_iteration_follows_what_changes(folder: Path) -> None:
    loader = Case(num_workers=2).make_loader(folder)
    assert loader.state_dict()["fastload"]["epoch"] == 0
    loader.set_epoch(3)
    assert loader.state_dict()["fastload"]["epoch"] == 3
    generator = loader.sampler.generator = torch.Generator().manual_seed(5)  # type: ignore[attr-defined]
    drawn = loader.state_dict()
    assert drawn["fastload"]["sampler"]["generators"]
    torch.rand(1, generator=generator)
    assert loader.state_dict()["fastload"]["sampler"] != drawn["fastload"]["sampler"]


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_nothing_is_begun_and_nothing_drawn_for_a_state_before_the_first_iteration(folder: Path, sampler: str) -> None:
    loader = Case(num_workers=2, sampler=sampler).make_loader(folder)
    threads, program = threading.active_count(), program_bytes()
    before = loader.state_dict()
    assert before["fastload"]["moment"] == "not begun"
    assert before == loader.state_dict()
    loader.load_state_dict(before)
    assert loader.state_dict() == before
    assert loader.stats().bytes_held == 0
    assert threading.active_count() == threads
    assert program_bytes() == program


def test_no_file_is_opened_for_a_state_before_the_first_iteration(folder: Path, run_child: RunChild) -> None:
    tests = str(Path(__file__).parent)
    child = run_child(
        f"""
        import sys
        sys.path.insert(0, {tests!r})
        import repository_path, torchvision_shim
        from resumed_runs import *
        opened = []
        loader = Case(num_workers=2).make_loader(Path({str(folder)!r}))
        loader.state_dict()
        sys.addaudithook(lambda event, arguments: opened.append(arguments) if event in ("open", "os.scandir") else None)
        state = loader.state_dict()
        loader.load_state_dict(state)
        print(opened)
        """,
        warm=True,
    )
    assert child.stdout.strip() == "[]"


@pytest.mark.parametrize("sampler", ["random", "random with generator", "stateful", "distributed"])
@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_state_before_the_first_iteration_begins_the_same_epochs(
    folder: Path, sampler: str, num_workers: int
) -> None:
    case = Case("evaluation", num_workers, sampler=sampler)

    def epochs(loader: Any) -> list[Any]:
        resumed_runs.seed_program(4)
        return [[batch_of(*batch) for batch in loader] for _ in range(2)]

    loader = case.make_loader(folder)
    state = loader.state_dict()
    expected = epochs(loader)
    again = case.make_loader(folder)
    next(iter(again))  # its generator has another position
    again.load_state_dict(state)
    assert epochs(again) == expected


# ---- the subject of a state ------------------------------------------------------------------------------------------


def test_each_call_gives_a_new_dict_that_may_be_written_to(folder: Path) -> None:
    loader = Case().make_loader(folder)
    iterator = iter(loader)
    next(iterator)
    first = loader.state_dict()
    kept = copy.deepcopy(first)
    first["_iterator_finished"] = True
    first["fastload"]["sampler"]["seed"] = 0
    first["fastload"]["fingerprint"]["samples"] = 0
    assert loader.state_dict() == kept
    loader.load_state_dict(kept)
    given = loader.state_dict()
    given["fastload"]["draws"].clear()
    kept["fastload"].clear()
    assert len(loader.state_dict()["fastload"]["draws"]) == 2


def test_the_keys_are_those_of_torchdata(folder: Path) -> None:
    loader = Case(num_workers=2).make_loader(folder)
    iterator = iter(loader)
    for _ in range(3):
        next(iterator)
    state = loader.state_dict()
    assert {name: state[name] for name in ("_num_yielded", "_sampler_iter_yielded", "_iterator_finished")} == {
        "_num_yielded": 3,
        "_sampler_iter_yielded": 3,
        "_iterator_finished": False,
    }
    assert state["_snapshot"]["_snapshot_step"] + state["_steps_since_snapshot"] == 3
    assert state["_snapshot"]["_main_snapshot"]["_num_workers"] == 2
    assert set(state["_snapshot"]["_worker_snapshots"]) == {"worker_0", "worker_1"}
    assert "_snapshot" not in Case(num_workers=0).make_loader(folder).state_dict()


def test_a_state_is_of_the_batch_that_was_handed_out_and_of_none_in_flight(folder: Path) -> None:
    loader = Case(num_workers=2).make_loader(folder, prefetch_factor=4)
    iterator = iter(loader)
    assert loader.state_dict()["fastload"]["position"] == 0
    for position in range(1, 5):
        next(iterator)
        assert loader.state_dict()["fastload"]["position"] == position


@pytest.mark.parametrize(
    ("num_workers", "persistent_workers", "transform"),
    [(0, False, "training"), (2, False, "training"), (2, True, "training"), (2, True, "evaluation")],
)
def test_after_the_last_batch_a_state_is_of_the_next_epoch(
    folder: Path, num_workers: int, persistent_workers: bool, transform: str
) -> None:
    case = Case(transform, num_workers, persistent_workers, "random with generator, full batches")
    loader = case.make_loader(folder)
    iterator = iter(loader)
    for _ in range(len(loader)):
        next(iterator)
    behind_last = loader.state_dict()
    assert next(iterator, None) is None
    assert loader.state_dict() == behind_last
    assert behind_last["_iterator_finished"]
    assert behind_last["_num_yielded"] == len(loader)
    ours = behind_last["fastload"]
    assert (ours["epoch"], ours["position"], ours["moment"]) == (1, 0, "between epochs")
    again = case.make_loader(folder)
    again.load_state_dict(behind_last)
    assert again.epoch == 1
    assert len(list(again)) == len(again)


class WithoutLength(Sampler[int]):
    def __iter__(self) -> Any:
        return iter(range(6))

    __len__ = None


@pytest.mark.parametrize("num_workers", [0, 1])
def test_a_sampler_without_a_length_ends_its_epoch_with_stop_iteration(folder: Path, num_workers: int) -> None:
    dataset = ImageFolder(str(folder), recipes.evaluation(40, 32))

    def make() -> Any:
        return fastload.DataLoader(dataset, batch_size=3, sampler=WithoutLength(), num_workers=num_workers)

    states, _ = states_on_the_way(loader := make())
    again = make()
    again.load_state_dict(states[0])
    assert len(list(again)) == 1
    again.load_state_dict(states[1])
    if num_workers:  # more has been requested from the sampler already
        assert len(list(again)) == 2
    else:
        with pytest.warns(UserWarning, match="the sampler gives no batch after position 2"):
            assert len(list(again)) == 0
    again.load_state_dict(loader.state_dict())
    assert len(list(again)) == 2


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_failed_batch_counts_as_handed_out(faulty_folder: Path, num_workers: int) -> None:
    loader = Case(num_workers=num_workers, sampler="sequential").make_loader(faulty_folder)
    iterator = iter(loader)
    next(iterator)
    with pytest.raises(fastload.SampleError):
        next(iterator)
    assert loader.state_dict()["fastload"]["position"] == 2


def test_another_thread_gets_the_state_of_one_moment(folder: Path) -> None:
    loader = Case(num_workers=2).make_loader(folder)
    states, stop = [], threading.Event()

    def look() -> None:
        while not stop.is_set():
            states.append(loader.state_dict())

    iterator = iter(loader)
    thread = threading.Thread(target=look)
    thread.start()
    batches = [batch_of(*batch) for batch in iterator]
    stop.set()
    thread.join()
    chosen = {state["fastload"]["position"]: state for state in states if state["fastload"]["moment"] == "in an epoch"}
    for position, state in chosen.items():
        again = Case(num_workers=2).make_loader(folder)
        again.load_state_dict(state)
        assert [batch_of(*batch) for batch in again] == batches[position:]


@pytest.mark.parametrize("num_workers", [0, 2])
def test_the_handler_of_a_signal_may_ask_inside_of_next(folder: Path, num_workers: int) -> None:
    loader = Case("evaluation", num_workers).make_loader(folder)
    states: list[Any] = []
    old = signal.signal(signal.SIGUSR1, lambda *_: states.append(loader.state_dict()))

    def trace(frame: Any, event: str, argument: Any) -> Any:
        if "fastload" in frame.f_code.co_filename and event == "line" and len(states) < 400:
            signal.raise_signal(signal.SIGUSR1)
        return trace

    try:
        torch.manual_seed(3)
        iterator = iter(loader)
        before = len(states)
        sys.settrace(trace)
        try:
            first = batch_of(*next(iterator))
        finally:
            sys.settrace(None)
    finally:
        signal.signal(signal.SIGUSR1, old)
    assert len(states) - before > 20
    batches = [first, *(batch_of(*batch) for batch in iterator)]
    for state in {state["fastload"]["position"]: state for state in states}.values():
        again = Case("evaluation", num_workers).make_loader(folder)
        again.load_state_dict(state)
        assert [batch_of(*batch) for batch in again] == batches[state["fastload"]["position"] :]


# ---- loading ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("num_workers", [0, 2])
def test_the_iteration_that_resumes_draws_nothing_from_the_program(
    folder: Path, sampler: str, num_workers: int
) -> None:
    case = Case(num_workers=num_workers, sampler=sampler)
    stopped = run_through(case.make_loader(folder), case)
    loader = case.make_loader(folder)
    program = program_bytes()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loader.load_state_dict(stopped.state)
    assert program_bytes() == program
    iterator = iter(loader)
    assert program_bytes() == program
    loader.state_dict()
    assert program_bytes() == program
    assert len(list(iterator)) == len(stopped.rest[0])


def test_a_state_is_given_back_until_an_iteration_begins_there_once(folder: Path) -> None:
    case = Case()
    stopped = run_through(case.make_loader(folder), case)
    loader = case.make_loader(folder)
    loader.load_state_dict(stopped.state)
    assert loader.state_dict() == stopped.state
    assert loader.epoch == 1
    assert len(list(loader)) == len(loader) - 3
    assert loader.epoch == 2
    assert len(list(loader)) == len(loader)


@pytest.mark.parametrize("persistent_workers", [False, True])
def test_loading_ends_the_iteration_that_runs(folder: Path, persistent_workers: bool) -> None:
    case = Case(persistent_workers=persistent_workers)
    loader = case.make_loader(folder)
    iterator = iter(loader)
    next(iterator)
    state = loader.state_dict()
    next(iterator)
    loader.load_state_dict(state)
    with pytest.raises(fastload.LoaderClosedError):
        list(iterator)
    again = iter(loader)
    assert again is not iterator
    assert len(list(again)) == len(loader) - 1


def test_an_empty_dict_resets(folder: Path) -> None:
    loader = Case().make_loader(folder)
    iterator = iter(loader)
    next(iterator)
    loader.load_state_dict(loader.state_dict())
    loader.load_state_dict({})
    assert loader.state_dict()["fastload"]["moment"] == "not begun"
    assert loader.epoch == 0
    assert len(list(loader)) == len(loader)


def test_a_copy_of_a_loader_begins_anew(folder: Path) -> None:
    loader = Case().make_loader(folder)
    next(iter(loader))
    for again in (pickle.loads(pickle.dumps(loader)), copy.copy(loader)):
        assert again.state_dict()["fastload"]["moment"] == "not begun"


def test_without_workers_the_programs_draws_are_told_once_to_be_its_own(folder: Path) -> None:
    case = Case(num_workers=0)
    stopped = run_through(case.make_loader(folder), case)
    loader = case.make_loader(folder)
    with pytest.warns(
        UserWarning, match="torch's default generator, which belongs to the program and is not in the state"
    ):
        loader.load_state_dict(stopped.state)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loader.load_state_dict(stopped.state)
        case = Case("evaluation", 0)
        case.make_loader(folder).load_state_dict(run_through(case.make_loader(folder), case).state)


# ---- changes by other code -------------------------------------------------------------------------------------------


def test_a_position_that_a_framework_has_changed_counts(folder: Path) -> None:
    for case in (Case("evaluation"), Case(rng="sample", seed=3)):
        stopped = run_through(case.make_loader(folder), case)
        stopped.state["_num_yielded"] = stopped.state["_sampler_iter_yielded"] = 1
        found = resume(case.make_loader(folder), stopped)[0]
        assert len(found) == len(stopped.rest[0]) + 2
        assert found[2:] == stopped.rest[0]


def test_draws_begin_anew_where_the_position_was_changed(folder: Path) -> None:
    case = Case()
    stopped = run_through(case.make_loader(folder), case)
    stopped.state["_num_yielded"] = stopped.state["_sampler_iter_yielded"] = 4
    loader = case.make_loader(folder)
    with pytest.warns(UserWarning, match="random transforms draw new numbers: its position"):
        loader.load_state_dict(stopped.state)
    labels = [batch_of(*batch)[1] for batch in loader]
    assert labels == [batch[1] for batch in stopped.rest[0]][1:]


def test_an_epoch_that_a_framework_calls_finished_is(folder: Path) -> None:
    case = Case(sampler="random with generator")
    stopped = run_through(case.make_loader(folder), case)
    stopped.state["_iterator_finished"] = True
    loader = case.make_loader(folder)
    loader.load_state_dict(stopped.state)
    assert loader.epoch == 2
    assert len(list(loader)) == len(loader)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_the_epoch_of_the_state_wins_over_set_epoch_of_the_sampler(folder: Path, num_workers: int) -> None:
    case = Case("evaluation", num_workers, sampler="distributed")
    stopped = run_through(case.make_loader(folder), case)
    loader = case.make_loader(folder)
    loader.load_state_dict(stopped.state)
    assert loader.sampler.epoch == 1
    loader.sampler.set_epoch(0)
    with pytest.warns(UserWarning, match=r"set_epoch\(0\) was called after load_state_dict\(\)"):
        iterator = iter(loader)
    loader.sampler.set_epoch(5)  # as Lightning does, after iter()
    assert [batch_of(*batch) for batch in iterator] == stopped.rest[0]


def test_the_epoch_of_the_state_wins_over_set_epoch_of_the_loader(folder: Path) -> None:
    case = Case(rng="sample", seed=3)
    stopped = run_through(case.make_loader(folder), case)
    loader = case.make_loader(folder)
    loader.load_state_dict(stopped.state)
    loader.set_epoch(7)
    with pytest.warns(UserWarning, match=r"set_epoch\(7\) was called after load_state_dict\(\)"):
        assert [batch_of(*batch) for batch in loader] == stopped.rest[0]
    loader.load_state_dict(run_through(case.make_loader(folder), Case(rng="sample", seed=3, stop="finished")).state)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loader.set_epoch(7)
        list(loader)


def test_another_ranks_state_has_the_order_and_no_draws(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case(sampler="distributed")
    rank = 0
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_rank", lambda group=None: rank)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda group=None: 2)
    stopped = run_through(case.make_loader(folder), case)
    rank = 1
    loader = case.make_loader(folder)
    with pytest.warns(UserWarning, match="the state is from rank 0, and this is rank 1"):
        loader.load_state_dict(stopped.state)
    assert [batch_of(*batch)[1] for batch in loader] == [batch[1] for batch in stopped.rest[0]]


def test_a_state_of_another_number_of_ranks_is_loaded_without_its_draws_where_one_says_so(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = Case(sampler="distributed")
    stopped = run_through(case.make_loader(folder), case)
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_rank", lambda group=None: 0)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda group=None: 2)
    loader = case.make_loader(folder)
    with pytest.raises(fastload.StateError, match=r"fastload.world: is for 1 ranks, and there are 2"):
        loader.load_state_dict(stopped.state)
    with pytest.warns(UserWarning, match="random transforms draw new numbers: the state is for 1 ranks"):
        loader.load_state_dict(stopped.state, strict=False)
    assert [batch_of(*batch)[1] for batch in loader] == [batch[1] for batch in stopped.rest[0]]


# ---- the epoch's number ----------------------------------------------------------------------------------------------


def test_the_epoch_counts_iterations_and_may_be_set(folder: Path) -> None:
    loader = Case(persistent_workers=True).make_loader(folder)
    assert loader.epoch == 0
    for number in range(3):
        list(itertools.islice(loader, 1))
        assert loader.epoch == number + 1
    loader.set_epoch(9)
    assert loader.epoch == 9


def test_a_class_may_have_an_epoch_of_its_own(folder: Path) -> None:
    class Own(fastload.DataLoader):  # type: ignore[type-arg]
        def __init__(self, *arguments: Any, **keywords: Any) -> None:
            self.epoch = "mine"
            super().__init__(*arguments, **keywords)

    loader = Own(ImageFolder(str(folder), recipes.training(32)), batch_size=3)
    list(itertools.islice(loader, 1))
    assert loader.epoch == "mine"
    assert loader.state_dict()["fastload"]["epoch"] == 0


# ---- loaders without a state -----------------------------------------------------------------------------------------


IN_PYTHON: dict[str, Any] = {
    "map-style": lambda folder: fastload.DataLoader(list(range(22)), num_workers=1),
    "partly native": lambda folder: fastload.DataLoader(
        ImageFolder(str(folder), recipes.transforms.Compose([recipes.training(32), torch.clone])), num_workers=1
    ),
}


def test_a_native_state_is_refused_where_python_makes_the_batches(folder: Path) -> None:
    state = state_after_first(Case(sampler="sequential").make_loader(folder, batch_size=1))
    for make in IN_PYTHON.values():
        with pytest.raises(fastload.StateError) as caught:
            make(folder).load_state_dict(state)
        assert caught.value.field == "fastload.way"
    loader = Case(sampler="sequential").make_loader(folder)
    loader.load_state_dict(state_after_first(loader))
    loader.dataset.target_transform = int  # after load_state_dict()
    with pytest.raises(fastload.StateError, match="this loader's batches are made in Python after"):
        iter(loader)


def test_a_derived_classs_own_iterator_has_no_state() -> None:
    class Own(fastload.DataLoader[Any]):
        def _get_iterator(self) -> Any:
            return torch.utils.data.dataloader._SingleProcessDataLoaderIter(self)

    loader = Own([1, 2])  # type: ignore[arg-type]
    iterator = iter(loader)
    next(iterator)
    with pytest.raises(fastload.StateError, match="is not known: this process has a copy of an iterator"):
        loader.state_dict()


@pytest.mark.parametrize("steps", [-1, True, 1.5, None, 2**31])
def test_snapshots_are_of_a_number_of_steps(folder: Path, steps: Any) -> None:
    with pytest.raises(ValueError, match=r"snapshot_every_n_steps must be an int from 0 to 2147483647, got"):
        Case().make_loader(folder, snapshot_every_n_steps=steps)


def test_snapshots_of_native_batches_are_of_any_step(folder: Path) -> None:
    case = Case()
    stopped = run_through(case.make_loader(folder, snapshot_every_n_steps=100), case)
    loader = case.make_loader(folder, snapshot_every_n_steps=5)
    assert loader.snapshot_every_n_steps == 5
    assert resume(loader, stopped) == stopped.rest
