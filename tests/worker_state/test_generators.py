"""In a worker's thread Python's, NumPy's and torch's generators are the worker's own, and the program's elsewhere."""

from __future__ import annotations

import copy
import gc
import pickle
import random
import re
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import numpy as np
import pytest
import torch
from both_loaders import Threads
from child_loader import wait_for
from forked import in_fork
from holders import LEGACY, WAYS
from numbered import Numbered
from torch.utils.data._utils import worker

from fastload._iteration.python._worker_draws import WorkerDraws
from fastload._workers import _exchanges
from fastload._workers._exchanges import exchanged
from fastload._workers._generators import WorkerGenerators
from fastload._workers._seeding import seed_numpy_of_process
from fastload._workers._user_code import UserCode

DRAWS = {
    f"{kind}: {name}": draw for kind, table in (("random", WAYS), ("numpy", LEGACY)) for name, draw in table.items()
}
NUMBER_OF_THREADS = 4


def seed_all(base_seed: int, worker_id: int) -> None:
    """Seeds all three generators as torch's worker process does."""
    random.seed(base_seed + worker_id)
    torch.manual_seed(base_seed + worker_id)
    np.random.seed(worker._generate_state(base_seed, worker_id))


def plain(value: Any) -> Any:
    """Returns a value that == compares as a whole."""
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    return value.tolist() if hasattr(value, "tolist") else value


def draw_all(times: int = 5) -> dict[str, Any]:
    drawn: dict[str, Any] = {}
    for _ in range(times):
        for name, draw in DRAWS.items():
            drawn.setdefault(name, []).append(plain(draw()))
    drawn["end"] = [plain(random.getstate()), plain(list(np.random.get_state(legacy=True)))]
    return drawn


def differing(drawn: dict[str, Any], expected: dict[str, Any]) -> list[str]:
    return [name for name in expected if drawn[name] != expected[name]]


def in_new_thread(function: Callable[[], Any]) -> Any:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function).result()


def attributes() -> list[tuple[Any, str, Any]]:
    return [(module, name, value) for module in (random, np.random) for name, value in vars(module).items()]


def nothing_is_exchanged() -> bool:
    return type(random._inst) is random.Random  # type: ignore[attr-defined]


@pytest.fixture(autouse=True)
def _state_of_the_process() -> Iterator[None]:
    """Restores the process's generators after each test, and checks that nothing is exchanged.

    Waits until the workers of earlier tests have ended, which they do a little after their iterator is dropped.
    """
    assert wait_for(lambda: gc.collect() >= 0 and nothing_is_exchanged(), 60), [
        thread.name for thread in threading.enumerate()
    ]
    states = random.getstate(), np.random.get_state(), torch.get_rng_state()
    before, bit_generator = attributes(), np.random.mtrand._rand._bit_generator
    yield
    np.random.mtrand._rand.__init__(bit_generator)
    random.setstate(states[0])
    np.random.set_state(states[1])
    torch.set_rng_state(states[2])
    assert [name for module, name, value in before if getattr(module, name) is not value] == []
    assert nothing_is_exchanged()


def test_four_workers_and_the_program_draw_their_own_numbers_at_once() -> None:
    expected = []
    for worker_id in range(NUMBER_OF_THREADS):
        seed_all(11, worker_id)
        expected.append(draw_all())
    seed_all(99, 0)
    expected_of_program = draw_all()
    start = threading.Barrier(NUMBER_OF_THREADS + 1)

    def work(worker_id: int) -> dict[str, Any]:
        generators = WorkerGenerators(11, worker_id)
        with exchanged(), generators.entered():
            start.wait(60)
            return draw_all()

    seed_all(99, 0)
    with ThreadPoolExecutor(NUMBER_OF_THREADS) as pool:
        results = [pool.submit(work, worker_id) for worker_id in range(NUMBER_OF_THREADS)]
        start.wait(60)
        of_program = draw_all()
        drawn = [result.result() for result in results]

    assert [differing(*pair) for pair in zip(drawn, expected, strict=True)] == [[]] * NUMBER_OF_THREADS
    assert differing(of_program, expected_of_program) == []


def test_a_thread_that_is_no_worker_draws_from_the_program() -> None:
    seed_all(3, 0)
    expected = draw_all(1)
    seed_all(3, 0)
    with exchanged(), WorkerGenerators(1, 1).entered():
        drawn = in_new_thread(lambda: draw_all(1))
    assert differing(drawn, expected) == []


def test_generators_of_the_user_are_left_alone() -> None:
    expected = [random.Random(4).random(), np.random.RandomState(4).normal(), np.random.default_rng(4).random()]
    with exchanged(), WorkerGenerators(1, 1).entered():
        drawn = [random.Random(4).random(), np.random.RandomState(4).normal(), np.random.default_rng(4).random()]
        assert 0 <= random.SystemRandom().random() < 1
        with pytest.raises(NotImplementedError):
            random.SystemRandom().getstate()
    assert drawn == expected


def test_second_values_of_normal_pairs_are_kept_apart() -> None:
    random.seed(5)
    np.random.seed(5)
    expected = [random.gauss(0, 1), random.gauss(0, 1), np.random.normal(), np.random.normal()]
    random.seed(5)
    np.random.seed(5)
    first = [random.gauss(0, 1), np.random.normal()]
    generators = WorkerGenerators(1, 1)
    with exchanged():
        with generators.entered():
            own = [random.gauss(0, 1), np.random.normal()]
        second = [random.gauss(0, 1), np.random.normal()]
        with generators.entered():
            own += [random.gauss(0, 1), np.random.normal()]
    assert [first[0], second[0], first[1], second[1]] == expected
    seed_all(1, 1)
    assert own == [random.gauss(0, 1), np.random.normal(), random.gauss(0, 1), np.random.normal()]


def test_values_kept_before_the_exchange_outlive_it() -> None:
    random.seed(5)
    np.random.seed(5)
    random.gauss(0, 1)
    np.random.normal()
    expected = random.getstate(), plain(list(np.random.get_state()))
    with exchanged(), WorkerGenerators(1, 1).entered():
        random.gauss(0, 1)
        np.random.normal()
    assert (random.getstate(), plain(list(np.random.get_state()))) == expected


def test_what_takes_numpys_bit_generator_gets_the_workers() -> None:
    generators = WorkerGenerators(1, 1)
    expected = np.random.Generator(WorkerGenerators(1, 1).numpy._bit_generator).random(3).tolist()  # type: ignore[attr-defined]
    with exchanged(), generators.entered():
        taken = np.random.mtrand._rand._bit_generator
        assert taken is generators.numpy._bit_generator  # type: ignore[attr-defined]
        assert np.random.Generator(taken).random(3).tolist() == expected
    assert np.random.mtrand._rand._bit_generator is not taken


@pytest.mark.parametrize("numbers", [[1, 2, 3, 4], [0, 0, 0, 1], [2**32 - 1] * 4, [1, 2, 3, 0], [0, 0, 0, 0]])
def test_a_worker_process_seeds_numpy_as_numpy_seeds_itself(numbers: list[int]) -> None:
    def seeded(seed: Callable[[list[int]], None]) -> Any:
        np.random.normal()  # keeps a second number for the next call
        seed(numbers)
        state: Any = np.random.get_state(legacy=False)
        return plain(list(state["state"].values())), state["has_gauss"], state["gauss"], process_sequence()

    def process_sequence() -> Any:
        return getattr(np.random.mtrand._rand._bit_generator, "seed_seq", None)

    assert in_fork(lambda: seeded(seed_numpy_of_process)) == in_fork(lambda: seeded(np.random.seed))


@pytest.fixture
def new_exchanges(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exchanges that have not been tried in this process."""
    monkeypatch.setattr(_exchanges, "_of_process", _exchanges.Exchanges())


@pytest.mark.parametrize("kind", _exchanges.KINDS)
def test_a_table_that_is_not_obeyed_is_an_error_that_names_the_next_step(
    kind: type[_exchanges.Exchange], new_exchanges: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for method in ("make", "undo"):
        monkeypatch.setattr(kind, method, lambda self: None)
    words = rf"^{re.escape(kind.name)} cannot .*method table.*workers=\"processes\""
    random.seed(1)
    np.random.seed(1)
    torch.manual_seed(1)
    states = random.getstate(), plain(list(np.random.get_state())), torch.initial_seed()
    for _ in range(2):
        with pytest.raises(NotImplementedError, match=words), exchanged():
            pass
        assert nothing_is_exchanged()
    assert (random.getstate(), plain(list(np.random.get_state())), torch.initial_seed()) == states


def test_a_function_that_cannot_be_exchanged_is_an_error_that_names_the_next_step(
    new_exchanges: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_exchanges.RandomExchange, "_METHODS", ("random", "__init__"))
    loader = Threads(Numbered(8), num_workers=1)
    with pytest.raises(NotImplementedError, match=r"__init__ cannot be exchanged: .*workers=\"processes\""):
        next(iter(loader))


def test_functions_that_a_program_has_replaced_do_not_matter(
    new_exchanges: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mocks of random functions are common in tests, and a library may replace one of NumPy's or torch's."""
    for module, name in ((random, "random"), (random, "seed"), (np.random, "seed"), (np.random, "rand")):
        monkeypatch.setattr(module, name, lambda *_: 0.5)
    for name in ("rand", "randn", "dropout"):
        monkeypatch.setattr(torch, name, lambda *_, **__: torch.zeros(3))
    with torch.device("meta"), exchanged(), WorkerGenerators(1, 1).entered():
        assert random.getrandbits(40) == random.Random(2).getrandbits(40)


def test_methods_of_the_default_generator_are_the_workers() -> None:
    torch.manual_seed(21)
    of_program = torch.get_rng_state()
    generators = WorkerGenerators(7, 1)
    kept = torch.default_generator.get_state
    with exchanged(), generators.entered():
        assert torch.default_generator.initial_seed() == 8
        assert torch.equal(kept(), generators.torch.get_state())
        assert torch.default_generator.manual_seed(3) is torch.default_generator
        assert generators.torch.initial_seed() == 3
        state = torch.Generator().manual_seed(4).get_state()
        torch.default_generator.set_state(state)
        assert torch.equal(generators.torch.get_state(), state)
        assert torch.default_generator.seed() == generators.torch.initial_seed()
        if hasattr(torch.default_generator, "clone_state"):
            assert torch.equal(torch.default_generator.clone_state().get_state(), generators.torch.get_state())
        assert torch.Generator().manual_seed(5).initial_seed() == 5
    assert torch.default_generator.initial_seed() == 21
    assert torch.equal(torch.get_rng_state(), of_program)


def test_seeding_a_worker_gives_the_same_samples_again() -> None:
    generators = WorkerGenerators(7, 1)
    with exchanged(), generators.entered():
        generators.seed((5 << 40) + 3)
        first = draw_all(1), generators.torch.get_state().tolist()
        random.gauss(0, 1)
        np.random.normal()
        generators.seed((5 << 40) + 3)
        second = draw_all(1), generators.torch.get_state().tolist()
        generators.seed(3)
        other = draw_all(1)
    assert first == second
    assert "numpy: rand" in differing(other, first[0])
    assert "random: module attribute" in differing(other, first[0])


def test_random_object_is_pickled_and_copied_as_before() -> None:
    hidden = random._inst  # type: ignore[attr-defined]
    with exchanged():
        for copied in (copy.copy(hidden), copy.deepcopy(hidden), pickle.loads(pickle.dumps(hidden))):
            assert type(copied) is random.Random
            assert copied.getstate() == hidden.getstate()
        assert isinstance(hidden, random.Random)
        assert repr(hidden).startswith("<random.Random object at ")


def test_numpys_object_is_pickled_and_copied_as_before() -> None:
    with exchanged(), WorkerGenerators(1, 1).entered():
        copied = copy.deepcopy(np.random.mtrand._rand), pickle.loads(pickle.dumps(np.random.mtrand._rand))
        expected = np.random.normal(size=3).tolist()
    assert [state.normal(size=3).tolist() for state in copied] == [expected] * 2


def test_a_program_with_another_bit_generator_gets_workers_of_its_kind() -> None:
    np.random.set_bit_generator(np.random.PCG64(3))
    own = np.random.get_bit_generator()
    expected_of_program = np.random.RandomState(np.random.PCG64(3)).normal(size=4).tolist()
    generators = WorkerGenerators(7, 1)
    reference = np.random.RandomState(np.random.PCG64(worker._generate_state(7, 1)))
    with exchanged():
        first = [np.random.normal() for _ in range(3)]
        with generators.entered():
            drawn = [np.random.normal() for _ in range(3)]
            assert type(np.random.get_bit_generator()) is np.random.PCG64
        first.append(np.random.normal())
        assert np.random.get_bit_generator() is own
    assert np.random.get_bit_generator() is own
    assert first == expected_of_program
    assert drawn == [reference.normal() for _ in range(3)]


def test_a_bit_generator_set_meanwhile_is_the_threads_that_sets_it() -> None:
    generators, new = WorkerGenerators(7, 1), np.random.Philox(3)
    with exchanged():
        np.random.normal()
        np.random.set_bit_generator(new)
        with generators.entered():
            np.random.set_bit_generator(np.random.SFC64(5))
            assert np.random.normal() == np.random.RandomState(np.random.SFC64(5)).normal()
            np.random.set_state(np.random.get_state(legacy=False))
        assert np.random.normal() == np.random.RandomState(np.random.Philox(3)).normal()
        assert np.random.get_bit_generator() is new
    assert np.random.get_bit_generator() is new


def test_a_thousand_exchanges_leave_no_trace() -> None:
    with exchanged():
        pass
    before = attributes(), random.getstate(), plain(list(np.random.get_state()))
    methods = {name: getattr(random.Random, name) for name in dir(random.Random)}
    subjects = (random._inst, np.random.get_bit_generator(), torch.default_generator)  # type: ignore[attr-defined]
    gc.collect()
    before_counts = [*map(sys.getrefcount, subjects), len(gc.get_objects())]
    for _ in range(1000):
        with exchanged():
            pass
    gc.collect()
    counts = [*map(sys.getrefcount, subjects), len(gc.get_objects())]
    assert all(abs(now - then) < 500 for now, then in zip(counts, before_counts, strict=True)), "one for each exchange"
    assert attributes() == before[0]
    assert (random.getstate(), plain(list(np.random.get_state()))) == before[1:]
    assert all(getattr(random.Random, name) is value for name, value in methods.items() if not name.startswith("__"))


def test_worker_generators_are_freed() -> None:
    with exchanged():
        generators = WorkerGenerators(1, 1)
        kept = generators.random
        before = sys.getrefcount(kept)
        with generators.entered():
            draw_all(1)
        assert sys.getrefcount(kept) == before
        del generators
        gc.collect()
        assert sys.getrefcount(kept) == before - 1


@pytest.mark.parametrize("kind", _exchanges.KINDS)
@pytest.mark.parametrize("method", ["make", "undo"])
def test_an_error_in_an_exchange_leaves_the_process_as_it_was(
    kind: type[_exchanges.Exchange], method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with exchanged():
        pass
    exchange = next(each for each in _exchanges._of_process._exchanges if type(each) is kind)
    seed_all(3, 0)
    expected = draw_all(1)

    def fail() -> None:
        if method == "undo":
            type(exchange).undo(exchange)
        raise MemoryError("no more")

    with monkeypatch.context() as patch:
        patch.setattr(exchange, method, fail)
        with pytest.raises(MemoryError, match="no more"), exchanged():
            assert method == "undo"
    assert nothing_is_exchanged()
    assert type(np.random.mtrand._rand._bit_generator) is np.random.MT19937
    with WorkerGenerators(1, 1).entered():
        seed_all(3, 0)
        assert differing(draw_all(1), expected) == []
    with exchanged():
        assert not nothing_is_exchanged()


def test_making_a_workers_generators_does_not_wait_for_the_program_that_draws_an_array() -> None:
    """Nor does it hold the lock of NumPy's generator, which a child that is forked meanwhile would find held."""
    with ThreadPoolExecutor(1) as pool, np.random.mtrand._rand._bit_generator.lock:
        assert pool.submit(WorkerGenerators, 1, 1).result(60).numpy.rand() == WorkerGenerators(1, 1).numpy.rand()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_child_forked_by_a_worker_goes_on_with_its_generators() -> None:
    def work() -> float:
        with exchanged(), generators.entered():
            return in_fork(np.random.rand)

    seed_all(7, 1)
    expected = np.random.rand()
    generators = WorkerGenerators(7, 1)
    with exchanged():
        assert in_new_thread(work) == expected


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_child_leaves_the_exchange_that_its_parent_held() -> None:
    def child() -> bool:
        holder.__exit__(None, None, None)
        with exchanged():
            is_made = not nothing_is_exchanged()
        return is_made and nothing_is_exchanged()

    holder = exchanged()
    with holder:
        assert in_fork(child)


def test_states_are_set_in_workers_while_others_draw_normal_arrays() -> None:
    """fairseq's and others' context managers of a temporary seed, in one worker, and noise in another."""

    def noise(worker_id: int) -> list[float]:
        with exchanged(), WorkerGenerators(1, worker_id).entered():
            start.wait(60)
            return [float(np.random.normal(size=200_001).sum()) for _ in range(20)]

    def seeds(worker_id: int) -> list[float]:
        drawn = []
        with exchanged(), WorkerGenerators(1, worker_id).entered():
            start.wait(60)
            for number in range(1500):
                state = np.random.get_state()
                np.random.seed(number)
                drawn.append(np.random.normal())
                np.random.set_state(state)
            drawn.append(np.random.normal())
        return drawn

    start = threading.Barrier(2)
    with ThreadPoolExecutor(2) as pool:
        results = pool.submit(noise, 0), pool.submit(seeds, 1)
        drawn = [result.result() for result in results]
    seed_all(1, 0)
    assert drawn[0] == [float(np.random.normal(size=200_001).sum()) for _ in range(20)]
    expected = [np.random.RandomState(number).normal() for number in range(1500)]
    seed_all(1, 1)
    assert drawn[1] == [*expected, np.random.normal()]


def test_a_state_is_read_again_after_each_draw_and_not_otherwise() -> None:
    generators = WorkerGenerators(1, 1)
    draws = WorkerDraws(generators, cast("UserCode", None), None)
    more = {"random: gauss": lambda: random.gauss(0, 1), "random: seed": lambda: random.seed(3)}
    with exchanged(), generators.entered():
        for name, draw in {**DRAWS, **more, "numpy: seed": lambda: np.random.seed(3)}.items():
            for _ in range(2):  # the second normal number is one that the first has left
                draw()
                states = draws.copy(is_after_batch=False).generators
                assert states.python == random.getstate(), name
                assert plain(states.numpy) == plain(np.random.get_state()), name
        again = draws.copy(is_after_batch=False).generators
    assert again.python is states.python
    assert again.numpy is states.numpy
