"""Ctrl-C while an iterator is dropped: it reaches the program, and the loader's state is the same as without it."""

from __future__ import annotations

import pytest
from children import RunChild
from dropped_iterators import LOADERS

PERSISTENT = [name for name in LOADERS if "persistent" in name]  # the loader keeps the iterator
IN_SMOKE = ("native", "own", "stream, no workers")


IN_EPOCH = [name for name in LOADERS if name not in PERSISTENT]
# The loader, what else is done, and the least number of presses.
PRESSES = [
    *((name, "with_loader=False", 50) for name in IN_EPOCH),
    *((name, "with_loader=True", 50) for name in ("native, cached", "own", *PERSISTENT)),
    *((name, "with_loader=True, is_at_end=True", 10) for name in ("processes", "processes, forkserver")),
]


@pytest.mark.parametrize(
    ("name", "how", "least"),
    [
        pytest.param(*case, marks=pytest.mark.smoke if case[0] in IN_SMOKE and case[1] == "with_loader=False" else ())
        for case in PRESSES
    ],
)
def test_a_press_at_any_line_reaches_the_program(run_loader_child: RunChild, name: str, how: str, least: int) -> None:
    """The state of a loader that is not dropped is whole, too."""
    run_loader_child(
        f"""
        from dropped_iterators import LOADERS, press_at_every_line
        num_presses = press_at_every_line(LOADERS[{name!r}], {how})
        print(num_presses)
        assert num_presses > {least}, num_presses
        """,
        timeout=200,
    )


def test_code_of_the_user_that_a_drop_runs_ends_before_the_press_is_raised(run_loader_child: RunChild) -> None:
    run_loader_child(
        """
        from dropped_iterators import LOADERS, ClosingStream, press_at_every_line
        num_presses = press_at_every_line(LOADERS["stream, closing"], with_loader=True)
        assert ClosingStream.num_closed == num_presses + 2, (ClosingStream.num_closed, num_presses)
        """
    )


@pytest.mark.weekly
@pytest.mark.parametrize("name", list(LOADERS))
def test_no_press_at_a_random_moment_is_lost(run_loader_child: RunChild, name: str) -> None:
    run_loader_child(
        f"""
        from dropped_iterators import LOADERS, lost_presses
        lost = lost_presses(LOADERS[{name!r}], 80)
        assert lost == []
        """,
        timeout=200,
    )
