"""Expands the shipped photographs into ImageFolders: ImageNet's mix of sizes, rates and sampling types, the same as
progressive files, and large photographs as cameras make them.

Deterministic for one Pillow version: every choice comes from (seed, file number), and the files are made in order.
"""

from __future__ import annotations

import functools
import hashlib
import io
import itertools
import json
import random
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

from PIL import Image, ImageEnhance, ImageFile, ImageFilter, JpegImagePlugin

PHOTO_FOLDER = Path(__file__).parent / "photos"
DEFAULT_FOLDER = Path("build/sample-imagenet")
MANIFEST_NAME = "sample_set.json"

MEAN_BITS_PER_PIXEL = 4.35
"""All bits over all pixels, as in ImageNet's training files."""

# Raise it if the same seed and count no longer give the same files.
_RECIPE_VERSION = 1


@dataclass(frozen=True)
class Recipe:
    """The recipe of a set.

    Attributes:
        count: number of files, all distinct.
        write_files: writes `count` files of a seed below a folder.
        parameters: everything that determines the files beside count, seed and the photographs.
    """

    count: int
    write_files: Callable[[Path, int, int], None]
    parameters: tuple[Any, ...]


# Shares in percent. Sampling is written as in the JPEG world; "grey" has one component.
_SAMPLING_SHARES = {"4:4:4": 76.0, "4:2:0": 20.0, "4:2:2": 1.5, "grey": 2.5}
_SIZE_SHARES = {
    (500, 375): 45.0,
    (500, 333): 20.0,
    (375, 500): 15.0,
    (333, 500): 7.0,
    (500, 400): 3.0,
    (500, 500): 2.0,
    (640, 480): 3.0,
    (1024, 768): 1.0,
    (320, 240): 2.0,
    (256, 256): 2.0,
}
# Pictures scaled down for the web are sharpened; without that they lack the detail that makes ImageNet's rates.
_SHARPENING_PERCENT = 140
_PILLOW_SUBSAMPLING = {"4:4:4": 0, "4:2:2": 1, "4:2:0": 2}

# Spread of the rates: sigma of the logarithm, then limits in bits per pixel.
_RATE_SIGMA = 0.4
_RATE_LIMITS = (1.2, 9.0)
# Most of ImageNet's files were encoded at quality 96.
_QUALITY_LIMITS = (30, 96)

# Cameras' and telephones' sizes, 2 to 12 megapixels, and the qualities at which they and photo tools save.
_LARGE_SIZE_SHARES = {
    (1920, 1080): 25.0,
    (2048, 1536): 25.0,
    (2592, 1944): 25.0,
    (3264, 2448): 15.0,
    (4000, 3000): 10.0,
}
_LARGE_QUALITIES = (85, 88, 90)
# Photographs lower than the highest tile are left out: enlarged, they would lack detail.
_TILE_HEIGHTS = (400, 700)
_TILE_SCALES = (0.75, 1.0)

_Kind = TypeVar("_Kind")


@dataclass(frozen=True)
class Mix:
    """The real mix of a set, read back from its files. Shares are fractions of 1."""

    file_count: int
    byte_count: int
    bits_per_pixel: float
    mean_width: float
    mean_height: float
    sampling_shares: dict[str, float]
    size_shares: dict[str, float]

    def __str__(self) -> str:
        sampling = ", ".join(f"{name} {share:.1%}" for name, share in self.sampling_shares.items())
        return (
            f"{self.file_count} files, {self.byte_count / 1e6:.1f} MB, "
            f"mean {self.mean_width:.0f}x{self.mean_height:.0f}, {self.bits_per_pixel:.2f} bits per pixel, {sampling}"
        )


@dataclass(frozen=True)
class SampleSet:
    """A complete set: an ImageFolder at `root`, its mix, and whether it existed already."""

    root: Path
    mix: Mix
    was_reused: bool


@dataclass(frozen=True)
class _FilePlan:
    number: int
    photo: Path
    size: tuple[int, int]
    sampling: str
    target_bits_per_pixel: float


def ensure_sample_set(
    root: Path = DEFAULT_FOLDER, count: int | None = None, seed: int = 0, kind: str = "imagenet"
) -> SampleSet:
    """Returns the set at `root`, made first if it is missing, incomplete or of other parameters.

    Args:
        root: folder of the set; the remains of an older set are replaced.
        count: number of files, all distinct; by default the kind's own number.
        seed: another seed gives other files of the same mix.
        kind: a key of RECIPES.

    The set appears by one rename, so a killed run leaves nothing that looks complete.
    """
    recipe = RECIPES[kind]
    count = recipe.count if count is None else count
    parameters = _parameter_digest(recipe, count, seed)
    mix = _read_manifest(root, parameters)
    if mix is not None:
        return SampleSet(root, mix, was_reused=True)
    root.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{root.name}-", dir=root.parent) as scratch:
        fresh = Path(scratch) / "new"
        fresh.mkdir()
        recipe.write_files(fresh, count, seed)
        mix = measure_mix(sorted(fresh.glob("*/*.jpg")))
        manifest = {"parameters": parameters, "count": count, "seed": seed, "kind": kind, "mix": asdict(mix)}
        (fresh / MANIFEST_NAME).write_text(json.dumps(manifest, indent=1))
        if root.exists():
            root.rename(Path(scratch) / "old")
        fresh.rename(root)
    return SampleSet(root, mix, was_reused=False)


def measure_mix(paths: Sequence[Path]) -> Mix:
    """Reads size, sampling and rate of JPEG files from their headers."""
    if not paths:
        raise ValueError("measure_mix needs at least one file, got none")
    sampling: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    byte_count = pixel_count = width_sum = height_sum = 0
    for path in paths:
        with Image.open(path) as image:
            sampling[_sampling_name(image)] += 1
            sizes[f"{image.width}x{image.height}"] += 1
            width_sum += image.width
            height_sum += image.height
            pixel_count += image.width * image.height
        byte_count += path.stat().st_size
    return Mix(
        file_count=len(paths),
        byte_count=byte_count,
        bits_per_pixel=8 * byte_count / pixel_count,
        mean_width=width_sum / len(paths),
        mean_height=height_sum / len(paths),
        sampling_shares={name: n / len(paths) for name, n in sampling.most_common()},
        size_shares={name: n / len(paths) for name, n in sizes.most_common()},
    )


def _sampling_name(image: Image.Image) -> str:
    if image.mode == "L":
        return "grey"
    if not isinstance(image, JpegImagePlugin.JpegImageFile):
        return str(image.format)
    return {0: "4:4:4", 1: "4:2:2", 2: "4:2:0"}.get(JpegImagePlugin.get_sampling(image), "other")


def _parameter_digest(recipe: Recipe, count: int, seed: int) -> str:
    """Returns a digest of everything that determines the files, including the photographs."""
    digest = hashlib.sha256()
    digest.update(repr((_RECIPE_VERSION, count, seed, recipe.parameters)).encode())
    for photo in _photos():
        digest.update(photo.name.encode())
        digest.update(photo.read_bytes())
    return digest.hexdigest()


def _read_manifest(root: Path, parameters: str) -> Mix | None:
    try:
        manifest = json.loads((root / MANIFEST_NAME).read_text())
    except (FileNotFoundError, json.JSONDecodeError):
        return None
    if manifest.get("parameters") != parameters:
        return None
    if sum(1 for _ in root.glob("*/*.jpg")) != manifest["count"]:
        return None
    return Mix(**{field.name: manifest["mix"][field.name] for field in fields(Mix)})


def _photos() -> list[Path]:
    return sorted(PHOTO_FOLDER.glob("*.jpg"))


def _plan_files(count: int, seed: int) -> list[_FilePlan]:
    generator = random.Random(f"sample set {seed}")
    photos = _photos()
    sampling = _apportion(_SAMPLING_SHARES, count, generator)
    sizes = _apportion(_SIZE_SHARES, count, generator)
    rates = [min(max(generator.lognormvariate(0.0, _RATE_SIGMA), 0.3), 2.0) for _ in range(count)]
    pixels = [width * height for width, height in sizes]
    mean_rate = sum(rate * area for rate, area in zip(rates, pixels, strict=True)) / sum(pixels)
    return [
        _FilePlan(i, photos[i % len(photos)], sizes[i], sampling[i], MEAN_BITS_PER_PIXEL * rates[i] / mean_rate)
        for i in range(count)
    ]


def _apportion(shares: dict[_Kind, float], count: int, generator: random.Random) -> list[_Kind]:
    """Splits `count` items into the given shares, the largest remainders rounded up, in random order."""
    exact = {kind: count * share / sum(shares.values()) for kind, share in shares.items()}
    numbers = {kind: int(value) for kind, value in exact.items()}
    by_remainder = sorted(exact, key=lambda kind: exact[kind] - numbers[kind], reverse=True)
    for kind in by_remainder[: count - sum(numbers.values())]:
        numbers[kind] += 1
    items = [kind for kind, number in numbers.items() for _ in range(number)]
    generator.shuffle(items)
    return items


def _write_imagenet_like(root: Path, count: int, seed: int, *, progressive: bool) -> None:
    plans = _plan_files(count, seed)
    # Pillow reserves one or two bytes a pixel for optimised tables, and fails on a noisy picture that needs more.
    ImageFile.MAXBLOCK = max(ImageFile.MAXBLOCK, 4 * max(plan.size[0] * plan.size[1] for plan in plans))
    missing_bits = 0.0
    photos = {path: Image.open(path).convert("RGB") for path in {plan.photo for plan in plans}}
    for plan in plans:
        image = _render(photos[plan.photo], plan, random.Random(f"sample {seed} {plan.number}"))
        # If earlier files missed their rate (a smooth picture at the best quality), the next ones make up for it.
        area = image.width * image.height
        wanted = plan.target_bits_per_pixel + missing_bits / area
        data = _encode_at_rate(image, plan.sampling, min(max(wanted, _RATE_LIMITS[0]), _RATE_LIMITS[1]), progressive)
        missing_bits += plan.target_bits_per_pixel * area - 8 * len(data)
        _write_file(root, plan.photo, plan.number, data)


def _write_file(root: Path, photo: Path, number: int, data: bytes) -> None:
    folder = root / photo.stem
    folder.mkdir(exist_ok=True)
    (folder / f"{photo.stem}_{number:05d}.jpg").write_bytes(data)


def _render(photo: Image.Image, plan: _FilePlan, generator: random.Random) -> Image.Image:
    """Renders a random crop of the photograph at the planned size, mirrored and lit differently from its siblings."""
    width, height = plan.size
    largest = min(photo.width / width, photo.height / height)
    scale = largest * generator.uniform(0.6, 1.0)
    crop_width, crop_height = scale * width, scale * height
    left = generator.uniform(0, photo.width - crop_width)
    top = generator.uniform(0, photo.height - crop_height)
    box = (left, top, left + crop_width, top + crop_height)
    image = photo.resize(plan.size, Image.Resampling.LANCZOS, box=box)
    if generator.random() < 0.5:
        image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    image = ImageEnhance.Brightness(image).enhance(generator.uniform(0.85, 1.1))
    image = ImageEnhance.Color(image).enhance(generator.uniform(0.8, 1.2))
    image = image.filter(ImageFilter.UnsharpMask(radius=0.8, percent=_SHARPENING_PERCENT, threshold=0))
    return image.convert("L") if plan.sampling == "grey" else image


def _encode_at_rate(image: Image.Image, sampling: str, bits_per_pixel: float, progressive: bool) -> bytes:
    """Returns the encoding, over all qualities allowed, whose length is nearest to the requested rate."""
    wanted = bits_per_pixel * image.width * image.height / 8
    low, high = _QUALITY_LIMITS
    best = b""
    while low <= high:
        quality = (low + high) // 2
        data = _encode(image, sampling, quality, progressive)
        if not best or abs(len(data) - wanted) < abs(len(best) - wanted):
            best = data
        if len(data) < wanted:
            low = quality + 1
        else:
            high = quality - 1
    return best


def _encode(image: Image.Image, sampling: str, quality: int, progressive: bool = False) -> bytes:
    stream = io.BytesIO()
    chroma = {} if sampling == "grey" else {"subsampling": _PILLOW_SUBSAMPLING[sampling]}
    image.save(stream, "JPEG", quality=quality, optimize=True, progressive=progressive, **chroma)
    return stream.getvalue()


def _write_large_photos(root: Path, count: int, seed: int) -> None:
    """Writes mosaics of the photographs at about their own scale, so that a pixel has as much detail as a camera's."""
    photos = {path: Image.open(path).convert("RGB") for path in _photos()}
    photos = {path: photo for path, photo in photos.items() if photo.height >= _TILE_HEIGHTS[1]}
    sizes = _apportion(_LARGE_SIZE_SHARES, count, random.Random(f"large photos {seed}"))
    for number, size in enumerate(sizes):
        generator = random.Random(f"large photo {seed} {number}")
        first = list(photos)[number % len(photos)]
        image = _render_mosaic([photos[first], *generator.sample(list(photos.values()), len(photos))], size, generator)
        ImageFile.MAXBLOCK = max(ImageFile.MAXBLOCK, 4 * image.width * image.height)
        _write_file(root, first, number, _encode(image, "4:2:0", generator.choice(_LARGE_QUALITIES)))


def _render_mosaic(photos: Sequence[Image.Image], size: tuple[int, int], generator: random.Random) -> Image.Image:
    """Renders the photographs in rows beside each other, each mirrored, lit and scaled a little differently."""
    image = Image.new("RGB", size)
    pieces = itertools.cycle(photos)
    top = 0
    while top < size[1]:
        height = int(generator.uniform(*_TILE_HEIGHTS))
        left = 0
        while left < size[0]:
            tile = _render_tile(next(pieces), height, generator)
            image.paste(tile, (left, top))
            left += tile.width
        top += height
    return image


def _render_tile(photo: Image.Image, height: int, generator: random.Random) -> Image.Image:
    scale = generator.uniform(*_TILE_SCALES)
    box_height = min(photo.height, height / scale)
    box_top = generator.uniform(0, photo.height - box_height)
    width = round(photo.width * height / box_height)
    box = (0, box_top, photo.width, box_top + box_height)
    tile = photo.resize((width, height), Image.Resampling.LANCZOS, box=box)
    if generator.random() < 0.5:
        tile = tile.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    return ImageEnhance.Brightness(tile).enhance(generator.uniform(0.85, 1.1))


_IMAGENET_PARAMETERS = (
    *(_SAMPLING_SHARES, _SIZE_SHARES),
    *(_SHARPENING_PERCENT, _RATE_SIGMA, _RATE_LIMITS, _QUALITY_LIMITS, MEAN_BITS_PER_PIXEL),
)

RECIPES = {
    "imagenet": Recipe(512, functools.partial(_write_imagenet_like, progressive=False), _IMAGENET_PARAMETERS),
    "progressive": Recipe(
        256, functools.partial(_write_imagenet_like, progressive=True), (*_IMAGENET_PARAMETERS, "progressive")
    ),
    "photos": Recipe(64, _write_large_photos, (_LARGE_SIZE_SHARES, _LARGE_QUALITIES, _TILE_HEIGHTS, _TILE_SCALES)),
}
"""Kind of set -> how it is made."""
