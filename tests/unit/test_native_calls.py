"""Arguments and results of native functions. tests/faults/test_nth_failures.py calls them without memory;
tests/cpp/sample_decoder_test.cpp tests the bytes, failures and draws of single samples.
"""

from __future__ import annotations

import errno
import gc
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from image_folders import save_jpeg
from native_steps import make_plan

from fastload import _native

LARGEST: dict[str, Any] = {"max_file_bytes": 1, "max_pixels": 1}
NO_DRAWS = _native.CounterDraws(0, 0, 0)
CROP = make_plan([_native.CenterCrop(height=33, width=33)])


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


def make_decoder() -> _native.SampleDecoder:
    return _native.SampleDecoder(max_file_bytes=1 << 30, max_pixels=1 << 40, native_jpeg=True)


def test_an_array_outlives_the_decoder_and_the_samples_after_it(tmp_path: Path) -> None:
    decoder, names = make_decoder(), [tmp_path / "one.jpg", tmp_path / "other.jpg"]
    for seed, name in enumerate(names):
        save_jpeg(name, seed, 120, 90)
    first = decoder.run_file(bytes(names[0]), CROP, NO_DRAWS)
    copy = np.array(first)
    second = decoder.run_file(bytes(names[1]), CROP, NO_DRAWS)
    del decoder
    gc.collect()
    assert np.array_equal(np.asarray(first), copy)
    assert not np.array_equal(np.asarray(second), copy)


@pytest.mark.parametrize(("width", "height"), [(3, 2), (0, 0), (-1, -6)])
def test_pixels_that_do_not_fit_their_size_are_refused(width: int, height: int) -> None:
    with pytest.raises(ValueError, match="pixels must hold width"):
        make_decoder().run_pixels(bytes(17), width, height, CROP, NO_DRAWS)


def test_failures_are_dicts_and_images_for_pillow_are_none(tmp_path: Path) -> None:
    decoder = make_decoder()
    failure = decoder.run_file(bytes(tmp_path / "absent"), CROP, NO_DRAWS)
    assert isinstance(failure, dict)
    assert (failure["stage"], failure["errno"], failure["exception"]) == ("open", errno.ENOENT, None)
    assert failure["text"]
    assert decoder.run_bytes(b"words", CROP, NO_DRAWS) is None
    assert decoder.fallback_reason == "the first bytes are not those of a JPEG file"
