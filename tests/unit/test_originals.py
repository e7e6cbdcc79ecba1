"""Whether a function is the package's own, asked while another thread puts fastload's stand-ins in and out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from PIL import Image

from fastload._images import _methods, _pipelines
from fastload._process._originals import Originals, Owner, is_of_module, original_of

_NAMES = ("crop", "resize", "transpose")


def test_methods_that_are_put_back_while_one_looks_are_not_taken_for_replaced_ones() -> None:
    exchange = _methods.PillowMethods()
    looks: list[str] = []

    def is_original(owner: Any, name: str, found: Any) -> bool:
        exchange.restore()  # as the last worker of another loader does when it ends
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
def test_a_stand_in_is_known_as_long_as_somebody_has_it(make: Callable[[], Any]) -> None:
    exchange = make()
    exchange.exchange()
    owner, name, original, ours = exchange._before[0]
    exchange.restore()
    assert vars(owner)[name] is original
    assert original_of(ours) is original
