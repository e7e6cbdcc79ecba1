"""No test leaves an opener registered."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import fastload


@pytest.fixture(autouse=True)
def _no_opener_left() -> Iterator[None]:
    yield
    fastload.unregister_opener()
