"""Random data sets with every habit in random loaders, against torch's: bytes, errors, generators and lengths."""

from __future__ import annotations

import pytest
from random_datasets import KEEPERS, assert_case, make_case

NUM_CASES = 64


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(NUM_CASES))
def test_data_sets_made_at_random_equal_torchs_at_every_step(seed: int) -> None:
    assert_case(seed)


def test_the_cases_have_every_kind_and_habit() -> None:
    cases = [make_case(seed) for seed in range(NUM_CASES)]
    assert len({case.kind for case in cases}) == 11
    assert {case.arguments["num_workers"] for case in cases} == {0, 1, 2, 3}
    for name in ("draws", "draws_random", "draws_numpy", "asks", "seeds", "fails", "fails_late"):
        assert sum(getattr(case.habits, name) > 0 for case in cases) >= 10, name
    assert {case.sampling for case in cases} == {"shuffle", "sequential", "replacement", "given"}
    assert {name for case in cases for name in case.keepers} == set(KEEPERS)
