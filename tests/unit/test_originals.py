"""Whether a function is the package's own, while another thread puts fastload's stand-ins in and out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from ended_workers import end_workers
from PIL import Image

from fastload._images import _methods, _pipelines
from fastload._process._originals import Originals, Owner, is_of_module, original_of

_NAMES = ("crop", "resize", "transpose")


@pytest.fixture(autouse=True)
def _no_workers_left() -> None:
    end_workers()


def test_methods_put_back_during_a_check_do_not_count_as_replaced() -> None:
    exchange = _methods.PillowMethods()
    looks: list[str] = []

    def is_original(owner: Any, name: str, found: Any) -> bool:
        exchange.restore()  # the last worker of another loader does this when it ends
        looks.append(name)
        return is_of_module(owner, name, found)

    originals = Originals([Owner("PIL.Image.Image", Image.Image, _NAMES)], is_original)
    exchange.exchange()
    try:
        assert originals.replaced() is None
    finally:
        exchange.restore()
    assert looks == list(_NAMES)


@pytest.mark.parametrize("make", [_methods.PillowMethods, _pipelines.PipelineCalls])
def test_a_stand_in_is_known_while_it_lives(make: Callable[[], Any]) -> None:
    exchange = make()
    exchange.exchange()
    owner, name, original, ours = exchange._before[0]
    exchange.restore()
    assert vars(owner)[name] is original
    assert original_of(ours) is original
