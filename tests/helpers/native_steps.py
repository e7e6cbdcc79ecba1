"""Native steps run alone, without a loader, and images on which arithmetic shows."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any
from unittest import mock

import numpy as np
import PIL
import torch
from numpy.typing import NDArray
from PIL import Image

from fastload import _core
from fastload._workers import _native_draws
from fastload.transforms._pillow_rules import resize_order

Step = _core.Step
Pixels = NDArray[np.uint8]


def make_plan(steps: Iterable[Step], **changes: Any) -> _core.TransformPlan:
    """Makes a plan that gives uint8 [height, width, 3] of any size. `changes` are arguments; positions are indices."""
    return make_placed_plan(enumerate(steps), **changes)


def make_placed_plan(steps: Iterable[tuple[int, Step]], **changes: Any) -> _core.TransformPlan:
    arguments: dict[str, Any] = {
        "element_size": 1,
        "channels_last": True,
        "table": None,
        "resize_order": resize_order(PIL.__version__),
        "allow_variable_size": True,
    }
    return _core.TransformPlan(_native_draws.with_torch_exp(steps), **arguments | changes)


@functools.cache
def _decoder(kernel_table: str, thread: int) -> _core.SampleDecoder:
    return _core.SampleDecoder(max_file_bytes=0, max_pixels=0, native_jpeg=True)


def apply(plan: _core.TransformPlan, pixels: Pixels, draws: _core.DrawSource) -> bytes:
    """Returns the bytes of the sample that `plan` makes of a whole decoded image, [height, width, 3].

    Raises:
        ValueError: The plan cannot be applied to an image of this size.
    """
    height, width, _ = pixels.shape
    made = _decoder(_core.active_kernel_table(), threading.get_ident()).run_pixels(
        pixels.tobytes(), width, height, plan, draws
    )
    if isinstance(made, dict):
        raise ValueError(f"{made['text']}: {made['detail']}")
    return made.tobytes()


def run_steps(steps: Iterable[Step], image: Image.Image, draws: _core.DrawSource | None = None) -> bytes:
    """Runs the steps on an image; returns the result as Image.tobytes() gives it."""
    return apply(make_plan(steps), np.asarray(image), draws or _core.CounterDraws(0, 0, 0))


def run_op(op: _core.PixelOp, image: Image.Image) -> bytes:
    return run_steps([always(op)], image)


def always(op: _core.PixelOp) -> Step:
    return _core.ApplyOp(op=op, probability=None)


RAMP = Image.fromarray(np.repeat(np.arange(256, dtype=np.uint8)[None, :, None], 3, axis=2))
"""All values of each channel."""


def tensor_bytes(tensor: torch.Tensor) -> bytes:
    return bytes(tensor.contiguous().view(torch.uint8).numpy().tobytes())


def log_of(ratio: Sequence[float]) -> list[float]:
    """Returns the bounds between which torchvision draws logarithms."""
    return torch.log(torch.tensor(ratio)).tolist()


def random_resized_crop(
    height: int,
    width: int,
    scale: Sequence[float] = (0.08, 1.0),
    ratio: Sequence[float] = (3.0 / 4.0, 4.0 / 3.0),
    interpolation: str = "bilinear",
) -> Step:
    return _core.RandomResizedCrop(
        height=height, width=width, scale=scale, ratio=ratio, log_ratio=log_of(ratio), interpolation=interpolation
    )


ROTATIONS = {"ROTATE_90": _core.Rotate90, "ROTATE_180": _core.Rotate180, "ROTATE_270": _core.Rotate270}


def recorded_op(call: Callable[[], object]) -> _core.PixelOp:
    """Returns, as an operation, the affine transform or rotation that torchvision asks of Pillow in `call`."""
    ops: list[_core.PixelOp] = []
    transform, transpose = Image.Image.transform, Image.Image.transpose

    def record_transform(self: Image.Image, size: Any, method: Any, data: Any, *args: Any, **kwargs: Any) -> Any:
        resample = args[0] if args else kwargs["resample"]
        ops.append(
            _core.Affine(
                matrix=[float(number) for number in data],
                fill=kwargs["fillcolor"],
                interpolation=Image.Resampling(resample).name.lower(),
            )
        )
        return transform(self, size, method, data, *args, **kwargs)

    def record_transpose(self: Image.Image, method: Image.Transpose) -> Image.Image:
        ops.append(ROTATIONS[method.name]())
        return transpose(self, method)

    with (
        mock.patch.object(Image.Image, "transform", record_transform),
        mock.patch.object(Image.Image, "transpose", record_transpose),
    ):
        call()
    assert len(ops) <= 1, ops
    return ops[0] if ops else _core.Identity()


def native_draws(seed: int) -> _core.TorchDraws:
    """Returns the draws that torch makes after torch.manual_seed(seed)."""
    return _core.TorchDraws(seed, _native_draws.uniform_rule())


def state_after(draws: _core.TorchDraws, seed: int) -> bytes:
    """Returns the state of torch's generator after torch.manual_seed(seed) and these draws."""
    state = torch.Generator().manual_seed(seed).get_state().numpy()
    draws.store(state)
    return state.tobytes()


def check_drawn(
    plan: _core.TransformPlan, transform: Callable[[Any], Any], image: Image.Image, seed: int, case: object = ""
) -> bytes:
    """Returns the result after asserting that it is torchvision's from this seed, as is the generator's state."""
    torch.manual_seed(seed)
    expected: bytes = transform(image).tobytes()
    draws = native_draws(seed)
    assert apply(plan, np.asarray(image), draws) == expected, (image.size, seed, case)
    assert state_after(draws, seed) == torch.get_rng_state().numpy().tobytes(), (image.size, seed, case)
    return expected


def state_that_draws(words: NDArray[np.uint32]) -> torch.Tensor:
    """Makes a state of torch's CPU generator that gives these 623 words next, by undoing mt19937's last step."""
    words = words ^ (words >> np.uint32(18))
    words ^= (words << np.uint32(15)) & np.uint32(0xEFC60000)
    shifted = words
    for _ in range(5):
        shifted = words ^ ((shifted << np.uint32(7)) & np.uint32(0x9D2C5680))
    words = shifted ^ (shifted >> np.uint32(11)) ^ (shifted >> np.uint32(22))
    state = torch.Generator().manual_seed(0).get_state()
    left, next_word = 624, 1
    state.numpy()[8:12].view(np.int32)[:] = left
    state.numpy()[16:24].view(np.uint64)[:] = next_word
    state.numpy()[24 + 8 * next_word : 24 + 8 * 624].view(np.uint64)[:] = words
    return state


def noise(width: int, height: int, seed: int = 5) -> Image.Image:
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


def extremes(width: int, height: int, seed: int = 5) -> Image.Image:
    """Makes noise of 0 and 255."""
    return noise(width, height, seed).point([0] * 384 + [255] * 384)


def faint(width: int, height: int, seed: int = 5) -> Image.Image:
    """Makes noise in a narrow range, a different one in each channel."""
    values = range(256)
    table = [100 + value // 8 for value in values] + [value // 64 for value in values] + [7] * 256
    return noise(width, height, seed).point(table)


def gradient(width: int, height: int) -> Image.Image:
    x = np.linspace(0, 255, width)[None, :]
    y = np.linspace(0, 255, height)[:, None]
    channels = np.broadcast_arrays(x, y, (x + y) / 2)
    return Image.fromarray(np.stack(channels, axis=2).round().astype(np.uint8))


def plain(width: int, height: int, color: tuple[int, int, int]) -> Image.Image:
    return Image.new("RGB", (width, height), color)


IMAGES: dict[str, Image.Image] = {
    "noise": noise(101, 67),
    "extremes": extremes(64, 33),
    "faint": faint(50, 41),
    "gradient": gradient(80, 57),
    "black": plain(9, 7, (0, 0, 0)),
    "white": plain(9, 7, (255, 255, 255)),
    "color": plain(20, 20, (200, 17, 60)),
    "one pixel": noise(1, 1),
    "one row": noise(37, 1),
    "one column": noise(1, 29),
    "two rows": noise(33, 2),
    "two columns": noise(2, 33),
    "three by three": noise(3, 3),
    "photo size": noise(224, 224),
}


def all_colors() -> Image.Image:
    """Makes an image with every RGB colour once: 4096 x 4096."""
    number = np.arange(1 << 24, dtype=np.uint32)
    channels = [(number >> shift & 255).astype(np.uint8) for shift in (16, 8, 0)]
    return Image.fromarray(np.stack(channels, axis=1).reshape(4096, 4096, 3))
