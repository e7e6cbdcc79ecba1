"""A loader that resumes where another was stopped gives the same batches as the other would have, byte for byte."""

from __future__ import annotations

import itertools
import json
import time
from itertools import starmap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import recipes
import resumed_runs
import torch
from children import RunChild
from image_folders import make_clean_folder
from resumed_runs import (
    SAMPLERS,
    STOPS,
    TRANSFORMS,
    WORKERS,
    Case,
    assert_exact,
    assert_failed_batches_count,
    batch_of,
    resume,
    run_through,
)
from state_checks import (
    assert_another_process_goes_on,
    assert_resumed_states_are_as_good,
    numbered,
    pairwise,
    state_after_first,
)
from torchvision.datasets import ImageFolder

import fastload

RANDOM_NUMBERS = (("torch", None), ("sample", None), ("sample", 7))
AXES: tuple[tuple[Any, ...], ...] = (
    tuple(TRANSFORMS),
    WORKERS,
    (False, True),
    tuple(SAMPLERS),
    STOPS,
    RANDOM_NUMBERS,
)


def case_of(transform: str, num_workers: int, persistent: bool, sampler: str, stop: Any, numbers: Any) -> Case:
    return Case(transform, num_workers, persistent and num_workers > 0, sampler, stop, *numbers)


def numbered_case(number: int) -> Case:
    return case_of(*numbered(AXES, number))


def assert_case(seed: int, folder: Path) -> None:
    """Runs one case of a campaign."""
    assert_exact(numbered_case(seed), folder)


def make_folder(root: Path) -> Path:
    return make_clean_folder(root, resumed_runs.NUM_IMAGES)


def test_the_campaign_comes_to_every_case_once() -> None:
    total = int(np.prod([len(axis) for axis in AXES]))
    numbers = {number * 1_000_003 % total for number in range(total)}
    assert len(numbers) == total


@pytest.mark.parametrize("num_workers", WORKERS)
def test_the_rest_of_the_epoch_and_the_next_two_are_those_of_the_run_without_a_stop(
    folder: Path, num_workers: int
) -> None:
    cases = [case for case in starmap(case_of, pairwise(AXES, 1, 60)) if case.num_workers == num_workers]
    assert len(cases) >= 8
    for case in cases:
        assert_exact(case, folder)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_every_sampler_goes_on_where_it_was(folder: Path, sampler: str) -> None:
    for num_workers, stop in itertools.product((0, 2), (1, "last")):
        assert_exact(Case(num_workers=num_workers, sampler=sampler, stop=stop), folder)


@pytest.mark.parametrize("num_workers", [0, 1, 3])
def test_files_that_pillow_decodes_change_nothing(mixed_folder: Path, num_workers: int) -> None:
    for stop in (1, 3, "last but one"):
        assert_exact(Case(num_workers=num_workers, stop=stop), mixed_folder)


@pytest.mark.parametrize("persistent_workers", [False, True])
@pytest.mark.parametrize("num_workers", [1, 3])
def test_a_state_of_a_resumed_epoch_is_as_good(folder: Path, num_workers: int, persistent_workers: bool) -> None:
    case = Case(num_workers=num_workers, persistent_workers=persistent_workers, stop=2)
    assert_resumed_states_are_as_good(case, folder)


@pytest.mark.parametrize("sampler", ["random", "random with generator", "draws when asked", "distributed"])
def test_json_and_torch_save_keep_a_state(folder: Path, tmp_path: Path, sampler: str) -> None:
    case = Case(num_workers=2, sampler=sampler)
    stopped = run_through(case.make_loader(folder), case)
    torch.save(stopped.state, tmp_path / "state.pt")
    for state in (json.loads(json.dumps(stopped.state)), torch.load(tmp_path / "state.pt", weights_only=True)):
        assert state == stopped.state
        assert resume(case.make_loader(folder), stopped, state) == stopped.rest


@pytest.mark.parametrize("is_torchs", [False, True])
@pytest.mark.parametrize("num_workers", [2, 3])
def test_another_process_goes_on(
    folder: Path, tmp_path: Path, run_child: RunChild, num_workers: int, is_torchs: bool
) -> None:
    case = Case(num_workers=num_workers, sampler="own batches")
    stopped = run_through(case.make_loader(folder), case)
    assert_another_process_goes_on(run_child, case, stopped, folder, tmp_path, is_torchs=is_torchs)


@pytest.mark.parametrize("num_workers", [1, 2, 4])
@pytest.mark.parametrize("batch_size", [1, 2, 5])
def test_a_file_that_fails_before_at_and_after_the_stop_changes_nothing(
    faulty_folder: Path, num_workers: int, batch_size: int
) -> None:
    dataset = ImageFolder(str(faulty_folder), recipes.training(32))

    def make() -> Any:
        return fastload.DataLoader(dataset, batch_size=batch_size, num_workers=num_workers, prefetch_factor=3)

    assert_failed_batches_count(make, fastload.SampleError)


def test_persistent_workers_that_were_left_in_an_epoch_go_on_in_the_next(folder: Path) -> None:
    case = Case(num_workers=3, persistent_workers=True)

    def run(loader: Any) -> Any:
        resumed_runs.seed_program(3)
        for _ in range(2):
            list(itertools.islice(loader, 2))  # the batches in flight draw, like torch's workers
        iterator = iter(loader)
        next(iterator)
        return iterator

    loader = case.make_loader(folder)
    iterator = run(loader)
    state = loader.state_dict()
    again = case.make_loader(folder)
    again.load_state_dict(state)
    assert [batch_of(*batch) for batch in again] == [batch_of(*batch) for batch in iterator]


@pytest.mark.parametrize("num_workers", [0, 2])
def test_views_of_an_image_go_on(folder: Path, num_workers: int) -> None:
    views = fastload.MultiView([recipes.training(24), recipes.training(32)])
    dataset = ImageFolder(str(folder), views)

    def make() -> Any:
        return fastload.DataLoader(dataset, batch_size=3, shuffle=True, num_workers=num_workers)

    torch.manual_seed(1)
    loader = make()
    iterator = iter(loader)
    next(iterator)
    state, program = loader.state_dict(), torch.get_rng_state()
    expected = [[view.numpy().tobytes() for view in views] for views, _ in iterator]
    again = make()
    again.load_state_dict(state)
    torch.set_rng_state(program)
    assert [[view.numpy().tobytes() for view in views] for views, _ in again] == expected


@pytest.mark.parametrize("num_workers", [1, 2])
def test_worker_init_fn_runs_again_and_the_draws_go_on_all_the_same(folder: Path, num_workers: int) -> None:
    called: list[int] = []

    def init(worker: int) -> None:
        called.append(worker)
        torch.manual_seed(40 + worker)

    case = Case(num_workers=num_workers)
    stopped = run_through(case.make_loader(folder, worker_init_fn=init), case)
    called.clear()
    assert resume(case.make_loader(folder, worker_init_fn=init), stopped) == stopped.rest
    assert called[:num_workers] == list(range(num_workers))


def test_any_number_of_workers_goes_on_where_nothing_depends_on_it(folder: Path) -> None:
    for case in (Case("evaluation", 2), Case("training", 2, rng="sample"), Case("training", 0, rng="sample", seed=3)):
        stopped = run_through(case.make_loader(folder), case)
        for num_workers in (0, 1, 5):
            loader = case.make_loader(folder, num_workers=num_workers)
            assert resume(loader, stopped)[0] == stopped.rest[0]


def test_a_loop_that_was_left_has_the_state_of_its_last_batch(folder: Path) -> None:
    case = Case(num_workers=2)
    loader, states = case.make_loader(folder), []
    torch.manual_seed(3)
    iterator = iter(loader)
    for _ in range(4):
        next(iterator)
        states.append(loader.state_dict())
    assert iterator.state_dict() == states[-1]
    del iterator
    assert loader.state_dict() == states[-1]
    torch.manual_seed(3)
    for step, _ in enumerate(loader):
        if step == 1:
            break
    left = loader.state_dict()
    assert left["fastload"]["draws"] == states[1]["fastload"]["draws"]
    assert left["fastload"]["epoch"] == 1


def test_a_loader_that_was_closed_still_has_its_state(folder: Path) -> None:
    case = Case(num_workers=2)
    loader = case.make_loader(folder)
    torch.manual_seed(3)
    iterator = iter(loader)
    next(iterator)
    state = loader.state_dict()
    loader.close()
    assert loader.state_dict() == state
    with pytest.raises(fastload.LoaderClosedError):
        next(iterator)
    assert loader.state_dict() == state


def test_other_prefetching_goes_on_with_the_same_batches(folder: Path) -> None:
    case = Case(num_workers=2, sampler="draws when asked")
    stopped = run_through(case.make_loader(folder), case)
    for prefetch_factor in (1, 7):
        loader = case.make_loader(folder, prefetch_factor=prefetch_factor)
        assert resume(loader, stopped)[0] == stopped.rest[0]
        loader.load_state_dict(stopped.state)
        resumed_runs.set_program_states(stopped.program)
        next(iter(loader))
        again = case.make_loader(folder)
        again.load_state_dict(loader.state_dict())
        assert [batch_of(*batch) for batch in again] == stopped.rest[0][1:]


def test_a_state_is_as_large_as_what_it_has_to_keep(folder: Path) -> None:
    def size_of(case: Case) -> int:
        return len(json.dumps(state_after_first(case.make_loader(folder))))

    assert size_of(Case("training", 8)) <= 30_000
    assert size_of(Case("evaluation", 8)) <= 2_000
    assert size_of(Case("training", 8, rng="sample")) <= 2_000
    assert size_of(Case("evaluation", 8, sampler="draws when asked")) <= 12_000


def test_the_position_of_a_large_data_set_is_found_at_once(tmp_path: Path) -> None:
    make_clean_folder(tmp_path, 1)
    path = str(next(tmp_path.rglob("*.JPEG")))
    dataset = fastload.ImageFiles([path] * 400_000, [0] * 400_000, recipes.evaluation(40, 32))

    def make() -> Any:
        return fastload.DataLoader(dataset, batch_size=8, shuffle=True, num_workers=1)

    loader = make()
    next(iter(loader))
    state = loader.state_dict()
    state["_num_yielded"] = state["_sampler_iter_yielded"] = state["fastload"]["position"] = 45_000
    state["fastload"]["sampler"]["seed"] = 1
    again = make()
    begin = time.process_time()
    again.load_state_dict(state)
    images, _ = next(iter(again))
    assert images.shape[0] == 8
    assert time.process_time() - begin < 2  # 45,000 batches take longer
