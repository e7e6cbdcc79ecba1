"""JPEG files of each kind."""

from __future__ import annotations

import io

from image_folders import synthetic_image


def jpeg(seed: int = 1, width: int = 93, height: int = 71, mode: str = "RGB", **options: object) -> bytes:
    stream = io.BytesIO()
    synthetic_image(seed, width, height).convert(mode).save(stream, "JPEG", **options)
    return stream.getvalue()


EXIF = b"Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0"
KINDS = {
    "baseline": jpeg(quality=90),
    "420": jpeg(2, 130, 87, subsampling="4:2:0", quality=75),
    "gray": jpeg(3, mode="L"),
    "progressive": jpeg(4, progressive=True),
    "restart": jpeg(5, restart_marker_blocks=2),
    "rotated": jpeg(6, exif=EXIF),
    "one pixel": jpeg(7, 1, 1),
    "cmyk": jpeg(8, mode="CMYK"),
    "truncated": jpeg(9)[:-700],
    "bytes behind": jpeg(10) + b"more than nothing",
    "no end": jpeg(11)[:-2],
    "broken": jpeg(12, quality=90)[:900] + b"\xff\xd0" + jpeg(12, quality=90)[902:],
}
