"""Native decoding of the JPEG files that Pillow opens: when it applies, and what it changes in Pillow."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

from PIL import Image, JpegImagePlugin
from PIL.JpegImagePlugin import JpegImageFile

from fastload._images._methods import PillowMethods
from fastload._images._opened import marks
from fastload._images._pipelines import PipelineCalls
from fastload._images._tally import ImageTally, native_tally, process_state, thread_state
from fastload._pillow import _pillow
from fastload._pillow._originals import foreign_opener
from fastload._process._held import HeldChange
from fastload._process._originals import stand_ins

_FORMAT = "JPEG"


class _Opener(HeldChange):
    """Pillow's opener of JPEG files and some of its methods, replaced while something holds them.

    Attributes:
        registered: The hold of register_opener(); None if there is none.
    """

    def __init__(self) -> None:
        super().__init__()
        self.registered: int | None = None
        self.methods = PillowMethods()
        self.pipelines = PipelineCalls()
        self._pillows: tuple[Any, Any] | None = None
        self._num_modules = 0

    def make(self) -> None:
        self._pillows = Image.OPEN[_FORMAT]
        self.methods.exchange()
        self.look_for_torchvision()
        Image.register_open(_FORMAT, _open_jpeg, self._pillows[1])

    def undo(self) -> None:
        if self._pillows is not None and Image.OPEN.get(_FORMAT, (None,))[0] is _open_jpeg:
            Image.OPEN[_FORMAT] = self._pillows
        self._pillows = None
        self._num_modules = 0
        self.methods.restore()
        self.pipelines.restore()

    def look_for_torchvision(self) -> None:
        """Patches torchvision, which may be imported at any time. Very cheap if no module was imported."""
        if len(sys.modules) != self._num_modules:
            with self._lock:
                self._num_modules = len(sys.modules)
                self.pipelines.exchange()

    def register(self) -> None:
        with self._lock:
            if self.registered is None:
                self.registered = self.hold()
                process_state.tally = ImageTally()

    def unregister(self) -> None:
        with self._lock:
            held, self.registered = self.registered, None
            process_state.tally = None
            if held is not None:
                self.release(held)

    def num_in_child(self) -> int:
        return (self.registered is not None) + (thread_state.tally is not None) + thread_state.is_forking_workers


_opener = _Opener()


def _open_jpeg(file: Any, filename: Any = None) -> Any:
    """Opens with Pillow's own opener and marks the image."""
    image = JpegImagePlugin.jpeg_factory(file, filename)
    tally = native_tally()
    if tally is not None and type(image) is JpegImageFile and not _pillow.is_reference():
        _opener.look_for_torchvision()
        tally.images_opened += 1
        marks.add(image, tally)
    return image


stand_ins[_open_jpeg] = JpegImagePlugin.jpeg_factory


def obstacle() -> str | None:
    """Returns why images that Pillow opens are not decoded natively, as a clause; None if they may be."""
    exactness = _pillow.native_jpeg_is_exact()
    if not exactness.is_exact:
        return exactness.reason
    return foreign_opener()


@contextlib.contextmanager
def native_images(tally: ImageTally) -> Iterator[None]:
    """Makes the calling thread decode its JPEG files from Pillow natively; has no effect if there is an obstacle()."""
    if obstacle() is not None:
        yield
        return
    with _opener.held():
        before, thread_state.tally = thread_state.tally, tally
        try:
            yield
        finally:
            thread_state.tally = before


@contextlib.contextmanager
def exchanged_in_workers() -> Iterator[None]:
    """Changes Pillow for the workers that the calling thread forks, which then share the memory that this takes.

    It changes no image of the calling process, and has no effect if there is an obstacle().
    """
    if obstacle() is not None:
        yield
        return
    with _opener.held():
        try:
            thread_state.is_forking_workers = True
            yield
        finally:
            thread_state.is_forking_workers = False


def decode_natively(tally: ImageTally) -> None:
    """Makes all threads of this process decode natively and count in `tally`, unless there is an obstacle()."""
    if obstacle() is None:
        _opener.register()
        process_state.tally = tally


def register_opener() -> None:
    """Makes all threads of this process, and processes forked from it, decode JPEG files natively that Pillow opens.

    ``PIL.Image.open`` returns Pillow's own images as before. Operations on an image are remembered until something
    needs its pixels; then one native call without the GIL decodes only the region that is needed. Pixels, warnings and
    errors equal the installed Pillow's. fastload's worker threads do this by themselves; this function is for other
    programs, such as those with torch's DataLoader, whose worker processes inherit it when they are forked.

    A repeated call has no effect. Before Pillow 11, images are decoded natively as a whole when Pillow would decode
    them.

    Raises:
        RuntimeError: A foreign opener is registered for JPEG files, or the installed Pillow does not decode with
            libjpeg-turbo.

    Example:
        >>> import PIL.Image
        >>> fastload.register_opener()
        >>> image = PIL.Image.open("cat.jpg").convert("RGB").crop((0, 0, 64, 64))
        >>> image.load()[0, 0] == PIL.Image.open("cat.jpg").getpixel((0, 0))
        True
        >>> fastload.unregister_opener()
    """
    reason = obstacle()
    if reason is not None:
        raise RuntimeError(f"no native opener: {reason}")
    _opener.register()


def is_registered() -> bool:
    """Returns whether register_opener() is in effect."""
    return _opener.registered is not None


def unregister_opener() -> None:
    """Undoes register_opener(); without one it does nothing.

    Images that remember operations still make their pixels natively when they are needed.
    """
    _opener.unregister()
