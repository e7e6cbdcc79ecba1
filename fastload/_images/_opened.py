"""Images that were opened and not loaded yet, up to the moment when their file is read."""

from __future__ import annotations

import io
import os
import weakref
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
# Thumbnails have ends of their own; each is looked at from the beginning of the file.
_MAX_ENDS = 16


class _Marks:
    """Images that a native opener has opened, by identity: an image has no hash, and its attributes are the user's.

    Thread-safe without a lock, as LiveObjects.

    Attributes:
        is_used: Whether there has ever been one.
    """

    def __init__(self) -> None:
        self.is_used = False
        self._marks: dict[int, tuple[weakref.ref[JpegImageFile], ImageTally]] = {}

    def add(self, image: JpegImageFile, tally: ImageTally) -> None:
        number, marks = id(image), self._marks
        self.is_used = True
        marks[number] = (weakref.ref(image, lambda _: marks.pop(number, None)), tally)

    def has(self, image: Image.Image) -> bool:
        return id(image) in self._marks

    def take(self, image: Image.Image) -> ImageTally | None:
        reference, tally = self._marks.pop(id(image), (None, None))
        return tally if reference is not None and reference() is image else None


marks = _Marks()


class _File(NamedTuple):
    """What was read for an image.

    Attributes:
        contents: Up to the end of the image at least.
        facts: What ``SampleDecoder.check_bytes`` found.
        position: Where Pillow would leave the file; None: where it stands.
        opened: What ``SampleDecoder.read_open`` said of it.
    """

    contents: bytes
    facts: tuple[int, int, int, int]
    position: int | None
    opened: bytes = b""


def load_deferred(image: Image.Image) -> Deferred | None:
    """Takes the place of Pillow's ``load()`` for a marked image, which then has deferred pixels."""
    deferred = begin(image)
    if deferred is not None:
        deferred.stand_in(image)
    return deferred


def load_at_once(image: Image.Image) -> None:
    """The same, but its pixels are made now. Has no effect on an image that is not marked, or is loaded."""
    is_loaded = vars(image).get("_im", vars(image).get("im")) is not None  # the name depends on the version
    if not is_loaded and marks.has(image) and (deferred := begin(image)) is not None:
        image.im = deferred.make()


def begin(image: Image.Image) -> Deferred | None:
    """Does what Pillow's ``load()`` does to a marked image, but for its pixels, which are returned.

    Returns:
        None where Pillow has to load it; then nothing has changed, but for the position of a file object of the user's,
        which Pillow sets first. It says what is wrong, if anything is.
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
        # Pillow meets it as well, and tells it.
        tally.left_to_pillow("its file could not be read")
        return None
    if file is None:
        tally.left_to_pillow(thread_decoder().fallback_reason)
        return None
    width, height, components, _ = file.facts
    mode = "L" if components == 1 else "RGB"
    if image.size != (width, height) or image.mode != mode:
        tally.left_to_pillow("the opened image was changed")
        return None
    _leave_as_loaded(image, file.position)
    return Deferred(ImageSource(file.contents, tally, file.opened), (), mode, (width, height))


def _is_as_opened(image: JpegImageFile) -> bool:
    """Whether Pillow would load it as it is in the file: neither draft() nor the user has changed that."""
    tile = [("jpeg", (0, 0, *image.size), 0, (image.mode, ""))]
    return image.tile == tile and image.decoderconfig == () and image.fp is not None


def _read(file: Any, block: int) -> _File | None:
    """None where Pillow has to decode it.

    Raises:
        OSError: It cannot be read.
    """
    decoder = thread_decoder()
    if type(file) is io.BytesIO:
        contents, opened = file.getvalue(), b""
        facts = decoder.check_bytes(contents)
    elif type(file) is io.BufferedReader and type(file.raw) is io.FileIO:
        read = decoder.read_open(file.fileno(), _path_of(file))
        if read is None:
            raise OSError("it is no regular file, or too large, or cannot be read")
        contents, facts, opened = read
    else:
        return _read_blocks(file, block)
    if facts is None:
        return None
    return _File(contents, facts, min(len(contents), -(-facts[3] // block) * block), opened)


def _path_of(file: io.BufferedReader) -> bytes:
    """By which it was opened; nothing where it was by a descriptor."""
    name: object = file.name
    return os.fsencode(name) if isinstance(name, str | bytes) else b""


def _read_blocks(file: Any, block: int) -> _File | None:
    """As Pillow reads: block by block, up to the end of the image and not behind it."""
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
            facts = check(bytes(contents))
            if facts is not None:
                return _File(bytes(contents), facts, None)
        if is_end:
            break
    return None


def _leave_as_loaded(image: JpegImageFile, position: int | None) -> None:
    """What ImageFile.load() does beside loading."""
    image.map = None
    image.tile = []
    image.readonly = 0
    file: Any = image.fp
    if image._exclusive_fp and image._close_exclusive_fp_after_loading:
        file.close()
    elif position is not None:
        file.seek(position)
    image.fp = None
