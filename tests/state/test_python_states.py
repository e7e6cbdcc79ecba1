"""Loaders whose batches workers make in Python resume where they were stopped, byte for byte."""

from __future__ import annotations

import itertools
import json
import random
import warnings
from collections.abc import Iterator
from itertools import starmap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import resumed_runs
import torch
from children import RunChild
from python_runs import DATASETS, MADE_LATER, WITHOUT_OWN, Draws, Holds, PythonCase, drawn
from resumed_runs import (
    SAMPLERS,
    STOPS,
    assert_exact,
    assert_failed_batches_count,
    assert_rest_equal,
    batch_of,
    resume,
    run_through,
)
from state_checks import (
    assert_another_process_goes_on,
    assert_resumed_states_are_as_good,
    count_loaded,
    field_refused,
    numbered,
    pairwise,
    state_after_first,
)

import fastload

AXES: tuple[tuple[Any, ...], ...] = (
    tuple(DATASETS),
    (1, 2, 3),
    (False, True),
    tuple(SAMPLERS),
    STOPS,
    (("torch", None), ("sample", None), ("sample", 7)),
)


def case_of(dataset: str, num_workers: int, persistent: bool, sampler: str, stop: Any, numbers: Any) -> PythonCase:
    rng, seed = numbers
    if dataset in MADE_LATER:  # rng="sample" seeds only generators that the workers begin with for each sample
        rng, seed = "torch", None
    return PythonCase("", num_workers, persistent, sampler, stop, rng, seed, dataset)


def numbered_case(number: int) -> PythonCase:
    return case_of(*numbered(AXES, number))


def assert_case(seed: int, folder: Path) -> None:
    """Runs one case of a campaign."""
    assert_exact(numbered_case(seed), folder)


@pytest.mark.parametrize("part", range(5))
@pytest.mark.parametrize("num_workers", [1, 2, 3])
def test_the_rest_and_the_next_epochs_are_those_of_the_run_without_a_stop(
    folder: Path, num_workers: int, part: int
) -> None:
    cases = [case for case in starmap(case_of, pairwise(AXES, 2, 70)) if case.num_workers == num_workers][part::5]
    assert len(cases) >= 3
    for case in cases:
        assert_exact(case, folder)


@pytest.mark.parametrize("dataset", DATASETS)
@pytest.mark.parametrize("persistent_workers", [False, True])
@pytest.mark.parametrize("num_workers", [1, 3])
@pytest.mark.parametrize("stop", STOPS)
def test_each_data_set_goes_on_after_any_batch(
    folder: Path, dataset: str, persistent_workers: bool, num_workers: int, stop: Any
) -> None:
    case = PythonCase(num_workers=num_workers, persistent_workers=persistent_workers, stop=stop, dataset=dataset)
    assert_exact(case, folder)


def cases_in_threads(dataset: str, num_workers: int, rng: str) -> Iterator[PythonCase]:
    for stop, persistent_workers in itertools.product(STOPS, (False, True)):
        yield PythonCase(
            num_workers=num_workers,
            persistent_workers=persistent_workers,
            stop=stop,
            dataset=dataset,
            rng=rng,
            workers="threads",
        )


@pytest.mark.parametrize("dataset", WITHOUT_OWN)
@pytest.mark.parametrize("rng", ["torch", "sample"])
def test_threads_go_on_after_any_batch(folder: Path, dataset: str, rng: str) -> None:
    for case in cases_in_threads(dataset, 3, rng):
        assert_exact(case, folder)


@pytest.mark.parametrize("dataset", ["holds", "tail"])
def test_one_thread_goes_on_within_the_epoch_with_the_generators_of_the_data_set(folder: Path, dataset: str) -> None:
    """Between epochs they belong to the program. Several threads share them, so their states lack them."""
    for case in cases_in_threads(dataset, 1, "torch"):
        stopped = run_through(case.make_loader(folder), case)
        assert_rest_equal(stopped.rest[:1], resume(case.make_loader(folder), stopped)[:1], case)


@pytest.mark.parametrize("dataset", WITHOUT_OWN)
@pytest.mark.parametrize("rng", ["torch", "sample"])
def test_without_workers_the_program_restores_its_generators(folder: Path, dataset: str, rng: str) -> None:
    for sampler, stop in itertools.product(("sequential", "random", "own batches", "stateful"), STOPS):
        assert_exact(PythonCase(num_workers=0, sampler=sampler, stop=stop, rng=rng, dataset=dataset), folder)


def test_without_workers_loading_says_once_whose_the_generators_are(folder: Path) -> None:
    case = PythonCase(num_workers=0)
    stopped = run_through(case.make_loader(folder), case)
    loader = case.make_loader(folder)
    with pytest.warns(UserWarning, match=r"numpy.random.get_state\(\) if transforms use them"):
        loader.load_state_dict(stopped.state)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loader.load_state_dict(stopped.state)


@pytest.mark.parametrize("num_workers", [0, 1, 3])
def test_samples_without_batches_go_on(folder: Path, num_workers: int) -> None:
    class Named(Draws):
        def __getitem__(self, index: Any) -> Any:
            return drawn(), str(index)

    choices: list[dict[str, Any]] = [{}, {"shuffle": True}, {"sampler": ["a", "b", "c", "d", "e", "f"]}]
    for arguments in choices:

        def make(arguments: Any = arguments) -> Any:
            return fastload.DataLoader(Named(), batch_size=None, num_workers=num_workers, **arguments)

        for stop in (0, 1, 3, 5):
            resumed_runs.seed_program(3)
            loader = make()
            iterator = iter(loader)
            for _ in range(stop):
                next(iterator)
            state, program = loader.state_dict(), resumed_runs.program_states()
            rest = [(numbers.tolist(), name) for numbers, name in iterator]
            again = make()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                again.load_state_dict(state)
            resumed_runs.set_program_states(program)
            assert [(numbers.tolist(), name) for numbers, name in again] == rest


@pytest.mark.parametrize("persistent_workers", [False, True])
def test_a_state_of_a_resumed_epoch_is_as_good_and_json_keeps_it(folder: Path, persistent_workers: bool) -> None:
    case = PythonCase(num_workers=2, persistent_workers=persistent_workers, stop=2, dataset="first sample")
    assert_resumed_states_are_as_good(case, folder)


@pytest.mark.parametrize("dataset", ["holds", "tail"])
def test_another_process_goes_on(folder: Path, tmp_path: Path, run_child: RunChild, dataset: str) -> None:
    case = PythonCase(num_workers=2, dataset=dataset)
    stopped = run_through(case.make_loader(folder), case)
    assert_another_process_goes_on(run_child, case, stopped, folder, tmp_path)


def test_the_iter_that_resumes_draws_nothing_from_the_programs_generators(folder: Path) -> None:
    case = PythonCase(num_workers=2, dataset="holds")
    stopped = run_through(case.make_loader(folder), case)
    loader = case.make_loader(folder)
    before = resumed_runs.program_bytes()
    loader.load_state_dict(stopped.state)
    iterator = iter(loader)
    loader.state_dict()
    assert resumed_runs.program_bytes() == before
    assert [batch_of(*batch) for batch in iterator] == stopped.rest[0]
    assert resumed_runs.program_bytes() == before


class Fails(Holds):
    """Three samples fail after they have drawn."""

    def __getitem__(self, index: int) -> Any:
        sample = super().__getitem__(index)
        if index in (4, 5, 13):
            raise KeyError(index)
        return sample


@pytest.mark.parametrize("num_workers", [1, 2, 4])
def test_a_batch_that_fails_counts_as_handed_out(num_workers: int) -> None:
    def make() -> Any:
        return fastload.DataLoader(Fails(), batch_size=2, num_workers=num_workers)

    assert_failed_batches_count(make, KeyError)


def test_a_loop_that_was_left_has_the_state_of_its_last_batch(folder: Path) -> None:
    case = PythonCase(num_workers=3, dataset="holds")
    loader = case.make_loader(folder)
    states = []
    for _ in range(2):
        torch.manual_seed(3)
        for step, _ in enumerate(loader):
            if step == 0:
                break
        states.append(loader.state_dict())
    assert states[0]["fastload"]["position"] == 1
    assert states[0]["fastload"]["workers"] == states[1]["fastload"]["workers"]
    loader.close()
    assert loader.state_dict() == states[1]


@pytest.mark.parametrize("num_workers", [1, 2])
def test_a_batch_that_has_come_and_was_not_handed_out_is_the_next_one(folder: Path, num_workers: int) -> None:
    case = PythonCase(num_workers=num_workers, dataset="holds")
    loader = case.make_loader(folder)
    iterator = iter(loader)
    for _ in range(3):
        next(iterator)
        before = loader.state_dict()
        iterator._prepare()  # all of next() but its last step, before which an interrupt may come
        assert loader.state_dict() == before


class SystemDraws(Draws):
    def __init__(self) -> None:
        self.unknown = random.SystemRandom()


def test_a_generator_that_cannot_be_read_is_named_once(folder: Path) -> None:
    loader = fastload.DataLoader(SystemDraws(), batch_size=3, num_workers=1)
    assert "in an epoch state_dict() is not exact: dataset.unknown" in loader.explain()
    next(iter(loader))
    with pytest.warns(UserWarning, match="not exact: dataset.unknown, a generator whose state cannot be read"):
        state = loader.state_dict()
    assert state["fastload"]["workers"][0]["not_exact"] == ["dataset.unknown"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert loader.state_dict() == state
    loader.load_state_dict(state)
    assert len(list(loader)) == len(loader) - 1


HELD = "dataset.numpy, dataset.legacy, dataset.inner['random'], dataset.inner['more'][0]"


@pytest.mark.parametrize(
    ("arguments", "missing"),
    [
        ({"in_order": False}, "counts the batches handed out, which with in_order=False"),
        ({"workers": "threads"}, f"lacks generators that all worker threads share: {HELD}\n"),
        (
            {"workers": "threads", "rng": "sample"},
            f"lacks generators that all worker threads share: {HELD}, and rng='sample' does not seed them\n",
        ),
    ],
)
def test_explain_says_where_a_state_does_not_tell_all(arguments: dict[str, Any], missing: str) -> None:
    loader = fastload.DataLoader(Holds(), batch_size=3, num_workers=2, **arguments)
    assert loader.explain().rpartition("in an epoch state_dict() ")[2].startswith(missing)


@pytest.mark.parametrize(
    ("dataset", "arguments"),
    [
        (Draws(), {"num_workers": 2, "workers": "threads"}),
        (Holds(), {"num_workers": 2, "workers": "processes"}),
        (Holds(), {"num_workers": 1, "workers": "threads"}),
        (Holds(), {"num_workers": 1, "workers": "threads", "rng": "sample"}),
    ],
)
def test_explain_says_nothing_of_a_state_that_tells_all(dataset: Any, arguments: dict[str, Any]) -> None:
    assert "in an epoch" not in fastload.DataLoader(dataset, batch_size=3, **arguments).explain()


class StatefulHolds(Holds):
    def state_dict(self) -> dict[str, int]:
        return {}

    def load_state_dict(self, state: dict[str, int]) -> None:
        pass


def test_explain_says_that_threads_share_the_data_sets_own_state() -> None:
    loader = fastload.DataLoader(StatefulHolds(), batch_size=3, num_workers=2, workers="threads")
    assert "contains the data set's own state as all worker threads have left it: they share it" in loader.explain()


def test_batches_out_of_order_are_warned_of() -> None:
    loader = fastload.DataLoader(Draws(), batch_size=3, num_workers=2, in_order=False)
    next(iter(loader))
    with pytest.warns(UserWarning, match="in_order=False"):
        state = loader.state_dict()
    assert state["fastload"]["position"] == 1


# ---- wrong states ----------------------------------------------------------------------------------------------------


WRONG: dict[str, tuple[str, Any]] = {
    "another number of workers": ("fastload.num_workers", {"num_workers": 3}),
    "another batch size": ("fastload.fingerprint.batch_size", {"batch_size": 2}),
    "dropping": ("fastload.fingerprint.drop_last", {"drop_last": True}),
    "rng": ("fastload.rng", {"rng": "sample"}),
    "shared objects": ("fastload.workers[0].held", {"workers": "threads"}),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_loader_with_other_arguments_is_named(folder: Path, name: str) -> None:
    field, changes = WRONG[name]
    case = PythonCase(dataset="holds")
    state = state_after_first(case.make_loader(folder))
    loader = case.make_loader(folder, **changes)
    assert field_refused(loader, state) == field


def test_another_data_set_and_another_way_are_named(folder: Path) -> None:
    state = state_after_first(PythonCase(dataset="holds").make_loader(folder))
    for dataset, field in (("draws", "fastload.workers[0].held.dataset."), ("tail", "fastload.way")):
        loader = PythonCase(dataset=dataset).make_loader(folder)
        before = resumed_runs.program_bytes()
        assert field_refused(loader, state).startswith(field)
        assert resumed_runs.program_bytes() == before
    longer = fastload.DataLoader(list(range(23)), batch_size=3, shuffle=True, num_workers=2)
    with pytest.raises(fastload.StateError, match="the state has 22, and this loader has 23"):
        longer.load_state_dict(state)


MUTATED = {
    "holds": PythonCase(dataset="holds"),
    "persistent": PythonCase(dataset="holds", persistent_workers=True, stop="finished"),
    "tail": PythonCase(dataset="tail", num_workers=1, sampler="own batches"),
}


@pytest.mark.parametrize("name", MUTATED)
def test_a_mutated_state_is_refused_by_name_or_loaded(folder: Path, name: str) -> None:
    case = MUTATED[name]
    state = run_through(case.make_loader(folder), case).state
    assert 5 <= count_loaded(case.make_loader(folder), state, 150) <= 120


@pytest.mark.parametrize("value", [10**6, 625])
@pytest.mark.parametrize("name", ["random", "numpy"])
def test_a_position_of_a_workers_generator_that_is_too_large_is_refused(folder: Path, name: str, value: int) -> None:
    from test_wrong_states import text_with_counter

    case = PythonCase()
    state = state_after_first(case.make_loader(folder))
    worker = state["fastload"]["workers"][1]
    worker[name] = text_with_counter(worker[name], value)
    with pytest.raises(fastload.StateError) as caught:
        case.make_loader(folder).load_state_dict(state)
    assert caught.value.field == f"fastload.workers[1].{name}"


def test_a_state_is_as_large_as_what_it_has_to_keep(folder: Path) -> None:
    assert len(json.dumps(state_after_first(PythonCase(num_workers=8).make_loader(folder)))) <= 90_000
    assert len(json.dumps(state_after_first(PythonCase(num_workers=8, rng="sample").make_loader(folder)))) <= 2_000


def test_the_state_of_a_bit_generator_that_a_worker_has_set_is_not_saved() -> None:
    class Setting(torch.utils.data.Dataset[Any]):
        def __len__(self) -> int:
            return 8

        def __getitem__(self, index: int) -> Any:
            if index == 2:
                np.random.set_bit_generator(np.random.PCG64(3))
            return np.random.rand()

    loader = fastload.DataLoader(Setting(), batch_size=2, num_workers=1)
    iterator = iter(loader)
    workers = []
    for _ in range(2):
        next(iterator)
        workers.append(loader.state_dict()["fastload"]["workers"][0])
    assert ["numpy" in worker for worker in workers] == [True, False]
