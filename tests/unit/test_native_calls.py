"""Arguments of native functions; tests/faults/test_nth_failures.py calls them without memory."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

from fastload import _native

LARGEST: dict[str, Any] = {"max_file_bytes": 1, "max_pixels": 1}


def test_keywords_may_come_in_any_order() -> None:
    step = _native.Resize(interpolation="bilinear", width=7, height=5)
    assert step == _native.Resize(height=5, width=7, interpolation="bilinear")
    assert repr(step) == "Resize(height=5, width=7, interpolation='bilinear')"


def test_omitted_arguments_have_their_defaults() -> None:
    whole = _native.decode_jpeg(b"")
    assert whole == _native.decode_jpeg(max_scans=10, data=b"") == _native.decode_jpeg(b"", None, max_pixels=100)


@pytest.mark.parametrize(
    ("positional", "named"),
    [
        ((), {"max_file_bytes": 1, "max_pixels": 1}),
        ((), {**LARGEST, "native_jpeg": True, "another": 1}),
        ((1,), {**LARGEST, "native_jpeg": True}),
        ((1, 1, True), {}),
    ],
)
def test_arguments_that_do_not_fit_are_a_type_error(positional: tuple[Any, ...], named: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="incompatible constructor arguments"):
        _native.SampleDecoder(*positional, **named)


def test_a_derived_class_has_an_instance_of_its_own() -> None:
    class Derived(_native.ThreadGenerators):
        pass

    made = Derived(None, None, None)
    assert type(made) is Derived
    assert made.torch is None
    gone = weakref.ref(made)
    del made
    gc.collect()
    assert gone() is None
