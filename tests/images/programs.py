"""Small programs on an opened image, each with another way to Pillow's pixels."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
from PIL import Image, ImageChops, ImageDraw, ImageEnhance, ImageFilter, ImageOps, ImageStat
from torchvision import transforms
from torchvision.transforms import functional, v2


def _box(image: Any) -> tuple[int, int, int, int]:
    width, height = image.size
    return (width // 4, height // 5, width // 4 + max(1, width // 2), height // 5 + max(1, height // 2))


def _size_of(box: tuple[int, int, int, int]) -> tuple[int, int]:
    return (box[2] - box[0], box[3] - box[1])


def _saved(image: Any, form: str, **options: Any) -> bytes:
    stream = io.BytesIO()
    image.save(stream, form, **options)
    return stream.getvalue()


def _draft(image: Any) -> Any:
    image.draft("L", (image.width // 3 + 1, image.height // 3 + 1))
    return image.convert("RGB")


def _draft_after_load(image: Any) -> Any:
    image.load()
    image.draft("L", (8, 8))
    return image


def _thumbnail(image: Any) -> Any:
    image.thumbnail((23, 19))
    return image


def _thumbnail_of_converted(image: Any) -> Any:
    image = image.convert("RGB")
    image.thumbnail((23, 19))
    return image


def _pasted(image: Any) -> Any:
    image = image.convert("RGB")
    image.paste((1, 2, 3), (0, 0, 2, 2))
    return image


def _put(image: Any) -> Any:
    image.putpixel((0, 0), 7 if image.mode == "L" else (7, 8, 9))
    return image


def _put_by_access(image: Any) -> Any:
    copied = image.copy()
    access = copied.load()
    access[0, 0] = 7 if image.mode == "L" else (7, 8, 9)
    return access[0, 0], copied, image


def _access_outlives(image: Any) -> Any:
    access = image.convert("RGB").load()
    return access[image.width - 1, image.height - 1]


def _access_of_replaced(image: Any) -> Any:
    image = image.convert("RGB")
    access = image.load()
    image.putalpha(3)
    access[0, 0] = (1, 2, 3)
    return image


def _access_of_shared(image: Any) -> Any:
    other = Image.Image()
    other.__dict__ = image.__dict__
    access = other.load()
    del image
    access[0, 0] = (1, 2, 3)
    return other.getpixel((0, 0)), other.tobytes()


def _refuses(function: Callable[[Any], Any], argument: Any) -> bool:
    try:
        function(argument)
    except TypeError:
        return True
    return False


class _Enriched(Image.Image):
    """An image that takes over another image's attributes, as some programs derive from Pillow's class."""

    def __init__(self, image: Any) -> None:
        super().__init__()
        vars(self).update(vars(image))

    def convert(self, *arguments: Any, **options: Any) -> Any:
        return super().convert(*arguments, **options)


def _taken_over(image: Any) -> Any:
    """Uses images taken over from one that still exists."""
    other = _Enriched(image)
    blended = Image.blend(other, other, 0.5)  # C functions accept only Pillow's memory
    other.putpixel((0, 0), (1, 2, 3))
    return blended, image.getpixel((0, 0)), image


def _alpha(image: Any) -> Any:
    image.putalpha(3)
    return image


def _closed(image: Any) -> Any:
    image.close()
    return image.convert("RGB")


def _closed_after_load(image: Any) -> Any:
    converted = image.convert("RGB")
    image.close()
    return converted, image.crop((0, 0, 1, 1))


def _in_with(image: Any) -> Any:
    with image as inside:
        return inside.convert("RGB")


def _behind_with(image: Any) -> Any:
    with image:
        pass
    return image.convert("RGB")


def _drawn(image: Any) -> Any:
    ImageDraw.Draw(image).line((0, 0, 5, 5), fill=0)
    return image


def _readonly(image: Any) -> Any:
    image = image.convert("RGB")
    image.readonly = 1
    other = image.load()
    image.putpixel((0, 0), (1, 1, 1))
    return image, other[0, 0]


def _transparent(image: Any) -> Any:
    image.info["transparency"] = 0 if image.mode == "L" else (0, 0, 0)
    return image.convert("L" if image.mode == "RGB" else "RGB")


def _info(image: Any) -> Any:
    image.info["list"] = [1]
    converted = image.convert("RGB").crop((0, 0, 1, 1))
    image.info["list"].append(2)
    return converted


def _seek(image: Any) -> Any:
    return image.tell(), image.seek(0), image.load()[0, 0]


def _verify(image: Any) -> Any:
    image.verify()
    return image.size


def _verified_then_loaded(image: Any) -> Any:
    image.verify()
    return image.load()


def _named(function: Callable[..., Any], *arguments: Any) -> Callable[[Any], Any]:
    return lambda image: function(image, *arguments)


_RESIZES = {
    f"resize {resample.name} {by}": (
        lambda image, resample=resample, by=by: image.convert("RGB").resize(
            (max(1, int(image.width * by)), max(1, int(image.height * by) - 1)), resample
        )
    )
    for resample in (
        Image.Resampling.NEAREST,
        Image.Resampling.BOX,
        Image.Resampling.BILINEAR,
        Image.Resampling.HAMMING,
        Image.Resampling.BICUBIC,
        Image.Resampling.LANCZOS,
    )
    for by in (0.4, 1.3)
}
_TRANSPOSITIONS = {
    f"transpose {method.name}": (lambda image, method=method: image.crop(_box(image)).transpose(method))
    for method in Image.Transpose
}
_CONVERSIONS = {
    f"convert {mode}": (lambda image, mode=mode: image.convert(mode))
    for mode in ("RGB", "L", "1", "P", "RGBA", "CMYK", "YCbCr", "HSV", "LAB", "I", "F", "LA", "BGR;15", "nonsense")
}

_BLURS = {
    f"{kind.__name__} {radius}": (lambda image, kind=kind, radius=radius: image.filter(kind(radius)))
    for kind in (ImageFilter.GaussianBlur, ImageFilter.BoxBlur)
    for radius in (0, 0.3, 2.7, (3, 0), (0.0, 1.5), [1, 2], True, -1, "a", (1, 2, 3))
}


class _OwnBlur(ImageFilter.GaussianBlur):
    def filter(self, image: Any) -> Any:
        return image.box_blur((1, 1))


def _changed_blur(image: Any) -> Any:
    blur = ImageFilter.GaussianBlur(1)
    blur.filter = lambda core: core.copy()  # type: ignore[method-assign]
    return image.filter(blur)


def _table_of(value: Any) -> Callable[[Any], Any]:
    """Puts `value` into the middle of a table."""

    def program(image: Any) -> Any:
        values: list[Any] = [255 - number for number in range(256)] * len(image.getbands())
        values[77] = value
        return image.point(values)

    return program


def _calls_of_point(image: Any) -> Any:
    calls: list[Any] = []

    def lut(value: int) -> float:
        calls.append(value)
        return value * 1.37 - 20

    return image.point(lut), calls


def _point_that_fails(image: Any) -> Any:
    return image.point(lambda value: 1 // (200 - value))


def _point_that_changes_the_image(image: Any) -> Any:
    image = image.convert("RGB")
    return image.point(lambda value: (image.putpixel((0, 0), (value, 0, 0)), value // 2)[1])


def _wrong_calls(image: Any) -> Any:
    results = []
    for call in (
        lambda: image.filter(),
        lambda: image.filter(ImageFilter.BoxBlur(1), 2),
        lambda: image.point(),
        lambda: image.point(bytes(256), None, 3),
        lambda: image.resize((3, 3), 2, None, None, 5),
        lambda: image.resize((3, 3), 2, (0, 0, 1, 1), box=(0, 0, 1, 1)),
        lambda: image.resize((3, 3), 2, gap=None),
    ):
        try:
            results.append(call())
        except TypeError:  # its text names the function, which differs
            results.append(TypeError)
    return results


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    **_RESIZES,
    **_BLURS,
    **_TRANSPOSITIONS,
    **_CONVERSIONS,
    "nothing": lambda image: None,
    "size": lambda image: (image.size, image.mode, image.format, image.width, image.getbands()),
    "repr": lambda image: repr(image.convert("RGB")).split(" at ")[0],
    "load": lambda image: image.load()[0, 0],
    "load twice": lambda image: (image.load()[0, 0], image.load()[0, 0]),
    "load and convert": lambda image: (image.load() is None, image.convert("RGB")),
    "convert twice": lambda image: (image.convert("RGB"), image.convert("RGB")),
    "convert nothing": lambda image: image.convert(),
    "convert dither": lambda image: image.convert("RGB", dither=Image.Dither.NONE),
    "convert matrix": lambda image: image.convert("RGB").convert("L", (0.5, 0.25, 0.25, 0)),
    "gray and back": lambda image: image.convert("L").convert("RGB").crop(_box(image)),
    "gray of a resize": lambda image: image.convert("RGB").resize((31, 17)).convert("L").resize((9, 40)),
    "copy": lambda image: image.copy(),
    "copy.copy": copy.copy,
    "copy.deepcopy": lambda image: copy.deepcopy(image.convert("RGB")),
    "deepcopy of opened": copy.deepcopy,
    "pickle": lambda image: pickle.loads(pickle.dumps(image.convert("RGB"))),
    "pickle of opened": lambda image: pickle.loads(pickle.dumps(image)),
    "crop": lambda image: image.crop(_box(image)),
    "crop of list": lambda image: image.crop(list(_box(image))),
    "crop whole": lambda image: image.crop((0, 0, *image.size)),
    "crop nothing": lambda image: image.crop(),
    "crop outside": lambda image: image.crop((-3, -2, 5, 9)),
    "crop empty": lambda image: image.crop((1, 1, 1, 1)),
    "crop backwards": lambda image: image.crop((5, 5, 1, 1)),
    "crop of floats": lambda image: image.crop((0.4, 0.6, 5.5, 6.5)),
    "crop of numpy": lambda image: image.crop(np.array([0, 0, 1, 1])),
    "crop of bools": lambda image: image.crop((False, False, True, True)),
    "crop of text": lambda image: image.crop("abcd"),
    "crop of crop": lambda image: image.crop(_box(image)).crop((0, 0, 1, 1)),
    "resize default": lambda image: image.convert("RGB").resize((20, 31)),
    "resize of gray": lambda image: image.convert("L").resize((20, 31), Image.Resampling.BILINEAR),
    "resize same": lambda image: image.resize(image.size),
    "resize list": lambda image: image.convert("RGB").resize([8, 9], 2),
    "resize keyword": lambda image: image.convert("RGB").resize(size=(8, 9), resample=Image.Resampling.BOX),
    "resize box": lambda image: image.convert("RGB").resize((8, 9), box=(0.5, 0.5, image.width, image.height)),
    "resize box of ints": lambda image: image.resize((8, 9), 3, (0, 0, max(1, image.width // 2), image.height)),
    "resize box that is a crop": lambda image: image.resize(_size_of(_box(image)), 0, tuple(map(float, _box(image)))),
    "resize box nearest": lambda image: image.resize((8, 9), 0, (0.25, 0, image.width, image.height)),
    "resize box whole": lambda image: image.resize((8, 9), 0, (0, 0.0, *image.size), None),
    "resize box list": lambda image: image.resize((8, 9), 1, [0.25, 0, *image.size]),
    "resize box empty": lambda image: image.resize((8, 9), 1, (0.5, 0, 0.5, 1)),
    "resize box backwards": lambda image: image.resize((8, 9), 1, (0.9, 0, 0.5, 1)),
    "resize box outside": lambda image: image.resize((8, 9), 1, (0, 0, image.width + 0.1, 1)),
    "resize box before": lambda image: image.resize((8, 9), 1, (-0.1, 0, 1, 1)),
    "resize box nan": lambda image: image.resize((8, 9), 1, (float("nan"), 0, 1, 1)),
    "resize box of three": lambda image: image.resize((8, 9), 1, (0, 0, 1)),
    "resize box thin": lambda image: image.resize((8, 9), 2, (0.5, 0.5, 0.5 + 1e-12, 1)),
    "resize box of numpy": lambda image: image.resize((8, 9), 2, tuple(np.array([0, 0, 0.5, 1]))),
    "resize box and gap": lambda image: image.resize((3, 4), 2, (0, 0, *image.size), 2.0),
    "wrong calls": _wrong_calls,
    "resize gap": lambda image: image.convert("RGB").resize((3, 4), reducing_gap=2.0),
    "resize nothing": lambda image: image.convert("RGB").resize((0, 3)),
    "resize negative": lambda image: image.convert("RGB").resize((-1, 3)),
    "resize unknown filter": lambda image: image.convert("RGB").resize((5, 3), 77),
    "resize bad gap": lambda image: image.resize((5, 3), reducing_gap=0.5),
    "resize crop resize": lambda image: image.resize((64, 48), 2).crop((5, 5, 50, 40)).resize((33, 70), 3),
    "flips": lambda image: image.transpose(0).transpose(1).transpose(0),
    "transpose unknown": lambda image: image.transpose(9),
    "many steps": lambda image: _many(image.convert("RGB")),
    "rotate": lambda image: image.convert("RGB").rotate(17),
    "rotate 90": lambda image: image.convert("RGB").rotate(90, expand=True),
    "transform": lambda image: image.transform((9, 9), Image.Transform.AFFINE, (1, 0, 1, 0, 1, 1)),
    "reduce": lambda image: image.convert("RGB").reduce(2),
    "split": lambda image: image.split(),
    "getchannel": lambda image: image.convert("RGB").getchannel(1),
    "merge": lambda image: Image.merge("RGB", image.convert("RGB").split()[::-1]),
    "blend": lambda image: Image.blend(image.convert("RGB"), Image.new("RGB", image.size), 0.3),
    "composite": lambda image: Image.composite(image.convert("RGB"), Image.new("RGB", image.size), image.convert("L")),
    "getpixel": lambda image: image.getpixel((0, 0)),
    "putpixel": _put,
    "put by access": _put_by_access,
    "access outlives": _access_outlives,
    "access of replaced": _access_of_replaced,
    "access kept by others": lambda image: _access_of_shared(image.convert("RGB")),
    "access is Pillow's": lambda image: isinstance(image.load(), type(Image.new("L", (1, 1)).load())),
    "access has no items": lambda image: (_refuses(iter, image.load()), _refuses(list, image.load())),
    "core is Pillow's": lambda image: isinstance(image.convert("RGB")._im, type(Image.core.new("L", (1, 1)))),
    "attributes taken over": lambda image: _taken_over(image.convert("RGB")),
    "class of the user's": lambda image: _Enriched(image.convert("RGB")).convert("L"),
    "paste": _pasted,
    "paste it": lambda image: _paste_it(image.convert("RGB")),
    "putalpha": _alpha,
    "readonly": _readonly,
    "getdata": lambda image: list(image.convert("RGB").getdata())[:9],
    "histogram": lambda image: image.histogram(),
    "extrema": lambda image: image.getextrema(),
    "bbox": lambda image: image.convert("L").getbbox(),
    "colors": lambda image: image.convert("L").getcolors(),
    "entropy": lambda image: image.entropy(),
    "quantize": lambda image: image.convert("RGB").quantize(8),
    "point": lambda image: image.point(lambda value: 255 - value),
    "point table": lambda image: image.convert("RGB").point(list(range(256)) * 3),
    "point bytes": lambda image: image.point(bytes(range(255, -1, -1)) * len(image.getbands())),
    "point tuple": lambda image: image.point(tuple(range(256)) * len(image.getbands())),
    "point short": lambda image: image.point(list(range(255))),
    "point long": lambda image: image.point(list(range(256)) * 4),
    "point numpy": lambda image: image.point(np.arange(256).repeat(len(image.getbands()))),
    "point mode": lambda image: image.convert("L").point([value > 99 for value in range(256)], "1"),
    "point same mode": lambda image: image.convert("L").point(list(range(256)), "L"),
    "point calls": _calls_of_point,
    "point that fails": _point_that_fails,
    "point that changes": _point_that_changes_the_image,
    "point of text": lambda image: image.point(lambda value: "a"),
    "point of a class": lambda image: image.point(float),
    **{
        f"point with {value!r}": _table_of(value)
        for value in (-5, 300, 0.5, 1.5, -0.5, 254.9, 1e9, 2**31, -(2**31), 2**70, 1e30, float("nan"), True, None, "a")
    },
    "gamma": lambda image: functional.adjust_gamma(image.convert("RGB"), 0.7),
    "filter class": lambda image: image.filter(ImageFilter.GaussianBlur),
    "filter of one's own": lambda image: image.filter(_OwnBlur(1)),
    "filter changed": _changed_blur,
    "filter unsharp": lambda image: image.filter(ImageFilter.UnsharpMask()),
    "filter nothing": lambda image: image.filter(None),
    "blurs of crops": lambda image: (
        image.crop(_box(image)).filter(ImageFilter.BoxBlur(1)).transpose(4).crop((0, 0, 1, 1))
    ),
    "filter": lambda image: image.filter(ImageFilter.GaussianBlur(1.5)),
    "filter box": lambda image: image.convert("RGB").filter(ImageFilter.BoxBlur(2)),
    "filter kernel": lambda image: image.convert("RGB").filter(ImageFilter.SHARPEN),
    # For other modes Pillow reads memory that is not the image's.
    "effect_spread": lambda image: (image if image.mode == "L" else image.convert("RGB")).effect_spread(0),
    "draw": _drawn,
    "draft": _draft,
    "draft behind load": _draft_after_load,
    "thumbnail": _thumbnail,
    "thumbnail of converted": _thumbnail_of_converted,
    "tobytes": lambda image: image.tobytes(),
    "tobytes raw": lambda image: image.convert("RGB").tobytes("raw", "BGR"),
    "tobytes jpeg": lambda image: len(image.convert("RGB").tobytes("jpeg", "RGB")) > 0,
    "tobitmap": lambda image: image.convert("1").tobitmap(),
    "numpy": lambda image: np.asarray(image),
    "numpy copy": lambda image: np.array(image.convert("RGB").crop(_box(image))),
    "numpy twice": lambda image: (np.asarray(image), np.array(image)),
    "numpy then crop": lambda image: _array_then_crop(image.convert("RGB")),
    "interface": lambda image: sorted(image.convert("RGB").__array_interface__),
    "save PNG": lambda image: _saved(image.convert("RGB"), "PNG"),
    "save JPEG": lambda image: _saved(image, "JPEG", quality=80),
    "save kept": lambda image: _saved(image, "JPEG", quality="keep"),
    "show by IPython": lambda image: image.convert("RGB")._repr_png_(),
    "equal": lambda image: (image == image.copy(), image.convert("RGB") == image.convert("RGB"), image != 3),
    "getexif": lambda image: dict(image.getexif()),
    "exif_transpose": lambda image: ImageOps.exif_transpose(image),
    "exif_transpose in place": lambda image: (ImageOps.exif_transpose(image, in_place=True), image)[1],
    "palette": lambda image: image.getpalette(),
    "closed": _closed,
    "closed behind load": _closed_after_load,
    "with": _in_with,
    "behind with": _behind_with,
    "transparency": _transparent,
    "info": _info,
    "seek": _seek,
    "verify": _verify,
    "verify, load": _verified_then_loaded,
    "get_format_mimetype": lambda image: image.get_format_mimetype(),
    "frombytes": lambda image: _refilled(image.convert("RGB")),
    "remap": lambda image: image.convert("L").quantize(4).remap_palette([1, 0, 2, 3]),
    "alpha_composite": lambda image: Image.alpha_composite(image.convert("RGBA"), image.convert("RGBA")),
    "getim": lambda image: image.convert("RGB").getim() is not None,
    "new from array": lambda image: Image.fromarray(np.asarray(image.convert("RGB"))),
    "fit": lambda image: ImageOps.fit(image.convert("RGB"), (21, 13)),
    "pad": lambda image: ImageOps.pad(image.convert("RGB"), (21, 13)),
    "contain": lambda image: ImageOps.contain(image.convert("RGB"), (21, 13)),
    "cover": lambda image: ImageOps.cover(image.convert("RGB"), (21, 13)),
    "mirror": lambda image: ImageOps.mirror(image),
    "flip": lambda image: ImageOps.flip(image.convert("L")),
    "expand": lambda image: ImageOps.expand(image.convert("RGB"), 3, 5),
    "solarize": lambda image: ImageOps.solarize(image.convert("RGB"), 100),
    "posterize": lambda image: ImageOps.posterize(image.convert("RGB"), 3),
    "equalize": lambda image: ImageOps.equalize(image.convert("RGB")),
    "autocontrast": lambda image: ImageOps.autocontrast(image.convert("RGB")),
    "invert": lambda image: ImageOps.invert(image.convert("RGB")),
    "grayscale": lambda image: ImageOps.grayscale(image),
    "brightness": lambda image: ImageEnhance.Brightness(image.convert("RGB")).enhance(0.7),
    "contrast": lambda image: ImageEnhance.Contrast(image.convert("RGB")).enhance(1.3),
    "color": lambda image: ImageEnhance.Color(image.convert("RGB")).enhance(0.2),
    "sharpness": lambda image: ImageEnhance.Sharpness(image.convert("RGB")).enhance(2.0),
    "chops": lambda image: ImageChops.difference(image.convert("RGB"), image.convert("RGB").transpose(0)),
    "stat": lambda image: ImageStat.Stat(image.convert("RGB")).mean,
    "to_tensor": lambda image: functional.to_tensor(image),
    "pil_to_tensor": lambda image: functional.pil_to_tensor(image.convert("RGB")),
    "v2 to_image": lambda image: v2.functional.pil_to_tensor(image.convert("RGB").resize((9, 9))),
    "functional": lambda image: functional.to_tensor(
        functional.hflip(functional.resized_crop(image.convert("RGB"), *_box(image)[:2], 5, 6, [32, 24]))
    ),
    "pipeline": lambda image: transforms.Compose(
        [transforms.Resize(40), transforms.CenterCrop(32), transforms.ToTensor()]
    )(image.convert("RGB")),
}


def _many(image: Any) -> Any:
    for _ in range(40):
        image = image.transpose(2)
    return image


def _paste_it(image: Any) -> Any:
    canvas = Image.new("RGB", (50, 50))
    canvas.paste(image.resize((20, 20)), (3, 3))
    return canvas


def _array_then_crop(image: Any) -> Any:
    return np.asarray(image), image.crop(_box(image)), image.load()[0, 0], image


def _refilled(image: Any) -> Any:
    image.frombytes(bytes(3 * image.width * image.height))
    return image
