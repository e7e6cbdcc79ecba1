"""Ctrl-C while an iterator is dropped: it reaches the program, and the loader's state is the same as without it."""

from __future__ import annotations

import pytest
from children import RunChild
from dropped_iterators import LOADERS

PERSISTENT = [name for name in LOADERS if "persistent" in name]  # the loader keeps the iterator
IN_SMOKE = ("native", "own", "stream, no workers")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.smoke if name in IN_SMOKE else ())
        for name in LOADERS
        if name not in PERSISTENT
    ],
)
def test_a_press_at_any_line_reaches_the_program_and_the_state_is_whole(run_loader_child: RunChild, name: str) -> None:
    run_loader_child(
        f"""
        from dropped_iterators import LOADERS, press_at_every_line
        num_presses = press_at_every_line(LOADERS[{name!r}], with_loader=False)
        assert num_presses > 50, num_presses
        """,
        timeout=200,
    )


@pytest.mark.parametrize("name", ["native, cached", "own", *PERSISTENT])
def test_a_press_while_a_loader_is_dropped_too_reaches_the_program(run_loader_child: RunChild, name: str) -> None:
    run_loader_child(
        f"""
        from dropped_iterators import LOADERS, press_at_every_line
        num_presses = press_at_every_line(LOADERS[{name!r}], with_loader=True)
        assert num_presses > 50, num_presses
        """
    )


@pytest.mark.parametrize("name", ["processes", "processes, forkserver"])
def test_a_press_while_an_iterator_is_dropped_at_its_end_reaches_the_program(
    run_loader_child: RunChild, name: str
) -> None:
    run_loader_child(
        f"""
        from dropped_iterators import LOADERS, press_at_every_line
        num_presses = press_at_every_line(LOADERS[{name!r}], with_loader=True, is_at_end=True)
        print(num_presses)
        assert num_presses > 10, num_presses
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
