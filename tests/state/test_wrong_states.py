"""A state that does not fit is refused by name before anything is changed, and with no error but StateError."""

from __future__ import annotations

import base64
import copy
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import recipes
import torch
from image_folders import save_jpeg
from resumed_runs import BATCH_SIZE, Case, assert_rest_equal, batch_of, program_bytes, resume, run_through, seeded
from state_checks import mutant, state_after_first
from torch.utils.data import DistributedSampler, RandomSampler, Sampler
from torchvision import transforms
from torchvision.datasets import ImageFolder

import fastload

NUM_MUTANTS = 10_000


def refused(loader: Any, state: Any, **options: Any) -> fastload.StateError:
    """Returns the error of load_state_dict(), and asserts that it has changed nothing."""
    before, program, running = loader.state_dict(), program_bytes(), loader._fastload.progress.iterator
    with pytest.raises(fastload.StateError) as caught:
        loader.load_state_dict(state, **options)
    assert loader.state_dict() == before
    assert program_bytes() == program
    assert loader._fastload.progress.iterator is running
    error = caught.value
    assert isinstance(error, (fastload.FastloadError, ValueError))
    assert isinstance(error, AssertionError)
    return error


def state_of(case: Case, folder: Path, **changes: Any) -> dict[str, Any]:
    return state_after_first(case.make_loader(folder, **changes))


# ---- other loaders ---------------------------------------------------------------------------------------------------


@pytest.fixture
def other_folder(folder: Path, tmp_path: Path) -> Path:
    shutil.copytree(folder, tmp_path / "other")
    return tmp_path / "other"


@pytest.mark.parametrize("is_running", [False, True])
def test_another_folder_is_named(folder: Path, other_folder: Path, is_running: bool) -> None:
    case = Case()
    loader = case.make_loader(other_folder)
    iterator = iter(loader) if is_running else None
    error = refused(loader, state_of(case, folder))
    assert error.field == "fastload.fingerprint.paths"
    assert "Pass strict=False to load it anyway" in str(error)
    if iterator is not None:
        assert len(list(iterator)) == len(loader)
    with pytest.warns(UserWarning, match="names and labels of files"):
        loader.load_state_dict(state_of(case, folder), strict=False)
    assert len(list(loader)) == len(loader) - 1


@pytest.mark.parametrize("strict", [False, True])
def test_one_file_more_is_named(folder: Path, other_folder: Path, strict: bool) -> None:
    state = state_of(Case(), folder)
    save_jpeg(other_folder / "class2" / "one_more.JPEG", 1, 90, 90)
    error = refused(Case().make_loader(other_folder), state, strict=strict)
    assert error.field == "fastload.fingerprint.samples"
    assert "the state has 22, and this loader has 23" in str(error)


@pytest.mark.parametrize("change", ["resize", "normalisation", "a step more"])
def test_another_transform_is_named(folder: Path, change: str) -> None:
    case = Case("evaluation")
    loader = case.make_loader(folder)
    steps = list(loader.dataset.transform.transforms)
    steps = {
        "resize": [transforms.Resize(41), *steps[1:]],
        "normalisation": [*steps[:-1], transforms.Normalize(recipes.MEAN, (0.2, 0.2, 0.3))],
        "a step more": [*steps[:2], transforms.RandomHorizontalFlip(), *steps[2:]],
    }[change]
    loader.dataset.transform = transforms.Compose(steps)
    error = refused(loader, state_of(case, folder))
    assert error.field == "fastload.fingerprint.transform"
    with pytest.warns(UserWarning, match="native steps of the transform"):
        loader.load_state_dict(state_of(case, folder), strict=False)
    assert len(list(loader)) == len(loader) - 1


def test_another_batch_size_is_named_and_may_be_taken_where_it_divides_the_samples(folder: Path) -> None:
    case = Case("evaluation", stop=4)
    stopped = run_through(case.make_loader(folder), case)
    loader = case.make_loader(folder, batch_size=6)
    error = refused(loader, stopped.state)
    assert error.field == "fastload.fingerprint.batch_size"
    assert f"the state has {BATCH_SIZE}, and this loader has 6" in str(error)
    with pytest.warns(UserWarning, match="samples of a batch: the state has 3, and this loader has 6"):
        loader.load_state_dict(stopped.state, strict=False)
    samples = [label for batch in loader for label in batch_of(*batch)[1]]
    assert samples == [label for batch in stopped.rest[0] for label in batch[1]]
    error = refused_with_warning(case.make_loader(folder, batch_size=5), stopped.state)
    assert "4 batches of 3 were handed out, which is not a whole number of batches of 5" in str(error)


def refused_with_warning(loader: Any, state: Any) -> fastload.StateError:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return refused(loader, state, strict=False)


def test_another_number_of_workers_is_refused_by_iter_where_draws_depend_on_it(folder: Path) -> None:
    case = Case(num_workers=2)
    stopped = run_through(case.make_loader(folder), case)
    for num_workers in (0, 1, 4):
        loader = case.make_loader(folder, num_workers=num_workers)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            loader.load_state_dict(stopped.state)
        with pytest.raises(fastload.StateError, match=f"is 2, and this loader has {num_workers}") as caught:
            iter(loader)
        assert caught.value.field == "fastload.num_workers"
        assert loader.state_dict() == stopped.state
        loader.num_workers = 2
    error = case.make_loader(folder, num_workers=4)
    error.load_state_dict(state_of(Case(num_workers=0), folder))
    with pytest.raises(fastload.StateError, match="is 0, and this loader has 4"):
        iter(error)


OTHER_LOADERS: dict[str, tuple[str, Callable[[Any], dict[str, Any]]]] = {
    "rng": ("fastload.rng", lambda _: {"rng": "sample"}),
    "sampler": ("fastload.sampler.kind", lambda _: {"shuffle": False}),
    "own sampler": (
        "fastload.sampler.kind",
        lambda dataset: {"shuffle": False, "sampler": DistributedSampler(dataset, 2, 0)},
    ),
    "replacement": (
        "fastload.fingerprint.sampler",
        lambda dataset: {"shuffle": False, "sampler": RandomSampler(dataset, True)},
    ),
    "drop_last": ("fastload.fingerprint.drop_last", lambda _: {"drop_last": True}),
}


@pytest.mark.parametrize("name", OTHER_LOADERS)
def test_a_loader_with_other_arguments_is_named(folder: Path, name: str) -> None:
    field, arguments_of = OTHER_LOADERS[name]
    state = state_of(Case(), folder)
    dataset = ImageFolder(str(folder), recipes.training(32))
    assert refused(Case().make_loader(folder, **arguments_of(dataset)), state).field == field


def test_another_seed_and_a_missing_generator_are_named(folder: Path) -> None:
    state = state_of(Case(rng="sample", seed=3), folder)
    assert refused(Case(rng="sample", seed=4).make_loader(folder), state).field == "fastload.seed"
    state = state_of(Case(), folder, generator=seeded())
    assert refused(Case().make_loader(folder), state).field.startswith("fastload.sampler.generators.")
    case = Case(sampler="sequential")
    state = state_of(case, folder, generator=seeded())
    assert refused(case.make_loader(folder), state).field == "fastload.generator"


# ---- hostile states --------------------------------------------------------------------------------------------------


def text_with_counter(text: str, counter: int) -> str:
    data = bytearray(base64.b64decode(text))
    data[-4:] = counter.to_bytes(4, "little")
    return base64.b64encode(bytes(data)).decode()


def endless() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


HOSTILE: dict[str, tuple[str, Callable[[dict[str, Any]], Any]]] = {
    "no dict": ("state", lambda state: [state]),
    "none of ours": ("fastload", lambda state: {"_num_yielded": 1}),
    "another version": ("fastload.version", lambda state: state["fastload"].update(version=2)),
    "a version that is no int": ("fastload.version", lambda state: state["fastload"].update(version=True)),
    "a huge int": ("fastload.epoch", lambda state: state["fastload"].update(epoch=10**400)),
    "a negative int": ("fastload.position", lambda state: state["fastload"].update(position=-1)),
    "a bool for an int": ("fastload.epoch", lambda state: state["fastload"].update(epoch=True)),
    "behind the end": ("_num_yielded", lambda state: state.update(_num_yielded=99, _sampler_iter_yielded=99)),
    "a short text": ("fastload.draws[1]", lambda state: state["fastload"]["draws"].insert(1, "AAAA")),
    "a text too few": ("fastload.draws", lambda state: state["fastload"]["draws"].pop()),
    "no texts": ("fastload.draws", lambda state: state["fastload"].pop("draws")),
    "no base64": (
        "fastload.draws[0]",
        lambda state: state["fastload"].update(draws=["!" * 3340, *state["fastload"]["draws"][1:]]),
    ),
    "a counter of 10**6": (
        "fastload.draws[0]",
        lambda state: state["fastload"].update(
            draws=[text_with_counter(text, 10**6) for text in state["fastload"]["draws"]]
        ),
    ),
    "a sampler of an unknown kind": (
        "fastload.sampler.kind",
        lambda state: state["fastload"]["sampler"].update(kind=1),
    ),
    "a list that contains itself": ("state", lambda state: state.update(more=endless())),
    "a rank too many": ("fastload.world", lambda state: state["fastload"].update(world=[2, 2])),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_state_is_refused_by_its_field(folder: Path, name: str) -> None:
    field, change = HOSTILE[name]
    state = state_of(Case(), folder)
    if name == "a short text":
        state["fastload"]["draws"].pop()
    changed = change(state)
    found = changed if name in ("no dict", "none of ours") else state
    assert refused(Case().make_loader(folder), found).field == field


@pytest.mark.parametrize("name", ["torch", "random", "numpy"])
def test_a_position_of_a_generator_that_is_too_large_is_refused(folder: Path, name: str) -> None:
    case = Case("evaluation", sampler="draws when asked")
    state = state_of(case, folder)
    program = state["fastload"]["sampler"]["program"]
    if name == "torch":
        data = bytearray(base64.b64decode(program[name]))
        data[16:20] = (10**6).to_bytes(4, "little")
        program[name] = base64.b64encode(bytes(data)).decode()
    else:
        program[name] = text_with_counter(program[name], 10**6)
    error = refused(case.make_loader(folder), state)
    assert error.field == f"fastload.sampler.program.{name}"
    assert "is not the state of a generator" in str(error)


class Refusing(Sampler[int]):
    """Stateful, with a state that it does not accept."""

    def __len__(self) -> int:
        return 22

    def __iter__(self) -> Any:
        return iter(range(22))

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: Any) -> None:
        raise KeyError("given")


def test_a_sampler_that_does_not_take_its_state_is_named(folder: Path) -> None:
    case = Case("evaluation", sampler="sequential")
    state = state_of(case, folder, sampler=Refusing())
    loader = case.make_loader(folder, sampler=Refusing())
    loader.load_state_dict(state)
    with pytest.raises(fastload.StateError, match=r"Refusing.load_state_dict\(\) has raised KeyError") as caught:
        iter(loader)
    assert isinstance(caught.value.__cause__, KeyError)


# ---- mutants ---------------------------------------------------------------------------------------------------------

MUTATED = {
    "training": Case(),
    "generator": Case(sampler="random with two generators", persistent_workers=True),
    "between epochs": Case(persistent_workers=True, stop="finished"),
    "asked again": Case("evaluation", sampler="draws when asked"),
    "held": Case("evaluation", sampler="holds generators"),
    "distributed": Case("evaluation", 0, sampler="distributed", rng="sample", seed=3),
}


def assert_mutants(name: str, folder: Path, seeds: range) -> tuple[int, int]:
    """Returns how many were loaded and how many refused; only load_state_dict() or iter() may refuse."""
    case, num_loaded, num_refused = MUTATED[name], 0, 0
    loader = case.make_loader(folder)
    states = [run_through(loader, case).state, case.make_loader(folder).state_dict()]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in seeds:
            state = mutant(states[seed % 7 == 0], seed)
            given = copy.deepcopy(state)
            error = error_of(loader, state, strict=seed % 2 == 0, is_begun=seed % 10 == 0)
            if error is None:
                num_loaded += 1
                continue
            num_refused += 1
            assert isinstance(error, fastload.StateError), f"mutant {seed} of {name!r} gives {error!r}"
            assert error.field.split(".")[0].split("[")[0] in {"state", *states[0], *states[1]}, error.field
            assert same(state, given)
    return num_loaded, num_refused


def error_of(loader: Any, state: Any, *, strict: bool, is_begun: bool) -> Exception | None:
    """Returns the error of load_state_dict(), or of iter() after it; None: the state was loaded as it is."""
    given = copy.deepcopy(state)
    try:
        loader.load_state_dict(state, strict=strict)
        assert same(loader.state_dict(), given)
        if is_begun:
            next(iter(loader), None)
    except Exception as error:  # noqa: BLE001 - it is looked at
        return error
    return None


def same(one: Any, other: Any) -> bool:
    """Returns whether two values are equal, even with NaN, or with an object that equals nothing."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(value, other[name]) for name, value in one.items())
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return type(one) is object or one == other or (isinstance(one, float) and np.isnan(one))


@pytest.mark.parametrize("name", MUTATED)
def test_a_mutated_state_is_refused_by_name_or_loaded_as_it_is(folder: Path, name: str) -> None:
    num_loaded, num_refused = assert_mutants(name, folder, range(400))
    assert num_loaded >= 20
    assert num_refused >= 200


@pytest.mark.slow
@pytest.mark.parametrize("name", MUTATED)
def test_ten_thousand_mutated_states_are_refused_by_name_or_loaded(folder: Path, name: str) -> None:
    count = NUM_MUTANTS // len(MUTATED)
    assert sum(assert_mutants(name, folder, range(1000, 1000 + count))) == count


def test_a_loader_goes_on_after_states_that_were_refused(folder: Path) -> None:
    case = Case()
    stopped = run_through(case.make_loader(folder), case)
    loader = case.make_loader(folder)
    for seed in range(60):
        try:
            loader.load_state_dict(mutant(stopped.state, seed))
        except fastload.StateError:
            continue
    assert_rest_equal(stopped.rest, resume(loader, stopped), case)
    assert torch.is_tensor(next(iter(loader))[0])


@pytest.mark.parametrize("key", ["_snapshot", "_index_sampler_state"])
def test_a_state_of_torchdatas_loader_is_refused_with_what_to_do(key: str) -> None:
    loader = fastload.DataLoader(list(range(22)), batch_size=3)
    error = refused(loader, {key: {}, "_num_yielded": 4, "_iterator_finished": False})
    assert error.field == "fastload"
    assert "torchdata's StatefulDataLoader made the state, and fastload.DataLoader cannot continue it" in str(error)
    assert "Finish the epoch with torchdata's loader, or start it again" in str(error)
