"""Runs a lowered transform on an image: native code carries out its steps, then Python the rest.

tests/oracle compares the steps themselves with torchvision, so a difference from a pipeline is the lowering's.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from native_steps import always, make_placed_plan, make_plan, native_draws
from PIL import Image

from fastload import _core
from fastload._planning._native_plans import tensor_of
from fastload.transforms import _recognize
from fastload.transforms._lowering import LoweredTransform


def replay(lowered: LoweredTransform, image: Image.Image) -> Any:
    """Returns the sample of an RGB image. Draws from torch's default generator, which continues after the draws.

    Raises ValueError if a step cannot be applied to an image of this size.
    """
    form = lowered.form
    is_image = form.sample == "pil"
    plan = make_placed_plan(
        lowered.steps,
        element_size=form.dtype.itemsize,
        channels_last=is_image or form.is_interleaved,
        table=form.table,
    )
    draws, state = native_draws(0), torch.get_rng_state()
    draws.load(state.numpy())
    pixels = _run(plan, image, draws)
    draws.store(state.numpy())
    torch.set_rng_state(state)
    sample = Image.fromarray(pixels) if is_image else tensor_of(pixels, form, _recognize.image_type())
    if lowered.size is not None:
        assert (sample.height, sample.width) == lowered.size if is_image else sample.shape[1:] == lowered.size
    for transform in lowered.python_part:
        sample = transform(sample)
    return sample


def apply_op(image: Image.Image, op: _core.PixelOp) -> Image.Image:
    """Returns the result of one operation on pixels."""
    return Image.fromarray(_run(make_plan([always(op)]), image, _core.CounterDraws(0, 0, 0)))


def _run(plan: _core.TransformPlan, image: Image.Image, draws: _core.DrawSource) -> Any:
    decoder = _core.SampleDecoder(max_file_bytes=1, max_pixels=1 << 30, native_jpeg=True)
    result = decoder.run_pixels(image.tobytes(), image.width, image.height, plan, draws)
    if not isinstance(result, np.ndarray):
        raise ValueError(result["detail"])
    return result
