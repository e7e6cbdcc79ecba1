"""Loaders of streams resume where they were stopped, byte for byte, whether streams report their position or not."""

from __future__ import annotations

import json
import threading
import warnings
from itertools import starmap
from pathlib import Path
from typing import Any, ClassVar

import pytest
import resumed_runs
from both_loaders import Threads
from children import RunChild
from state_checks import assert_another_process_goes_on, count_loaded, field_refused, numbered, pairwise
from stream_runs import (
    BATCHES,
    STATEFUL,
    STOPS,
    STREAMS,
    OwnIterator,
    Plain,
    Raises,
    StatefulDataset,
    StatefulItems,
    StreamCase,
    assert_stream_exact,
    next_of,
    rest_of,
    resume_stream,
    run_stream,
)
from torch.utils.data import IterableDataset

import fastload
from fastload._delivery._thread_order import DeviceOrder

AXES: tuple[tuple[Any, ...], ...] = (
    tuple(STREAMS),
    (0, 1, 2, 3),
    (False, True),
    STOPS,
    ("torch", "sample"),
    tuple(BATCHES),
    (1, 3, 0),
)


def numbered_case(number: int) -> StreamCase:
    return StreamCase(*numbered(AXES, number))


def assert_case(seed: int) -> None:
    """Runs one case of a campaign."""
    assert_stream_exact(numbered_case(seed))


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("part", range(2))
def test_a_stream_goes_on(stream: str, part: int) -> None:
    cases = [case for case in starmap(StreamCase, pairwise(AXES, 4, 70)) if case.stream == stream]
    for case in cases[part::2]:
        assert_stream_exact(case)


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("persistent_workers", [False, True])
@pytest.mark.parametrize("stop", range(1, 14))
def test_workers_whose_parts_end_at_different_times_go_on(stream: str, persistent_workers: bool, stop: int) -> None:
    assert_stream_exact(StreamCase(stream, 3, persistent_workers, stop))


@pytest.mark.parametrize("stream", STATEFUL)
@pytest.mark.parametrize(("every", "stop"), [(every, stop) for every in (5, 7, 11) for stop in range(every, 14)])
def test_workers_that_end_move_the_batches_after_which_a_streams_state_is_requested(
    stream: str, every: int, stop: int
) -> None:
    assert_stream_exact(StreamCase(stream, 3, False, stop, every=every))


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("persistent_workers", [False, True])
def test_a_state_of_a_resumed_epoch_is_as_good_and_json_keeps_it(
    stream: str, num_workers: int, persistent_workers: bool
) -> None:
    case = StreamCase(stream, num_workers, persistent_workers, 2, every=2)
    stopped = run_stream(case.make_loader(), case)
    rest, state, program = [], stopped.state, stopped.program
    for _ in range(len(stopped.rest[0])):
        loader = case.make_loader()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            loader.load_state_dict(json.loads(json.dumps(state)))
            resumed_runs.seed_program(999)
            iterator = iter(loader)
        assert loader.state_dict() == state
        resumed_runs.set_program_states(program)
        rest.append(next_of(iterator))
        state, program = loader.state_dict(), resumed_runs.program_states()
    assert rest == stopped.rest[0]


@pytest.mark.parametrize("stream", ["holds", "both stateful"])
def test_another_process_goes_on(tmp_path: Path, run_child: RunChild, stream: str) -> None:
    case = StreamCase(stream, 2)
    stopped = run_stream(case.make_loader(), case)
    assert_another_process_goes_on(run_child, case, stopped, tmp_path, tmp_path)


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("num_workers", [0, 2])
def test_the_iter_that_resumes_draws_nothing_from_the_programs_generators(stream: str, num_workers: int) -> None:
    case = StreamCase(stream, num_workers)
    stopped = run_stream(case.make_loader(), case)
    loader = case.make_loader()
    resumed_runs.seed_program(7)
    before = resumed_runs.program_bytes()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loader.load_state_dict(stopped.state)
        iterator = iter(loader)
    loader.state_dict()
    assert resumed_runs.program_bytes() == before
    del iterator


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("num_workers", [0, 1, 2])
def test_a_batch_that_has_come_and_was_not_handed_out_is_the_next_one(stream: str, num_workers: int) -> None:
    case = StreamCase(stream, num_workers, rng="sample")
    whole = rest_of(iter(case.make_loader(generator=resumed_runs.seeded())))
    iterator = iter(loader := case.make_loader(generator=resumed_runs.seeded()))
    for step in range(4):
        state = loader.state_dict()
        try:
            iterator._prepare()  # all of next() but its last step, before which an interrupt may come
        except KeyError:
            continue
        assert loader.state_dict() == state, step
        again = case.make_loader(generator=resumed_runs.seeded())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            again.load_state_dict(loader.state_dict())
            assert rest_of(iter(again)) == whole[step:], step
        next_of(iterator)


def test_a_handler_inside_of_next_gets_the_state_of_the_batch_before() -> None:
    states: list[Any] = []

    class Asks(StatefulDataset):
        def __iter__(self) -> Any:
            for sample in super().__iter__():
                if states is not None and self.number == 5:
                    states.append(loader.state_dict())
                yield sample

    loader = fastload.DataLoader(Asks(), batch_size=2)
    iterator = iter(loader)
    taken = [next(iterator) for _ in range(2)]
    expected = loader.state_dict()
    next(iterator)
    assert states == [expected]
    assert expected["dataset_state"] == {"number": 4, "epoch": 0}
    assert len(taken) == 2


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_stream_without_a_state_is_asked_again_with_a_warning(num_workers: int) -> None:
    case = StreamCase("plain", num_workers)
    assert "the data set or its iterator needs state_dict() and load_state_dict()" in case.make_loader().explain()
    assert "in an epoch" not in StreamCase("stateful data set", num_workers).make_loader().explain()
    stopped = run_stream(case.make_loader(), case)
    loader = case.make_loader()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="num_workers=0")
        loader.load_state_dict(stopped.state)
    with pytest.warns(UserWarning, match="3 batches are asked for again and dropped: neither the data set nor"):
        iter(loader)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_after_the_last_batch_nothing_is_left_with_a_warning(num_workers: int) -> None:
    case = StreamCase("own iterator", num_workers, stop="last")
    stopped = run_stream(case.make_loader(), case)
    assert stopped.state["fastload"]["moment"] == "in an epoch"
    assert stopped.rest[0] == []
    loader = case.make_loader()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="num_workers=0")
        loader.load_state_dict(stopped.state)
    with pytest.warns(UserWarning, match="of an epoch that was over: the stream has no batch after position"):
        assert rest_of(iter(loader)) == []


def test_a_stream_that_tells_is_not_asked_for_what_came_before() -> None:
    asked: list[int] = []

    class Counts(StatefulDataset):
        def __iter__(self) -> Any:
            for sample in super().__iter__():
                asked.append(int(sample[1]))
                yield sample

    loader = Threads(Counts(), batch_size=2, num_workers=1, prefetch_factor=1)
    iterator = iter(loader)
    for _ in range(4):
        next(iterator)
    state = loader.state_dict()
    del iterator
    loader.close()
    asked.clear()
    again = Threads(Counts(), batch_size=2, num_workers=1)
    again.load_state_dict(state)
    assert len(list(again)) == 9
    assert min(asked) == 8


class Recorded(StatefulDataset):
    """Records when its state is requested."""

    asked: ClassVar[list[int]] = []

    def state_dict(self) -> dict[str, Any]:
        Recorded.asked.append(self.number)
        return super().state_dict()


@pytest.mark.parametrize(("every", "least", "most"), [(1, 15, 16), (12, 4, 8), (0, 2, 3)])
def test_a_streams_state_is_requested_where_a_saved_state_may_start(every: int, least: int, most: int) -> None:
    Recorded.asked.clear()
    list(Threads(Recorded(), batch_size=2, num_workers=1, snapshot_every_n_steps=every))
    assert least <= len(Recorded.asked) <= most  # and at the beginning, and at the end, perhaps twice


def test_only_streams_with_both_methods_report_their_position() -> None:
    class Half(Plain):
        def state_dict(self) -> Any:
            raise AssertionError("one method is of no use")

    loader = fastload.DataLoader(Half(), batch_size=2, num_workers=1)
    iterator = iter(loader)
    next(iterator)
    state = loader.state_dict()
    assert state["fastload"]["replayed"] == 1
    assert state["_snapshot"]["_worker_snapshots"]["worker_0"]["dataset_state"] is None


def test_before_the_first_iter_a_state_begins_only_data_sets_that_tell() -> None:
    before = threading.active_count()
    plain = fastload.DataLoader(Plain(), batch_size=2, num_workers=2)
    assert plain.state_dict()["fastload"]["moment"] == "not begun"
    assert threading.active_count() == before
    loader = fastload.DataLoader(StatefulDataset(), batch_size=2, num_workers=2)
    state = loader.state_dict()
    assert loader.epoch == 0
    assert state["fastload"]["position"] == 0
    assert state["_snapshot"]["_worker_snapshots"]["worker_1"]["dataset_state"] == {"number": 0, "epoch": 0}
    assert loader.state_dict() == state
    iterator = iter(loader)
    assert loader.epoch == 1
    assert loader.state_dict() == state
    whole = rest_of(iterator)
    loader.load_state_dict(state)
    assert rest_of(iter(loader)) == whole


def test_a_streams_iterator_is_requested_after_the_programs_device_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[str] = []
    monkeypatch.setattr(DeviceOrder, "begin", lambda _: calls.append("program"))
    monkeypatch.setattr(DeviceOrder, "enter", lambda _: calls.append("worker"))

    class Noted(Plain):
        def __iter__(self) -> Any:
            calls.append("iter")
            return super().__iter__()

    list(Threads(Noted(), batch_size=2, num_workers=1))
    assert calls[:3] == ["program", "worker", "iter"]


# ---- wrong states ----------------------------------------------------------------------------------------------------


def state_of(case: StreamCase) -> dict[str, Any]:
    return run_stream(case.make_loader(), case).state


def test_a_field_that_does_not_fit_is_named() -> None:
    case = StreamCase("stateful data set", 2)
    state = state_of(case)
    user = "_snapshot._worker_snapshots.worker_0."
    assert field_refused(StreamCase("plain", 2).make_loader(), state) == user + "dataset_state"
    assert field_refused(StreamCase("stateful data set", 3).make_loader(), state) == "fastload.num_workers"
    assert field_refused(StreamCase("stateful data set", 0).make_loader(), state) == "fastload.num_workers"
    assert field_refused(case.make_loader(batch_size=3), state) == "fastload.fingerprint.batch_size"
    assert field_refused(fastload.DataLoader(list(range(25)), batch_size=2, num_workers=2), state) == (
        "fastload.next_worker"
    )
    by_iterator = state_of(StreamCase("stateful iterator", 2))
    field = user + "fetcher_state.dataset_iter_state"
    assert field_refused(StreamCase("plain", 2).make_loader(), by_iterator) == field
    with pytest.raises(fastload.StateError, match=r"the batches of 2 .* have to be made again"):
        case.make_loader(batch_size=3).load_state_dict(state, strict=False)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_errors_of_the_users_methods_are_named(num_workers: int) -> None:
    class Broken(StatefulDataset):
        def state_dict(self) -> Any:
            raise ValueError("no state today")

        def load_state_dict(self, state: Any) -> None:
            raise ValueError("cannot load")

    loader = fastload.DataLoader(Broken(), batch_size=2, num_workers=num_workers)
    iterator = iter(loader)
    next(iterator)
    prefix = "_snapshot._worker_snapshots.worker_0." if num_workers else ""
    with pytest.raises(fastload.StateError, match=r"Broken.state_dict\(\) has raised ValueError\('no state") as caught:
        loader.state_dict()
    assert caught.value.field == prefix + "dataset_state"
    assert next(iterator) is not None
    state = state_of(StreamCase("stateful data set", num_workers))
    again = fastload.DataLoader(Broken(), batch_size=2, num_workers=num_workers)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        again.load_state_dict(state)
    with pytest.raises(fastload.StateError, match=r"load_state_dict\(\) has raised ValueError\('cannot load'\)"):
        iter(again)


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("stream", ["holds", *STATEFUL])
def test_a_mutated_state_is_refused_by_name_or_loaded(stream: str, num_workers: int) -> None:
    case = StreamCase(stream, num_workers)
    assert 5 <= count_loaded(case.make_loader(), state_of(case), 100, (KeyError,)) <= 90


def test_a_state_keeps_what_it_says_when_the_stream_goes_on() -> None:
    class Live(IterableDataset[Any]):
        def __iter__(self) -> Any:
            return StatefulItems()

    loader = fastload.DataLoader(Live(), batch_size=2, num_workers=1)
    iterator = iter(loader)
    next(iterator)
    state = loader.state_dict()
    text = json.dumps(state)
    again = fastload.DataLoader(Live(), batch_size=2, num_workers=1)
    again.load_state_dict(state)
    list(again)
    list(iterator)
    assert json.dumps(state) == text


def test_num_streams_are_the_workers() -> None:
    def make() -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return fastload.DataLoader(OwnIterator(), batch_size=2, num_workers=3, num_streams=2)

    stopped = run_stream(make(), StreamCase())
    assert stopped.state["fastload"]["num_workers"] == 2
    assert resume_stream(make(), stopped) == stopped.rest
    assert resume_stream(StreamCase("own iterator", 2).make_loader(collate_fn=None), stopped) == stopped.rest


def test_a_length_is_counted_on_where_an_epoch_goes_on() -> None:
    class Short(StatefulDataset):
        def __len__(self) -> int:
            return 10

    loader = fastload.DataLoader(Short(), batch_size=None)
    iterator = iter(loader)
    for _ in range(9):
        next(iterator)
    again = fastload.DataLoader(Short(), batch_size=None)
    assert len(again) == 10
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        again.load_state_dict(loader.state_dict())
    resumed = iter(again)
    next(resumed)
    with pytest.warns(UserWarning, match="11 samples have been fetched"):
        next(resumed)


def test_a_state_is_as_large_as_what_it_has_to_keep() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loader = fastload.DataLoader(Raises(), batch_size=2, num_workers=1)
        next(iter(loader))
        one = len(json.dumps(loader.state_dict()))
    assert 8 * one <= 180_000
