"""A state that is saved after a signal handler's exception is exact, wherever in next() that was raised."""

from __future__ import annotations

from pathlib import Path

import pytest
from children import RunChild

CASES = [
    "Case(num_workers=0, transform='evaluation')",
    "Case(num_workers=0, sampler='stateful')",
    "Case(num_workers=2)",
    "Case(num_workers=2, sampler='stateful')",
    "Case(num_workers=1, sampler='draws when asked')",
    "Case(num_workers=1, sampler='distributed', rng='sample')",
    "StreamCase('shuffle buffer', 2)",
    "StreamCase('stateful iterator', 1, rng='sample')",
    "StreamCase('stateful data set', 2, every=3)",
]


def run(run_child: RunChild, folder: Path, call: str) -> str:
    tests = str(Path(__file__).parent)
    code = f"import sys; sys.path.insert(0, {tests!r})\n"
    code += "import warnings; warnings.simplefilter('ignore')\n"
    code += f"import repository_path, torchvision_shim, signal\nfrom interrupted_runs import *\nprint({call})"
    output: str = run_child(code, timeout=300, warm=True, env={"FASTLOAD_TEST_FOLDER": str(folder)}).stdout
    return output


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(
    "stride", [11, pytest.param(3, marks=pytest.mark.slow), pytest.param(1, marks=pytest.mark.weekly)]
)
def test_an_interrupt_before_a_line_of_next_leaves_an_exact_state(
    folder: Path, run_child: RunChild, case: str, stride: int
) -> None:
    assert int(run(run_child, folder, f"save_where_interrupted({case}, stride={stride})")) > 30


REPAIRED = [
    "num_workers=0, on_error='replace'",
    "num_workers=2, on_error='replace'",
    "num_workers=1, on_error='skip'",
    "num_workers=2, on_error='replace', rng='sample'",
]


@pytest.mark.parametrize("case", REPAIRED)
@pytest.mark.parametrize("stride", [13, pytest.param(3, marks=pytest.mark.slow)])
def test_an_interrupt_while_bad_samples_are_replaced_leaves_an_exact_state(
    faulty_folder: Path, run_child: RunChild, case: str, stride: int
) -> None:
    call = f"save_where_interrupted(Case({case}, sampler='sequential'), stride={stride})"
    assert int(run(run_child, faulty_folder, call)) > 60


@pytest.mark.parametrize("name", ["SIGTERM", "SIGUSR1"])
def test_a_handler_that_raises_leaves_an_exact_state(folder: Path, run_child: RunChild, name: str) -> None:
    run(run_child, folder, f"save_in_handlers_exception(Case(num_workers=2), signal.{name})")
