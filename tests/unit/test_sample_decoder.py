"""Arrays of single native samples; tests/cpp/sample_decoder_test.cpp tests their bytes, failures and draws."""

from __future__ import annotations

import errno
import gc
from pathlib import Path

import numpy as np
import pytest
from image_folders import save_jpeg
from native_steps import make_plan

from fastload import _native

NO_DRAWS = _native.CounterDraws(0, 0, 0)
CROP = make_plan([_native.CenterCrop(height=33, width=33)])


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
def test_arguments_that_do_not_fit_are_refused(width: int, height: int) -> None:
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
