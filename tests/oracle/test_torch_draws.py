"""The native draws against torch's own, from the same seed: values and the generator's state afterwards."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
import torchvision_shim  # noqa: F401
from native_steps import make_plan, random_resized_crop, state_that_draws
from PIL import Image
from torchvision import transforms

from fastload import _core
from fastload._workers import _native_draws

MANY = 1_000_000
RATIO = (3.0 / 4.0, 4.0 / 3.0)


def native(seed: int) -> _core.TorchDraws:
    return _core.TorchDraws(seed, _native_draws.uniform_rule())


def state_of(draws: _core.TorchDraws, seed: int) -> np.ndarray:
    state = torch.Generator().manual_seed(seed).get_state().numpy()
    draws.store(state)
    return state


def log_range(ratio: tuple[float, float] = RATIO) -> tuple[float, float]:
    low, high = torch.log(torch.tensor(ratio)).tolist()
    return low, high


@pytest.mark.parametrize("ratio", [RATIO, (0.5, 2.0), (0.3, 3.3), (1.0, 1.0), (0.01, 100.0)])
def test_exp_equals_torchs_for_every_number_that_can_be_drawn(ratio: tuple[float, float]) -> None:
    low, high = log_range(ratio)
    exp = _native_draws.torch_exp(low, high)
    unit = np.arange(1 << 24, dtype=np.float32) * np.float32(2**-24)
    width = np.float32(high) - np.float32(low)
    rule = _native_draws.uniform_rule()
    if rule.is_fused:  # exact in double: 24 by 24 bits, then one rounding
        inputs = (unit.astype(np.float64) * np.float64(width) + np.float64(np.float32(low))).astype(np.float32)
    else:
        inputs = unit * width + np.float32(low)
    if rule.excludes_to:
        inputs[inputs == np.float32(high)] = np.float32(low)
    assert np.array_equal(exp.inputs(0, 1 << 24), inputs)
    expected = torch.exp(torch.from_numpy(inputs)).numpy()
    # The lookup is the same code for one number and for all: a million in random order, then the odd ones.
    chosen = np.random.default_rng(1).integers(0, 1 << 24, 200_000)
    odd = np.flatnonzero(np.exp(inputs.astype(np.float64)).astype(np.float32) != expected)
    assert len(exp.corrections) == 4 * len(odd)
    chosen = np.concatenate([chosen, odd[:200_000], [0, (1 << 24) - 1]])
    values = np.array([exp.value(int(draw)) for draw in chosen], dtype=np.float32)
    assert np.array_equal(values, expected[chosen])


def test_exp_of_one_number_is_exp_of_many() -> None:
    inputs = torch.from_numpy(_native_draws.torch_exp(*log_range()).inputs(0, 1 << 24))
    together = torch.exp(inputs)
    for position in np.random.default_rng(2).integers(0, 1 << 24, 20_000).tolist():
        assert torch.exp(inputs[position : position + 1]).item() == together[position].item()


@pytest.mark.parametrize(
    ("low", "high"),
    [(0.0, 1.0), (0.08, 1.0), (-0.2876820725, 0.2876820725), (0.6, 1.4), (0.9, 0.900001), (0.5, 0.50000006)],
)
def test_a_million_uniform_numbers_equal_torchs(low: float, high: float) -> None:
    draws = native(17)
    generator = torch.Generator().manual_seed(17)
    # One call for all draws the numbers one after another, like calls of one element each.
    expected = torch.empty(MANY).uniform_(low, high, generator=generator).numpy()
    single = torch.Generator().manual_seed(17)
    assert all(
        torch.empty(1).uniform_(low, high, generator=single).item() == value for value in expected[:5000].tolist()
    )
    ours = np.array([draws.uniform(low, high) for _ in range(MANY)], dtype=np.float32)
    assert np.array_equal(ours, expected)
    assert np.array_equal(state_of(draws, 17), generator.get_state().numpy())


# Ranges of the transforms: shares of crops and erased boxes, jitters, hues, radii; then unlikely ones.
UPPER_EDGES = [
    *[(0.08, 1.0), (0.2, 1.0), (0.25, 1.0), (0.4, 1.0), (0.5, 1.0), (0.67, 1.0), (0.8, 1.0), (0.9, 1.0), (0.05, 0.4)],
    *[(0.02, 0.33), (0.02, 0.2), (0.02, 0.1), (0.1, 0.2)],
    *[(0.2, 1.8), (0.5, 1.5), (0.6, 1.4), (0.7, 1.3), (0.8, 1.2), (0.9, 1.1), (0.9, 1.2), (-0.1, 0.1), (-0.05, 0.05)],
    *[(0.1, 2.0), (0.1, 5.0), (1.0, 2.0), (1.0, 1.2)],
    *[(1.0, 1.0), (1.0, 1.0000001), (-1.0, -0.9999999), (-1e-7, 0.0), (0.3, 0.30000004), (1e-45, 3e-45), (0.0, 3e38)],
]


@pytest.mark.parametrize(("low", "high"), UPPER_EDGES)
def test_the_highest_uniform_numbers_equal_torchs(low: float, high: float) -> None:
    """About one draw in 2^24 is rounded up to the upper bound, which torch may exclude."""
    state = state_that_draws(np.arange(2**24 - 623, 2**24, dtype=np.uint32))
    generator = torch.Generator()
    generator.set_state(state)
    draws = native(0)
    draws.load(state.numpy())
    expected = [torch.empty(1).uniform_(low, high, generator=generator).item() for _ in range(623)]
    assert [draws.uniform(low, high) for _ in range(623)] == expected


def test_a_range_of_two_numbers_shows_whether_torch_gives_the_upper_one() -> None:
    drawn = {torch.empty(1).uniform_(0.5, 0.50000006).item() for _ in range(100)}
    assert _native_draws.uniform_rule().excludes_to == (len(drawn) == 1)


def test_a_torch_that_gives_the_upper_bound_is_recognised(monkeypatch: pytest.MonkeyPatch) -> None:
    inclusive = _core.UniformRule(is_fused=_native_draws.uniform_rule().is_fused, excludes_to=False)

    def uniform(self: torch.Tensor, low: float, high: float, *, generator: torch.Generator) -> torch.Tensor:
        draws = _core.TorchDraws(0, inclusive)
        state = generator.get_state()
        draws.load(state.numpy())
        self.fill_(draws.uniform(low, high))
        draws.store(state.numpy())
        generator.set_state(state)
        return self

    monkeypatch.setattr(torch.Tensor, "uniform_", uniform)
    assert _native_draws._found_rule.__wrapped__() == (inclusive.is_fused, False)


def test_a_million_numbers_of_rand_equal_torchs() -> None:
    draws = native(18)
    generator = torch.Generator().manual_seed(18)
    expected = torch.rand(MANY, generator=generator).numpy()
    assert np.array_equal(np.array([draws.uniform() for _ in range(MANY)], dtype=np.float32), expected)
    assert np.array_equal(state_of(draws, 18), generator.get_state().numpy())


@pytest.mark.parametrize("n", [1, 2, 14, 31, 225, 65535, (1 << 28) - 1])
def test_a_million_integers_equal_torchs(n: int) -> None:
    draws = native(19)
    generator = torch.Generator().manual_seed(19)
    expected = torch.randint(n, (MANY,), generator=generator).tolist()
    assert [draws.below(n) for _ in range(MANY)] == expected
    assert np.array_equal(state_of(draws, 19), generator.get_state().numpy())


@pytest.mark.slow
def test_a_million_permutations_equal_torchs() -> None:
    draws = native(20)
    generator = torch.Generator().manual_seed(20)
    for _ in range(MANY):
        assert draws.permutation(4) == torch.randperm(4, generator=generator).tolist()
    for n in (0, 1, 2, 3, 5, 100, 255):
        assert draws.permutation(n) == torch.randperm(n, generator=generator).tolist()
    assert np.array_equal(state_of(draws, 20), generator.get_state().numpy())


@pytest.mark.parametrize("drawn", [0, 1, 2, 623, 624, 625, 5000])
def test_draws_continue_from_a_generators_state_and_give_it_back(drawn: int) -> None:
    generator = torch.Generator().manual_seed(2**40 + 3)
    for _ in range(drawn):
        torch.rand(1, generator=generator)
    torch.randn(3, generator=generator)  # leaves a spare normal number in the state
    draws = native(0)
    state = generator.get_state()
    draws.load(state.numpy())
    expected = [torch.rand(1, generator=generator).item() for _ in range(700)]
    assert [draws.uniform() for _ in range(700)] == expected
    draws.store(state.numpy())
    assert torch.equal(state, generator.get_state())


def test_a_value_that_is_not_a_cpu_generators_state_is_refused() -> None:
    with pytest.raises(ValueError, match="5056 bytes"):
        native(0).load(np.zeros(16, np.uint8))
    with pytest.raises(ValueError, match="seeded CPU"):
        native(0).load(np.zeros(5056, np.uint8))


def box_plan(scale: tuple[float, float], ratio: tuple[float, float]) -> _core.TransformPlan:
    return make_plan([random_resized_crop(1, 1, scale, ratio)])


def assert_boxes_equal(count: int, scale: tuple[float, float], ratio: tuple[float, float], seed: int = 21) -> None:
    plan = box_plan(scale, ratio)
    sizes = np.random.default_rng(3).integers(2, 600, (257, 2)).tolist()
    images = [Image.new("L", (width, height)) for width, height in sizes]
    draws = native(seed)
    before = torch.get_rng_state()
    torch.manual_seed(seed)
    for number in range(count):
        width, height = sizes[number % len(sizes)]
        image = images[number % len(sizes)]
        top, left, box_height, box_width = transforms.RandomResizedCrop.get_params(image, list(scale), list(ratio))
        steps = plan.resolve(draws, width, height)
        is_crop = bool(steps) and steps[0][0] == "crop"
        box = steps[0][1:5] if is_crop else (0, 0, width, height)
        assert box == (left, top, box_width, box_height), f"crop {number} of {width}x{height}"
    state = torch.get_rng_state()
    torch.set_rng_state(before)
    assert np.array_equal(state_of(draws, seed), state.numpy())


def assert_case(seed: int) -> None:
    """Compares ten thousand boxes of ImageNet's recipe."""
    assert_boxes_equal(10_000, (0.08, 1.0), RATIO, seed)


@pytest.mark.parametrize(
    ("scale", "ratio"),
    [
        ((0.08, 1.0), RATIO),
        ((0.9, 1.0), RATIO),
        ((0.2, 1.0), (0.5, 2.0)),
        ((0.05, 0.4), (1.0, 1.0)),
        ((4.0, 5.0), RATIO),
    ],
)
def test_random_boxes_of_every_recipe_equal_torchvisions(
    scale: tuple[float, float], ratio: tuple[float, float]
) -> None:
    assert_boxes_equal(20_000, scale, ratio)


def test_the_exp_table_says_where_torch_is_not_correctly_rounded() -> None:
    low, high = log_range()
    assert math.isclose(math.exp(high), 4 / 3, rel_tol=1e-6)
    wrong = _core.TorchExp(low, high, _native_draws.uniform_rule())
    inputs = wrong.inputs(0, 100)
    assert not wrong.add(0, np.exp(inputs) * np.float32(1.01))
