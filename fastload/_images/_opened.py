"""Images that were opened and not loaded yet, until their file is read or their batch is handed over."""

from __future__ import annotations

import functools
import io
import os
import weakref
from collections.abc import Mapping
from typing import Any, NamedTuple

from PIL import Image
from PIL.JpegImagePlugin import JpegImageFile

from fastload._images._deferred import Deferred
from fastload._images._source import ImageSource
from fastload._images._tally import ImageTally
from fastload._pillow._decode_image import thread_decoder
from fastload._process._config import MAX_FILE_BYTES
from fastload._process._interrupts import is_interrupt

_END_OF_IMAGE = b"\xff\xd9"
# Thumbnails have end markers of their own; at each one the contents so far are checked from the beginning.
_MAX_ENDS = 16
# Frequent types in batches that hold no image.
_LEAVES = frozenset({int, float, bool, str, bytes, type(None)})


class _Marks:
    """Images that a native opener has opened, by identity: an image has no hash, and its attributes are the user's.

    Thread-safe without a lock, like LiveObjects. `is_used` tells whether there has ever been one.
    """

    def __init__(self) -> None:
        self.is_used = False
        self._marks: dict[int, tuple[weakref.ref[JpegImageFile], ImageTally]] = {}

    def add(self, image: JpegImageFile, tally: ImageTally) -> None:
        number, marks = id(image), self._marks
        self.is_used = True
        marks[number] = (weakref.ref(image, functools.partial(marks.pop, number)), tally)

    def has(self, image: Image.Image) -> bool:
        return id(image) in self._marks

    def take(self, image: Image.Image) -> ImageTally | None:
        reference, tally = self._marks.pop(id(image), (None, None))
        return tally if reference is not None and reference() is image else None


marks = _Marks()


class _File(NamedTuple):
    """The file of an image.

    Attributes:
        contents: At least everything up to the end of the image.
        header: The result of ``SampleDecoder.check_bytes``.
        position: Where Pillow would leave the file; None: where it is.
        opened: The note of ``SampleDecoder.read_open`` about it.
    """

    contents: bytes
    header: tuple[int, int, int, int]
    position: int | None
    opened: bytes = b""


def load_deferred(image: Image.Image) -> Deferred | None:
    """Loads a marked image like Pillow's ``load()``, but with deferred pixels, which it returns."""
    deferred = begin(image)
    if deferred is not None:
        deferred.stand_in(image)
    return deferred


def load_at_once(image: Image.Image) -> None:
    """Loads an image and makes its pixels now. Has no effect if the image is not marked, or is loaded."""
    is_loaded = vars(image).get("_im", vars(image).get("im")) is not None  # the name depends on the version
    if not is_loaded and marks.has(image) and (deferred := begin(image)) is not None:
        image.im = deferred.make()


def begin(image: Image.Image) -> Deferred | None:
    """Does what Pillow's ``load()`` does to a marked image, except for its pixels, which are returned.

    Returns:
        None if Pillow has to load it. Then nothing has changed but the position of a user's file object, which Pillow
        sets first. Pillow reports what is wrong, if anything is.
    """
    tally = marks.take(image)
    if tally is None:
        return None
    assert isinstance(image, JpegImageFile)
    block = image.decodermaxblock
    if image.mode not in ("RGB", "L"):
        tally.left_to_pillow(f"a {image.mode} image")
        return None
    if not _is_as_opened(image) or type(block) is not int or block < 1:
        tally.left_to_pillow("the opened image was changed")
        return None
    try:
        file = _read(image.fp, block)
    except Exception as error:
        if is_interrupt(error):
            raise
        # Pillow meets the same error, and reports it.
        tally.left_to_pillow("its file could not be read")
        return None
    if file is None:
        tally.left_to_pillow(thread_decoder().fallback_reason)
        return None
    width, height, components, _ = file.header
    mode = "L" if components == 1 else "RGB"
    if image.size != (width, height) or image.mode != mode:
        tally.left_to_pillow("the opened image was changed")
        return None
    _leave_as_loaded(image, file.position)
    return Deferred(ImageSource(file.contents, tally, file.opened), (), mode, (width, height))


def _is_as_opened(image: JpegImageFile) -> bool:
    """Returns whether Pillow would load it as it is in the file: neither draft() nor the user has changed that."""
    tile = [("jpeg", (0, 0, *image.size), 0, (image.mode, ""))]
    return image.tile == tile and image.decoderconfig == () and image.fp is not None


def _read(file: Any, block: int) -> _File | None:
    """Returns the file's contents; None if Pillow has to decode it. Raises OSError if it cannot be read."""
    decoder = thread_decoder()
    if type(file) is io.BytesIO:
        contents, opened = file.getvalue(), b""
        header = decoder.check_bytes(contents)
    elif type(file) is io.BufferedReader and type(file.raw) is io.FileIO:
        read = decoder.read_open(file.fileno(), _path_of(file))
        if read is None:
            raise OSError("it is not a regular file, or too large, or cannot be read")
        contents, header, opened = read
    else:
        return _read_blocks(file, block)
    if header is None:
        return None
    return _File(contents, header, min(len(contents), -(-header[3] // block) * block), opened)


def _path_of(file: io.BufferedReader) -> bytes:
    """Returns the path by which the file was opened; b"" for a descriptor."""
    name: object = file.name
    return os.fsencode(name) if isinstance(name, str | bytes) else b""


def _read_blocks(file: Any, block: int) -> _File | None:
    """Reads like Pillow: block by block, up to the end of the image and not beyond it."""
    check = thread_decoder().check_bytes
    file.seek(0)
    contents, num_ends = bytearray(), 0
    while num_ends < _MAX_ENDS and len(contents) <= MAX_FILE_BYTES:
        part = file.read(block)
        begin = max(0, len(contents) - 1)
        contents += part
        is_end = not part
        if is_end or contents.find(_END_OF_IMAGE, begin) >= 0:
            num_ends += 1
            header = check(bytes(contents))
            if header is not None:
                return _File(bytes(contents), header, None)
        if is_end:
            break
    return None


def _leave_as_loaded(image: JpegImageFile, position: int | None) -> None:
    """Does what ImageFile.load() does apart from loading."""
    image.map = None
    image.tile = []
    image.readonly = 0
    file: Any = image.fp
    if image._exclusive_fp and image._close_exclusive_fp_after_loading:
        file.close()
    elif position is not None:
        file.seek(position)
    image.fp = None


def make_pixels(batch: Any) -> None:
    """Makes the pixels of the images in `batch`: in dicts, lists and tuples, where torch's pin_memory looks.

    An image that was opened but not loaded is loaded, unless Pillow has to do that.
    """
    waiting = [batch] if marks.is_used else []
    containers: dict[int, Any] = {}  # by identity: a batch may contain one often, and itself
    while waiting:
        item = waiting.pop()
        if isinstance(item, Image.Image):
            _make_pixels_of(item)
        elif isinstance(item, (list, tuple, Mapping)) and id(item) not in containers:
            containers[id(item)] = item
            parts = item.values() if isinstance(item, Mapping) else item
            waiting += [part for part in parts if type(part) not in _LEAVES]


def _make_pixels_of(image: Image.Image) -> None:
    if type(vars(image).get("_im")) is Deferred:
        _ = image.im
    else:
        load_at_once(image)
