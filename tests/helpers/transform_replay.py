"""Carries out the steps and tables of a lowered transform with Pillow, NumPy and torch alone.

Random choices are drawn from torch's default generator in torchvision's order. Nothing here calls torchvision's
transforms or shares code with the replay of reported steps, which does; so a comparison with them is independent.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torchvision_shim  # noqa: F401
from PIL import Image, ImageEnhance, ImageOps
from torchvision import tv_tensors

from fastload import _core
from fastload.transforms._lowering import LoweredTransform
from fastload.transforms._tensor_part import SampleForm

FILTER_NAMES = ("nearest", "box", "bilinear", "hamming", "bicubic", "lanczos")
FILTERS = {name: Image.Resampling[name.upper()] for name in FILTER_NAMES}


def replay(lowered: LoweredTransform, image: Image.Image) -> Any:
    """Runs the native part on an RGB image and the Python part on the result."""
    steps = [step for _, step in lowered.steps]
    erasing = steps.pop() if steps and isinstance(steps[-1], _core.RandomErasing) else None
    sample: Any = apply_steps(image, steps)
    if lowered.size is not None:
        assert (sample.height, sample.width) == lowered.size
    if lowered.form.sample != "pil":
        sample = look_up(lowered.form, sample)
    if erasing is not None:
        sample = erase(sample, erasing)
    for transform in lowered.python_part:
        sample = transform(sample)
    return sample


def look_up(form: SampleForm, image: Image.Image) -> torch.Tensor:
    """Returns the table's tensor for the pixels, with the type and memory layout that the lowering promises."""
    values = torch.from_numpy(np.array(image)).permute(2, 0, 1)
    if form.table is not None:
        table = torch.frombuffer(bytearray(form.table), dtype=form.dtype).reshape(3, 256)
        values = torch.stack([table[channel][values[channel].long()] for channel in range(3)])
    assert values.dtype == form.dtype
    tensor = values.contiguous()
    if form.is_interleaved:
        tensor = tensor.permute(1, 2, 0).contiguous().permute(2, 0, 1)
    return tv_tensors.Image(tensor) if form.sample == "tv_image" else tensor


def apply_steps(image: Image.Image, steps: list[Any]) -> Image.Image:
    for step in steps:
        image = STEPS[type(step)](image, step)
    return image


def happens(step: Any) -> bool:
    return torch.rand(1).item() < step.probability


def uniform(bounds: tuple[float, float]) -> float:
    return torch.empty(1).uniform_(*bounds).item()


def integer(count: int) -> int:
    return int(torch.randint(count, (1,)))


def area_and_aspect(step: Any, area: int) -> tuple[float, float]:
    return area * uniform(step.scale), torch.exp(torch.empty(1).uniform_(*step.log_ratio)).item()


def random_resized_crop(image: Image.Image, step: Any) -> Image.Image:
    left, top, width, height = resized_crop_box(image.width, image.height, step)
    cropped = image.crop((left, top, left + width, top + height))
    return cropped.resize((step.width, step.height), FILTERS[step.interpolation])


def resized_crop_box(width: int, height: int, step: Any) -> tuple[int, int, int, int]:
    for _ in range(10):
        area, aspect = area_and_aspect(step, width * height)
        w, h = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if 0 < w <= width and 0 < h <= height:
            top = integer(height - h + 1)
            return integer(width - w + 1), top, w, h
    lowest, highest = step.ratio
    w, h = width, height
    if width / height < lowest:
        h = round(width / lowest)
    elif width / height > highest:
        w = round(height * highest)
    return (width - w) // 2, (height - h) // 2, w, h


def resize(image: Image.Image, step: Any) -> Image.Image:
    return image.resize((step.width, step.height), FILTERS[step.interpolation])


def resize_shorter_side(image: Image.Image, step: Any) -> Image.Image:
    short, long = step.size, int(step.size * max(image.size) / min(image.size))
    if step.max_size is not None and long > step.max_size:
        short, long = int(step.max_size * short / long), step.max_size
    size = (short, long) if image.width <= image.height else (long, short)
    return image.resize(size, FILTERS[step.interpolation])


def center_crop(image: Image.Image, step: Any) -> Image.Image:
    lefts = [
        -((wanted - side) // 2) if wanted > side else round((side - wanted) / 2)
        for wanted, side in ((step.width, image.width), (step.height, image.height))
    ]
    return image.crop((lefts[0], lefts[1], lefts[0] + step.width, lefts[1] + step.height))


def pad(image: Image.Image, step: Any) -> Image.Image:
    return padded(image, step.left, step.top, step.right, step.bottom, step)


def padded(image: Image.Image, left: int, top: int, right: int, bottom: int, step: Any) -> Image.Image:
    amounts = ((top, bottom), (left, right), (0, 0))
    if step.padding_mode != "constant":
        return Image.fromarray(np.pad(np.asarray(image), amounts, mode=step.padding_mode))
    canvas = Image.new("RGB", (image.width + left + right, image.height + top + bottom), tuple(step.fill))
    canvas.paste(image, (left, top))
    return canvas


def random_crop(image: Image.Image, step: Any) -> Image.Image:
    height, width = step.height, step.width
    if step.pad_if_needed:
        x, y = max(0, width - image.width), max(0, height - image.height)
        image = padded(image, x, y, x, y, step)
    if height > image.height or width > image.width:
        raise ValueError("the crop is larger than the image")
    top = left = 0
    if (height, width) != (image.height, image.width):
        draws_always = step.family == "v1"
        top = integer(image.height - height + 1) if draws_always or image.height > height else 0
        left = integer(image.width - width + 1) if draws_always or image.width > width else 0
    return image.crop((left, top, left + width, top + height))


def flip(direction: Image.Transpose) -> Callable[[Image.Image, Any], Image.Image]:
    return lambda image, step: image.transpose(direction) if happens(step) else image


def random_rotation(image: Image.Image, step: Any) -> Image.Image:
    resample = Image.Resampling[step.interpolation.upper()]
    return image.rotate(uniform(step.degrees), resample, center=step.center, fillcolor=tuple(step.fill))


def random_apply(image: Image.Image, step: Any) -> Image.Image:
    draw = torch.rand(1).item()
    is_skipped = step.probability < draw if step.family == "v1" else draw >= step.probability
    return image if is_skipped else apply_steps(image, [inner for _, inner in step.steps])


def pixel_op(image: Image.Image, step: Any) -> Image.Image:
    return apply_op(image, step.op) if step.probability is None or happens(step) else image


def color_jitter(image: Image.Image, step: Any) -> Image.Image:
    names = ("brightness", "contrast", "saturation", "hue")
    order = torch.randperm(4).tolist()
    ranges = {name: getattr(step, name) for name in names}
    factors = {name: uniform(bounds) for name, bounds in ranges.items() if bounds is not None}
    for name in (names[number] for number in order):
        if name in factors:
            image = apply_op(image, ADJUSTMENTS[name](factor=factors[name]))
    return image


def augment(image: Image.Image, step: Any) -> Image.Image:
    for _ in range(getattr(step, "num_ops", 1)):
        choice = step.choices[integer(len(step.choices))]
        number = integer(choice.num_bins) if choice.num_bins > 1 else 0
        if choice.is_signed:
            number = 2 * number + sign(step)
        image = apply_op(image, choice.ops[number])
    return image


def sign(step: Any) -> int:
    """Draws a sign: 1 for the negative operation."""
    return integer(2) if step.family == "v1" else int(torch.rand(()).item() <= 0.5)


def auto_augment(image: Image.Image, step: Any) -> Image.Image:
    chosen = step.policies[integer(len(step.policies))]
    if step.family == "v1":
        draws, positives = torch.rand(2).tolist(), torch.randint(2, (2,)).tolist()
        for part, draw, is_positive in zip(chosen, draws, positives, strict=True):
            if draw <= part.probability:
                image = apply_op(image, part.ops[part.is_signed and not is_positive])
        return image
    for part in chosen:
        if torch.rand(()).item() <= part.probability:
            image = apply_op(image, part.ops[sign(step) if part.is_signed else 0])
    return image


def erase(tensor: torch.Tensor, step: Any) -> torch.Tensor:
    if not happens(step):
        return tensor
    height, width = tensor.shape[1:]
    for _ in range(10):
        area, aspect = area_and_aspect(step, width * height)
        h, w = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if h < height and w < width:
            top = integer(height - h + 1)
            left = integer(width - w + 1)
            value = torch.frombuffer(bytearray(step.value), dtype=tensor.dtype)
            tensor[:, top : top + h, left : left + w] = value[:, None, None]
            return tensor
    return tensor


def gaussian_blur(image: Image.Image, step: Any) -> Image.Image:
    sigma = uniform(step.sigma)
    rows, columns = (gaussian_weights(torch.tensor(getattr(step, axis)) / sigma, step) for axis in ("rows", "columns"))
    left, top = len(columns) // 2, len(rows) // 2
    pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1).float()[None]
    padded_pixels = torch.nn.functional.pad(pixels, (left, left, top, top), mode="reflect")
    weights = (rows[:, None] * columns[None]).expand(3, 1, len(rows), len(columns))
    blurred = torch.nn.functional.conv2d(padded_pixels, weights, groups=3)
    return Image.fromarray(blurred[0].round().to(torch.uint8).permute(1, 2, 0).numpy())


def gaussian_weights(positions: torch.Tensor, step: Any) -> torch.Tensor:
    squares = positions.pow(2)
    if step.family == "v2":
        return torch.softmax(squares.neg(), dim=0)
    values = torch.exp(-0.5 * squares)
    return values / values.sum()


ADJUSTMENTS = {
    "brightness": _core.Brightness,
    "contrast": _core.Contrast,
    "saturation": _core.Saturation,
    "hue": _core.Hue,
}
STEPS: dict[type, Callable[[Image.Image, Any], Image.Image]] = {
    _core.RandomResizedCrop: random_resized_crop,
    _core.Resize: resize,
    _core.ResizeShorterSide: resize_shorter_side,
    _core.CenterCrop: center_crop,
    _core.Pad: pad,
    _core.RandomCrop: random_crop,
    _core.RandomHorizontalFlip: flip(Image.Transpose.FLIP_LEFT_RIGHT),
    _core.RandomVerticalFlip: flip(Image.Transpose.FLIP_TOP_BOTTOM),
    _core.RandomRotation: random_rotation,
    _core.RandomApply: random_apply,
    _core.ApplyOp: pixel_op,
    _core.ColorJitter: color_jitter,
    _core.RandAugment: augment,
    _core.TrivialAugmentWide: augment,
    _core.AutoAugment: auto_augment,
    _core.GaussianBlur: gaussian_blur,
}


def apply_op(image: Image.Image, op: Any) -> Image.Image:
    """Runs one operation on pixels, as Pillow does it."""
    return OPS[type(op)](image, op)


def hue(image: Image.Image, op: Any) -> Image.Image:
    pixels = np.array(image.convert("HSV"))
    pixels[..., 0] += np.array(int(op.factor * 255) % 256, dtype=np.uint8)
    return Image.fromarray(pixels, "HSV").convert("RGB")


def affine(image: Image.Image, op: Any) -> Image.Image:
    resample = Image.Resampling[op.interpolation.upper()]
    return image.transform(image.size, Image.Transform.AFFINE, op.matrix, resample, fillcolor=tuple(op.fill))


OPS: dict[type, Callable[[Image.Image, Any], Image.Image]] = {
    _core.Identity: lambda image, op: image,
    _core.Brightness: lambda image, op: ImageEnhance.Brightness(image).enhance(op.factor),
    _core.Contrast: lambda image, op: ImageEnhance.Contrast(image).enhance(op.factor),
    _core.Saturation: lambda image, op: ImageEnhance.Color(image).enhance(op.factor),
    _core.Sharpness: lambda image, op: ImageEnhance.Sharpness(image).enhance(op.factor),
    _core.Hue: hue,
    _core.Posterize: lambda image, op: ImageOps.posterize(image, op.bits),
    _core.Solarize: lambda image, op: ImageOps.solarize(image, op.threshold),
    _core.Autocontrast: lambda image, op: ImageOps.autocontrast(image),
    _core.Equalize: lambda image, op: ImageOps.equalize(image),
    _core.Invert: lambda image, op: ImageOps.invert(image),
    _core.Luma: lambda image, op: image.convert("L").convert("RGB"),
    _core.Grayscale: lambda image, op: image.convert("L").convert("RGB"),
    _core.Affine: affine,
    _core.Rotate90: lambda image, op: image.transpose(Image.Transpose.ROTATE_90),
    _core.Rotate180: lambda image, op: image.transpose(Image.Transpose.ROTATE_180),
    _core.Rotate270: lambda image, op: image.transpose(Image.Transpose.ROTATE_270),
}
