"""Each test finds Pillow as it is, and leaves no opener registered."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from ended_workers import end_workers

import fastload


@pytest.fixture(autouse=True)
def _no_opener_left() -> Iterator[None]:
    end_workers()
    yield
    fastload.unregister_opener()
