"""torch's random functions draw from a thread's generator what they would draw from the process's one."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
import torchvision_shim  # noqa: F401
from torch.overrides import TorchFunctionMode
from torchvision.transforms import v2

from fastload import _native
from fastload._workers import _torch_draws
from fastload._workers._exchanges import exchanged
from fastload._workers._generators import WorkerGenerators

HALVES = torch.full((3, 5), 0.5)
INTEGERS = torch.full((3, 5), 7)


def empty() -> torch.Tensor:
    return torch.empty(4, 6)


@contextlib.contextmanager
def drawing_from(generator: torch.Generator) -> Iterator[None]:
    with exchanged():
        own = _native.ThreadGenerators(random.Random(), np.random.RandomState(), generator)
        before = _native.set_thread_generators(own)
        try:
            yield
        finally:
            _native.set_thread_generators(before)


# Each is called with **{} or with generator=; all of them take one.
WITH_GENERATOR: dict[str, Callable[..., Any]] = {
    "rand": lambda **g: torch.rand(3, 7, **g),
    "rand of a size as keyword": lambda **g: torch.rand(size=(3, 7), dtype=torch.float64, **g),
    "randn": lambda **g: torch.randn(40, **g),
    "randn into a tensor": lambda **g: torch.randn(4, 6, out=empty(), **g),
    "randint": lambda **g: torch.randint(10, (8,), **g),
    "randint of a range": lambda **g: torch.randint(-5, 1 << 40, (8,), **g),
    "randperm": lambda **g: torch.randperm(30, **g),
    "normal of tensors": lambda **g: torch.normal(HALVES, HALVES, **g),
    "normal of a mean": lambda **g: torch.normal(HALVES, **g),
    "normal of a deviation": lambda **g: torch.normal(0.25, HALVES, **g),
    "normal of numbers": lambda **g: torch.normal(1.0, 2.0, (4,), **g),
    "bernoulli": lambda **g: torch.bernoulli(HALVES, **g),
    "bernoulli of a number": lambda **g: torch.bernoulli(HALVES, 0.3, **g),
    "multinomial": lambda **g: torch.multinomial(HALVES, 3, **g),
    "multinomial with replacement": lambda **g: torch.multinomial(HALVES, 9, replacement=True, **g),
    "poisson": lambda **g: torch.poisson(HALVES * 9, **g),
    "binomial": lambda **g: torch.binomial(HALVES * 20, HALVES, **g),
    "_standard_gamma": lambda **g: torch._standard_gamma(HALVES, **g),
    "_sample_dirichlet": lambda **g: torch._sample_dirichlet(HALVES, **g),
    "Tensor.bernoulli": lambda **g: HALVES.bernoulli(**g),
    "Tensor.bernoulli_": lambda **g: empty().bernoulli_(0.3, **g),
    "Tensor.bernoulli_ of tensors": lambda **g: empty().bernoulli_(torch.full((4, 6), 0.3), **g),
    "Tensor.cauchy_": lambda **g: empty().cauchy_(**g),
    "Tensor.exponential_": lambda **g: empty().exponential_(2.0, **g),
    "Tensor.geometric_": lambda **g: empty().geometric_(0.2, **g),
    "Tensor.log_normal_": lambda **g: empty().log_normal_(**g),
    "Tensor.multinomial": lambda **g: HALVES.multinomial(2, **g),
    "Tensor.normal_": lambda **g: empty().normal_(1, 3, **g),
    "Tensor.random_": lambda **g: empty().random_(**g),
    "Tensor.random_ of a range": lambda **g: INTEGERS.clone().random_(3, 90, **g),
    "Tensor.uniform_": lambda **g: empty().uniform_(-1, 1, **g),
    "nn.init.normal_": lambda **g: torch.nn.init.normal_(empty(), **g),
    "nn.init.trunc_normal_": lambda **g: torch.nn.init.trunc_normal_(empty(), **g),
    "nn.init.uniform_": lambda **g: torch.nn.init.uniform_(empty(), **g),
    "nn.init.kaiming_normal_": lambda **g: torch.nn.init.kaiming_normal_(empty(), **g),
    "nn.init.kaiming_uniform_": lambda **g: torch.nn.init.kaiming_uniform_(empty(), **g),
    "nn.init.xavier_normal_": lambda **g: torch.nn.init.xavier_normal_(empty(), **g),
    "nn.init.orthogonal_": lambda **g: torch.nn.init.orthogonal_(empty(), **g),
}

SEQUENCE = torch.linspace(-1, 1, 4 * 6 * 8).view(4, 6, 8)
IMAGES = torch.linspace(-1, 1, 2 * 3 * 9 * 9).view(2, 3, 9, 9)
VOLUMES = torch.linspace(-1, 1, 2 * 6 * 6 * 6).view(1, 2, 6, 6, 6)
QUERIES = torch.linspace(-1, 1, 160).view(2, 2, 5, 8)
MATRIX = torch.arange(200.0).view(20, 10)
LSTM = torch.nn.LSTM(8, 8, 3, dropout=0.4)
ATTENTION = torch.nn.MultiheadAttention(8, 2, dropout=0.3)
functional = torch.nn.functional

# These have no generator, or have one in newer versions of torch only.
WITHOUT_GENERATOR: dict[str, Callable[[], Any]] = {
    "rand_like": lambda: torch.rand_like(HALVES),
    "rand_like of another type": lambda: torch.rand_like(INTEGERS, dtype=torch.float64),
    "rand_like by keyword": lambda: torch.rand_like(input=HALVES),
    "randn_like": lambda: torch.randn_like(HALVES.t(), memory_format=torch.preserve_format),
    "randint_like": lambda: torch.randint_like(HALVES, 9),
    "randint_like of a range": lambda: torch.randint_like(INTEGERS, -4, 9),
    "randint_like by keyword": lambda: torch.randint_like(INTEGERS, low=2, high=9),
    "dropout": lambda: torch.dropout(HALVES, 0.4, True),
    "dropout by keyword": lambda: torch.dropout(HALVES, p=0.4, train=True),
    "dropout of strides": lambda: torch.dropout(torch.arange(15.0).view(3, 5).t(), 0.7, True),
    "dropout_": lambda: torch.dropout_(HALVES.clone(), 0.4, True),
    "dropout when not training": lambda: torch.dropout(HALVES, 0.4, False),
    "dropout of everything": lambda: torch.dropout(HALVES, 1.0, True),
    "dropout of nothing": lambda: torch.dropout(HALVES, 0.0, True),
    "functional.dropout": lambda: torch.nn.functional.dropout(HALVES),
    "functional.dropout in place": lambda: torch.nn.functional.dropout(HALVES.clone(), 0.3, True, True),
    "nn.Dropout": lambda: torch.nn.Dropout(0.2)(HALVES),
    "distributions.Beta": lambda: torch.distributions.Beta(0.4, 0.4).sample((3,)),
    "distributions.Normal": lambda: torch.distributions.Normal(0.0, 2.0).sample((3,)),
    "distributions.Categorical": lambda: torch.distributions.Categorical(HALVES).sample(),
    "distributions.Gamma": lambda: torch.distributions.Gamma(2.0, 1.0).sample((3,)),
    "v2.RandomErasing": lambda: v2.RandomErasing(1.0, value="random")(torch.zeros(3, 32, 32)),
    "v2.MixUp": lambda: v2.MixUp(num_classes=3)(
        torch.ones(2, 3, 4, 4) * torch.arange(2).view(2, 1, 1, 1), INTEGERS[0, :2] - 5
    )[0],
    "v2.RandomChoice": lambda: v2.RandomChoice([v2.RandomInvert(0.5), v2.RandomSolarize(0.5)])(
        torch.full((3, 4, 4), 0.7)
    ),
    "v2.ColorJitter": lambda: v2.ColorJitter(0.4, 0.4, 0.4, 0.2)(torch.linspace(0, 1, 48).view(3, 4, 4)),
    "MultiheadAttention": lambda: ATTENTION(SEQUENCE, SEQUENCE, SEQUENCE)[0],
    "gumbel_softmax": lambda: functional.gumbel_softmax(SEQUENCE),
    "fractional_max_pool2d": lambda: functional.fractional_max_pool2d(IMAGES, 2, output_size=4),
    "fractional_max_pool2d with indices": lambda: functional.fractional_max_pool2d(
        IMAGES, 2, output_ratio=(0.6, 0.6), return_indices=True
    )[1],
    "fractional_max_pool3d": lambda: functional.fractional_max_pool3d(VOLUMES, 2, output_size=3),
    "pca_lowrank": lambda: torch.pca_lowrank(MATRIX, 3)[1],
    "svd_lowrank": lambda: torch.svd_lowrank(MATRIX, 3)[1],
    "lobpcg": lambda: torch.lobpcg(torch.diag(torch.arange(1.0, 13.0)), 2)[0],
    "nn.init.sparse_": lambda: torch.nn.init.sparse_(empty(), 0.5),
    "nn.Linear": lambda: torch.nn.Linear(3, 4).weight.detach(),
}
ALL: dict[str, Callable[[], Any]] = {**WITH_GENERATOR, **WITHOUT_GENERATOR}

# Functions written in C++ that draw inside and take no generator.
DRAWING_INSIDE: dict[str, Callable[[], Any]] = {
    "LSTM": lambda: LSTM(SEQUENCE)[0],
    "MultiheadAttention without weights": lambda: ATTENTION(SEQUENCE, SEQUENCE, SEQUENCE, need_weights=False)[0],
    "attention": lambda: functional.scaled_dot_product_attention(QUERIES, QUERIES, QUERIES, dropout_p=0.3),
    "native_dropout": lambda: torch.native_dropout(SEQUENCE, 0.3, True)[0],
    "dropout2d": lambda: functional.dropout2d(IMAGES, 0.3, True),
    "alpha_dropout": lambda: torch.alpha_dropout(SEQUENCE, 0.3, True),
    "rrelu": lambda: torch.rrelu(SEQUENCE, training=True),
}


def drawn_from_process(call: Callable[[], Any]) -> tuple[Any, torch.Tensor]:
    """Returns the result of `call` after manual_seed(5), and the state of the process's generator after it."""
    before = torch.get_rng_state()
    torch.manual_seed(5)
    result, state = call(), torch.get_rng_state()
    torch.set_rng_state(before)
    return result, state


@pytest.mark.parametrize("name", ALL)
def test_a_call_draws_from_the_threads_generator_what_the_processs_would_give(name: str) -> None:
    expected, end_state = drawn_from_process(ALL[name])
    generator = torch.Generator().manual_seed(5)
    before = torch.get_rng_state()
    with drawing_from(generator):
        found = ALL[name]()
    assert torch.equal(found, expected)
    assert found.dtype == expected.dtype
    assert found.stride() == expected.stride()
    assert torch.equal(generator.get_state(), end_state)
    assert torch.equal(torch.get_rng_state(), before)


BY_POSITION: dict[str, Callable[[Any], Any]] = {
    "poisson": lambda given: torch.poisson(HALVES, given),
    "nn.init.normal_": lambda given: torch.nn.init.normal_(empty(), 0, 1, given),
}
GIVEN: dict[str, Callable[[Any], Any]] = {
    **{name: lambda given, call=call: call(generator=given) for name, call in WITH_GENERATOR.items()},
    **{f"{name} by position": call for name, call in BY_POSITION.items()},
}


@pytest.mark.parametrize("name", GIVEN)
def test_a_generator_that_the_caller_gives_is_used_unless_it_is_torchs_default(name: str) -> None:
    call = GIVEN[name]
    expected = call(torch.Generator().manual_seed(9))
    generator = torch.Generator().manual_seed(5)
    states = generator.get_state(), torch.get_rng_state()
    with drawing_from(generator):
        assert torch.equal(call(torch.Generator().manual_seed(9)), expected)
    assert torch.equal(generator.get_state(), states[0])
    as_none_given, _ = drawn_from_process(lambda: call(torch.default_generator))
    for given in (torch.default_generator, *[None] * (name in WITH_GENERATOR)):
        with drawing_from(generator.manual_seed(5)):
            assert torch.equal(call(given), as_none_given)
    assert torch.equal(torch.get_rng_state(), states[1])


def test_other_devices_keep_their_own_generators() -> None:
    generator = torch.Generator().manual_seed(5)
    before = generator.get_state()
    with drawing_from(generator):
        torch.rand(3, device="meta")
        torch.empty(3, device="meta").uniform_()
        torch.rand_like(HALVES, device="meta")
        torch.dropout(torch.ones(3, device="meta"), 0.5, True)
        torch.alpha_dropout(torch.ones(3, device="meta"), 0.5, True)
    assert torch.equal(generator.get_state(), before)


def test_gradients_go_through_dropout() -> None:
    def gradient() -> torch.Tensor:
        values = SEQUENCE.clone().requires_grad_()
        torch.dropout(values, 0.4, True).sum().backward()
        assert values.grad is not None
        return values.grad

    expected, _ = drawn_from_process(gradient)
    with drawing_from(torch.Generator().manual_seed(5)):
        assert torch.equal(gradient(), expected)


@pytest.mark.parametrize("name", DRAWING_INSIDE)
def test_functions_that_draw_inside_draw_from_the_program(name: str) -> None:
    expected, _ = drawn_from_process(DRAWING_INSIDE[name])
    generator = torch.Generator().manual_seed(8)
    before = generator.get_state()
    torch.manual_seed(5)
    with drawing_from(generator):
        found = DRAWING_INSIDE[name]()
    assert torch.equal(found, expected)
    assert torch.equal(generator.get_state(), before)


def test_four_threads_and_the_program_draw_from_their_own_generators() -> None:
    """Threads come and go between their draws; one that has no generator draws from the process."""

    def draw() -> torch.Tensor:
        return torch.cat([torch.rand(1), torch.empty(1).normal_(), torch.dropout(SEQUENCE, 0.4, True).flatten()])

    def draw_in_turn(seed: int) -> list[torch.Tensor]:
        generator = torch.Generator().manual_seed(seed)
        drawn = []
        for _ in range(100):
            with drawing_from(generator):
                drawn.append(draw())
        return drawn

    expected = []
    before = torch.get_rng_state()
    for seed in range(5):
        torch.manual_seed(seed)
        expected.append([draw() for _ in range(100)])
    torch.manual_seed(4)
    with exchanged(), ThreadPoolExecutor(4) as pool:
        results = [pool.submit(draw_in_turn, seed) for seed in range(4)]
        of_program = [draw() for _ in range(100)]
        found = [*(result.result() for result in results), of_program]
    torch.set_rng_state(before)
    assert all(all(map(torch.equal, *pair)) for pair in zip(found, expected, strict=True))


@pytest.mark.parametrize("name", [name for name in WITHOUT_GENERATOR if "_like" in name])
def test_the_way_for_a_torch_whose_like_functions_take_no_generator_gives_the_same(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for function in (torch.rand_like, torch.randn_like, torch.randint_like):
        fill = _torch_draws._FILLS[function.__name__]
        monkeypatch.setitem(_torch_draws._replacements(), function, _torch_draws._draw_like(fill))
    expected, end_state = drawn_from_process(ALL[name])
    generator = torch.Generator().manual_seed(5)
    with drawing_from(generator):
        found = ALL[name]()
    assert torch.equal(found, expected)
    assert found.stride() == expected.stride()
    assert torch.equal(generator.get_state(), end_state)


def test_wrong_arguments_are_torchs_own_errors() -> None:
    with drawing_from(torch.Generator()):
        with pytest.raises(TypeError):
            torch.rand("3")  # type: ignore[call-overload]
        with pytest.raises(ValueError, match="dropout probability has to be between 0 and 1"):
            torch.nn.functional.dropout(HALVES, 2.0)


def test_the_same_functions_are_called_however_they_were_imported() -> None:
    rand, uniform_ = torch.rand, torch.Tensor.uniform_
    expected, _ = drawn_from_process(lambda: torch.cat([torch.rand(2), torch.empty(2).uniform_()]))
    with drawing_from(torch.Generator().manual_seed(5)):
        assert torch.rand is rand
        assert torch.equal(torch.cat([rand(2), uniform_(torch.empty(2))]), expected)


def test_functions_are_found_in_tables_as_before() -> None:
    """The hash of a C function depends on the address that is exchanged."""
    functions = [torch.rand, torch.randint, torch.Tensor.uniform_, random.random, random.seed, len]
    table = {function: number for number, function in enumerate(functions)}
    hashes = [*map(hash, functions)]
    with drawing_from(torch.Generator()):
        assert [table[function] for function in functions] == [*range(6)]
        table |= {function: number + 6 for number, function in enumerate(functions)}
        with torch.device("meta"):  # which has such a table
            assert torch.rand(2).device.type == "meta"
    assert [*map(hash, functions)] == hashes
    assert [table[function] for function in functions] == [*range(6, 12)]


def test_functions_that_user_code_has_put_in_place_of_methods_draw_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    own = torch.Tensor.uniform_
    monkeypatch.setattr(torch.Tensor, "uniform_", lambda self, *args, **kwargs: own(self, *args, **kwargs).mul_(2))
    expected, _ = drawn_from_process(lambda: torch.empty(3).uniform_())
    with drawing_from(torch.Generator().manual_seed(5)):
        assert torch.equal(torch.empty(3).uniform_(), expected)


def test_modes_of_the_users_see_calls_first_and_without_a_generator() -> None:
    """`with torch.device("cuda")` is such a mode, and a CPU generator is of no use to it."""

    class Sees(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append((func, kwargs))
            return func(*args, **(kwargs or {}))

    def draw() -> torch.Tensor:
        with Sees():
            return torch.cat([torch.rand(2), torch.empty(2).uniform_(), torch.dropout(torch.ones(2), 0.4, True)])

    seen: list[Any] = []
    expected, end_state = drawn_from_process(draw)
    calls, seen = seen, []
    generator = torch.Generator().manual_seed(5)
    with drawing_from(generator):
        assert torch.equal(draw(), expected)
    assert torch.equal(generator.get_state(), end_state)
    assert [call for call in seen if call[0] is torch.rand] == [call for call in calls if call[0] is torch.rand]
    assert not any("generator" in (kwargs or {}) for func, kwargs in seen if func is not torch.Tensor.bernoulli_)


class Subclass(torch.Tensor):
    pass


def test_tensors_of_derived_classes_draw_as_well() -> None:
    """They come back to the function through their __torch_function__."""
    values = HALVES.as_subclass(Subclass)
    for call in (lambda: torch.rand_like(values), lambda: torch.dropout(values, 0.4, True), values.clone().uniform_):
        expected, end_state = drawn_from_process(call)
        generator = torch.Generator().manual_seed(5)
        with drawing_from(generator):
            found = call()
        assert type(found) is Subclass
        assert torch.equal(found, expected)
        assert torch.equal(generator.get_state(), end_state)


def test_generators_may_be_entered_inside_of_themselves() -> None:
    first, second = WorkerGenerators(5, 0), WorkerGenerators(6, 0)
    with exchanged():
        with first.entered(), second.entered(), first.entered():
            drawn = [torch.rand(2)]
            with second.entered():
                drawn.append(torch.rand(2))
        with first.entered():
            drawn.append(torch.rand(2))
    first, second = WorkerGenerators(5, 0), WorkerGenerators(6, 0)
    expected = [torch.rand(2, generator=each.torch) for each in (first, second, first)]
    assert all(map(torch.equal, drawn, expected))
    before = torch.get_rng_state()
    torch.rand(2)
    assert not torch.equal(torch.get_rng_state(), before)


def test_other_functions_are_not_exchanged() -> None:
    """A mode of torch's would see them all, and each would take 5 us more."""
    with drawing_from(torch.Generator()):
        assert torch._C._len_torch_function_stack() == 0
