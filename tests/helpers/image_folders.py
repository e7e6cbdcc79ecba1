"""Folders of images that the tests make themselves, so that they need no data from elsewhere."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
from PIL import Image

SUBSAMPLINGS = ("4:4:4", "4:2:2", "4:2:0")


def synthetic_image(seed: int, width: int, height: int) -> Image.Image:
    """Makes an RGB image with gradients, edges and noise; the same for the same arguments."""
    generator = np.random.default_rng(seed)
    coarse = generator.integers(0, 256, (height // 40 + 2, width // 40 + 2, 3), dtype=np.uint8)
    smooth = np.asarray(Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC), dtype=np.int16)
    noisy = smooth + generator.integers(-12, 13, smooth.shape)
    return Image.fromarray(np.clip(noisy, 0, 255).astype(np.uint8))


def save_jpeg(path: Path, seed: int, width: int, height: int, *, subsampling: str = "4:4:4", quality: int = 90) -> None:
    """Writes a clean baseline JPEG with its own Huffman tables, as in most photo collections."""
    path.parent.mkdir(parents=True, exist_ok=True)
    image = synthetic_image(seed, width, height)
    image.save(path, "JPEG", quality=quality, subsampling=subsampling, optimize=True)


def make_clean_folder(root: Path, num_images: int, num_classes: int = 3) -> Path:
    """Makes an ImageFolder of clean baseline JPEGs of varied size and subsampling; returns `root`."""
    generator = np.random.default_rng(7)
    for number in range(num_images):
        width, height = (int(side) for side in generator.integers(90, 320, 2))
        path = root / f"class{number % num_classes}" / f"{number:04}.JPEG"
        save_jpeg(path, number, width, height, subsampling=SUBSAMPLINGS[number % 3])
    return root


def make_mixed_folder(root: Path) -> Path:
    """Makes an ImageFolder as found in the wild: clean files and every kind that needs the reference decoder."""
    make_clean_folder(root, 6, num_classes=2)
    odd = root / "odd"
    odd.mkdir()
    image = synthetic_image(100, 161, 123)
    image.save(odd / "photo.png")
    image.convert("L").save(odd / "grey.jpg", quality=85)
    image.convert("CMYK").save(odd / "cmyk.jpg", quality=90)
    image.save(odd / "progressive.jpg", quality=80, progressive=True)
    image.convert("P").save(odd / "palette.png")
    image.save(odd / "png_named.jpg", "PNG")
    image.save(odd / "restart.jpg", quality=80, restart_marker_blocks=3)
    Image.fromarray((np.arange(90 * 70, dtype=np.uint16) * 9).reshape(70, 90)).save(odd / "sixteen_bit.png")
    synthetic_image(101, 1, 1).save(odd / "tiny.jpg", quality=90)
    synthetic_image(102, 1, 1).save(odd / "tiny.png")
    return root


def make_faulty_copy(folder: Path, root: Path) -> Path:
    """Copies a clean folder, and makes four of its files fail: no image, truncated, empty, truncated CMYK."""
    shutil.copytree(folder, root)
    paths = sorted(root.rglob("*.JPEG"))
    paths[4].write_bytes(b"not an image")
    paths[10].write_bytes(paths[10].read_bytes()[:-300])
    paths[16].write_bytes(b"")
    with Image.open(paths[19]) as image:
        image.convert("CMYK").save(paths[19], "JPEG")
    paths[19].write_bytes(paths[19].read_bytes()[:-100])
    return root
