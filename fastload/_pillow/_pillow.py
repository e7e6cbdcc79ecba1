"""The only importer of PIL: the reference decoder, its properties, and the threads that run it for the engine.

The installed Pillow decodes here what the native decoder does not accept, and opens it the way torchvision's
``pil_loader`` does. So verdict, pixels and error text are Pillow's by construction.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import io
import os
import stat
import threading
from collections.abc import Iterator
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFile, UnidentifiedImageError, __version__, features

from fastload import _native
from fastload._errors import Stage
from fastload._process._exit import DaemonThread
from fastload._process._interrupts import append_result, is_interrupt

RgbImage = Image.Image

_SHOWN_BYTES = 16
# Larger than any image.
_NO_PIXEL_LIMIT = 1 << 62
# Older versions smooth incomplete progressive scans over a smaller neighbourhood.
_OLDEST_LIBJPEG_TURBO = (2, 1)


class DecodedPixels(NamedTuple):
    """A decoded image: `pixels` is height * width * 3 bytes, rows from the top, RGB interleaved, no padding."""

    pixels: bytes
    width: int
    height: int


def open_rgb(path: str | bytes, directory: int | None = None) -> RgbImage:
    """Decodes the file at `path` to an RGB image like torchvision's ``pil_loader``.

    A path is relative to the directory with this descriptor; None: the current one. Exceptions have the types and texts
    of ``pil_loader``, with one addition: anything but a regular file or a folder raises OSError (EINVAL, "not a regular
    file"), whereas ``pil_loader`` would wait forever.
    """
    with _open_file(path, directory) as file:
        return _open_reference(file).convert("RGB")


def open_rgb_deferred(path: str | bytes, directory: int | None) -> RgbImage:
    """Decodes like `open_rgb`, except that an opener registered with Pillow may decode later, and natively."""
    with _open_file(path, directory) as file:
        return _identified(file).convert("RGB")


def open_rgb_bytes(data: bytes) -> RgbImage:
    """Decodes `data`, the contents of an image file, to an RGB image; raises what Pillow raises."""
    return _open_reference(io.BytesIO(data)).convert("RGB")


class _ThreadState(threading.local):
    is_reference = False


_thread_state = _ThreadState()


def is_reference() -> bool:
    """Returns whether Pillow and torchvision have to do this thread's calls by themselves."""
    return _thread_state.is_reference


@contextlib.contextmanager
def as_reference() -> Iterator[None]:
    """Makes Pillow and torchvision do the calling thread's calls by themselves, without native code."""
    before, _thread_state.is_reference = _thread_state.is_reference, True
    try:
        yield
    finally:
        _thread_state.is_reference = before


def _open_reference(source: str | IO[bytes]) -> Image.Image:
    with as_reference():
        return _identified(source)


def _identified(source: str | IO[bytes]) -> Image.Image:
    """Opens an image like Image.open(), but safely for several threads in a new process.

    Pillow loads the modules of rare formats when it meets the first file of one. A thread that has tried only the
    formats known so far believes that it has tried them all if another thread loads those modules meanwhile.
    """
    num_formats = len(Image.ID)
    try:
        return Image.open(source)
    except UnidentifiedImageError:
        if len(Image.ID) == num_formats:
            raise
    if not isinstance(source, str):
        source.seek(0)
    return Image.open(source)


def image_info(source: str | IO[bytes]) -> dict[str | tuple[int, int], Any]:
    """Returns what Pillow finds in a file apart from the pixels (EXIF, ICC profile, ...); decodes nothing."""
    with _open_reference(source) as image:
        info: dict[str | tuple[int, int], Any] = image.info
    return info


def image_info_in(path: str | bytes, directory: int | None) -> dict[str | tuple[int, int], Any]:
    """Returns `image_info` of the file at `path`, relative to the directory with this descriptor."""
    with _open_file(path, directory) as file:
        return image_info(file)


def decode_rgb(path: str | bytes, directory: int | None = None) -> DecodedPixels:
    """Decodes the file at `path` to RGB bytes; raises what `open_rgb` raises."""
    image = open_rgb(path, directory)
    return DecodedPixels(image.tobytes(), image.width, image.height)


def rgb_image(pixels: NDArray[np.uint8]) -> RgbImage:
    """Returns an RGB image with a copy of `pixels`, contiguous [height, width, 3]."""
    height, width, _ = pixels.shape
    return Image.frombytes("RGB", (width, height), pixels.data)


def _open_file(path: str | bytes, directory: int | None) -> IO[bytes]:
    # By path, not from bytes: Pillow's "cannot identify" message quotes the file object.
    name = os.fsdecode(path)
    return open(name, "rb", opener=functools.partial(_open_regular, None if name.startswith("/") else directory))


def _open_regular(directory: int | None, path: str, flags: int) -> int:
    """Opens for ``open``; never waits for a FIFO's writer. Opens folders, too: ``open`` words their error."""
    system_open = functools.partial(os.open, dir_fd=directory)
    opened: list[int] = []  # no descriptor is lost to an interrupt: Note [interrupts]
    try:
        try:
            append_result(opened, system_open, path, flags | os.O_NONBLOCK)
        except BlockingIOError:  # another process has a lease on it, which a blocking open() makes the kernel break
            if not stat.S_ISREG(os.stat(path, dir_fd=directory).st_mode):
                raise
            append_result(opened, system_open, path, flags)
        mode = os.fstat(opened[0]).st_mode
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            raise OSError(errno.EINVAL, "not a regular file", path)
        return opened[0]
    except BaseException:
        for descriptor in opened:
            os.close(descriptor)
        raise


def classify_failure(
    exception: BaseException, path: str | bytes, directory: int | None = None
) -> tuple[Stage, str | None]:
    """Returns the stage at which `decode_rgb` failed, and for a file that is no image its first bytes.

    Reads at most 16 bytes of the file, and only if Pillow could not identify it.
    """
    if isinstance(exception, UnidentifiedImageError):
        return "header", _describe_start(path, directory)
    if isinstance(exception, (Image.DecompressionBombError, Image.DecompressionBombWarning)):
        return "limit", None
    if isinstance(exception, OSError) and exception.errno is not None:
        # open() sets the file name; a failing read() on the open file does not.
        return "read" if exception.filename is None else "open", None
    return "decode", None


def _describe_start(path: str | bytes, directory: int | None) -> str | None:
    try:
        with _open_file(path, directory) as file:
            start = file.read(_SHOWN_BYTES)
    except OSError as error:
        if is_interrupt(error):
            raise
        return None  # the file is gone by now; the caller reports its exception anyway
    return f"not an image: first bytes {start!r}" if start else "empty file"


class PillowInfo(NamedTuple):
    """The installed Pillow.

    Attributes:
        version: As text, for example "13.0.0".
        is_simd: Whether it is Pillow-SIMD, whose resize is not Pillow's arithmetic.
        libjpeg_turbo: Version of the libjpeg-turbo inside, or None if the JPEG decoder is another library.
    """

    version: str
    is_simd: bool
    libjpeg_turbo: str | None


def pillow_info() -> PillowInfo:
    """Returns a description of the Pillow that decodes here."""
    # Only the version tells Pillow-SIMD apart: its 9.5.0.post1 is built on Pillow 9.5.0.
    has_mozjpeg = "mozjpeg" in features.features and features.check_feature("mozjpeg")
    turbo = None if has_mozjpeg else features.version_feature("libjpeg_turbo")
    return PillowInfo(__version__, ".post" in __version__, turbo)


def max_pixels() -> int:
    """Returns Image.MAX_IMAGE_PIXELS as an int; without a limit (None) a number larger than any image.

    Pillow warns above this many pixels and refuses above twice as many. Users may change it, so ask at each epoch.
    """
    limit: float | None = Image.MAX_IMAGE_PIXELS
    if limit is None or not limit < _NO_PIXEL_LIMIT:
        return _NO_PIXEL_LIMIT
    return max(0, int(limit))


def accepted_files() -> object:
    """Returns the settings by which Pillow decides which files it accepts; equal while none has changed."""
    return max_pixels(), bool(ImageFile.LOAD_TRUNCATED_IMAGES), len(Image.OPEN)


class Exactness(NamedTuple):
    """A yes or no with the sentence that explains it."""

    is_exact: bool
    reason: str


def native_jpeg_is_exact() -> Exactness:
    """Returns whether the native JPEG decoder gives this Pillow's pixels: it does if Pillow uses libjpeg-turbo."""
    info = pillow_info()
    turbo = info.libjpeg_turbo
    if turbo is None:
        return Exactness(False, f"Pillow {info.version} decodes JPEG with a library other than libjpeg-turbo")
    is_recent = tuple(int(part) for part in turbo.split(".") if part.isdigit()) >= _OLDEST_LIBJPEG_TURBO
    older = "" if is_recent else f", older than {'.'.join(map(str, _OLDEST_LIBJPEG_TURBO))}"
    return Exactness(is_recent, f"Pillow {info.version} decodes JPEG with libjpeg-turbo {turbo}{older}")


class FallbackThread(DaemonThread):
    """A Python thread that decodes for an engine, and ends when that is closed, or after the decode it is inside of.

    It holds the engine's handle, never a loader or an iterator. An exception that the user gets keeps the frames below
    it (``f_back``) and what their locals refer to, so these methods release the task and the engine explicitly.
    """

    def __init__(self, engine: _native.Engine, number: int) -> None:
        super().__init__(f"fastload-fallback-{number}")
        self._engine: _native.Engine | None = engine

    def run(self) -> None:
        engine = self._engine
        try:
            while engine is not None and (task := engine.next_fallback()) is not None:
                serve(task, kept=BaseException)  # no signal arrives here, and a thread has no caller
                del task
        finally:
            self._engine = engine = None

    def signal_end(self) -> None:
        if (engine := self._engine) is not None:
            engine.close()


def serve(task: _native.FallbackTask, kept: type[BaseException] = Exception) -> None:
    """Decodes for `task` in this thread.

    Exceptions of type `kept` belong to the sample; others, and interrupts, are raised to the caller.
    """
    try:
        decoded = decode_rgb(task.path, task.directory)
        task.complete(decoded.pixels, decoded.width, decoded.height)
    except kept as exception:
        if kept is Exception and is_interrupt(exception):
            raise
        task.fail(exception)
    finally:
        del task
