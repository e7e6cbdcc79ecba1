"""The one home of PIL: the reference decoder, what is known about it, and the threads that run it for the engine.

What the native decoder does not accept is decoded here by the installed Pillow, opened the way torchvision's
``pil_loader`` opens it. So verdict, pixels and error text are Pillow's by construction.
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
from dataclasses import dataclass
from typing import IO, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFile, UnidentifiedImageError, __version__, features

from fastload._errors import Stage
from fastload._process._exit import EXIT_JOIN_SECONDS, DaemonThread, join_threads, start_threads
from fastload._process._interrupts import append_result, is_interrupt

RgbImage = Image.Image

_SHOWN_BYTES = 16
# Larger than any image that can be.
_NO_PIXEL_LIMIT = 1 << 62
# Older versions smooth incomplete progressive scans over a smaller neighbourhood.
_OLDEST_LIBJPEG_TURBO = (2, 1)


class DecodedPixels(NamedTuple):
    """A decoded image: `pixels` is height * width * 3 bytes, rows from the top, RGB interleaved, no padding."""

    pixels: bytes
    width: int
    height: int


def open_rgb(path: str | bytes) -> RgbImage:
    """Decode the file at `path` to an RGB image, as torchvision's ``pil_loader`` does.

    Exception types and texts are those of ``pil_loader``, with one addition: what is neither a regular file nor a
    folder is refused with OSError (EINVAL, "not a regular file") where ``pil_loader`` would wait for ever.
    """
    return open_rgb_in(None, path)


def open_rgb_in(directory: int | None, path: str | bytes) -> RgbImage:
    """The same, with a relative path in the directory of this descriptor; None: in the current one."""
    with _open_file(directory, path) as file:
        return _open_reference(file).convert("RGB")


def open_rgb_deferred_in(directory: int | None, path: str | bytes) -> RgbImage:
    """As `open_rgb_in`, where an opener that is registered with Pillow may have it decoded later, and natively."""
    with _open_file(directory, path) as file:
        return _identified(file).convert("RGB")


def open_rgb_bytes(data: bytes) -> RgbImage:
    """Decode `data`, the contents of an image file, to an RGB image; raises what Pillow raises."""
    return _open_reference(io.BytesIO(data)).convert("RGB")


class _OfThread(threading.local):
    is_reference = False


_of_thread = _OfThread()


def is_reference() -> bool:
    """Whether Pillow and torchvision are to do by themselves what this thread asks them for."""
    return _of_thread.is_reference


@contextlib.contextmanager
def as_reference() -> Iterator[None]:
    """In it nothing of what the calling thread asks Pillow and torchvision for is done natively."""
    before, _of_thread.is_reference = _of_thread.is_reference, True
    try:
        yield
    finally:
        _of_thread.is_reference = before


def _open_reference(source: str | IO[bytes]) -> Image.Image:
    with as_reference():
        return _identified(source)


def _identified(source: str | IO[bytes]) -> Image.Image:
    """Image.open() that may be called by several threads in a new process.

    Pillow loads the modules of rare formats when it meets the first such file. One thread that does so makes another,
    which has asked all formats there were, believe that it has asked all there are.
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
    """What Pillow finds beside the pixels of a file (EXIF, ICC profile, ...); decodes nothing."""
    with _open_reference(source) as image:
        info: dict[str | tuple[int, int], Any] = image.info
    return info


def image_info_in(directory: int | None, path: str | bytes) -> dict[str | tuple[int, int], Any]:
    """The same of the file at `path`, a relative one in the directory of this descriptor."""
    with _open_file(directory, path) as file:
        return image_info(file)


def decode_rgb(path: str | bytes, directory: int | None = None) -> DecodedPixels:
    """Decode the file at `path` to RGB bytes; raises what `open_rgb_in` raises."""
    image = open_rgb_in(directory, path)
    return DecodedPixels(image.tobytes(), image.width, image.height)


def rgb_image(pixels: NDArray[np.uint8]) -> RgbImage:
    """An RGB image with a copy of `pixels`, contiguous [height, width, 3]."""
    height, width, _ = pixels.shape
    return Image.frombytes("RGB", (width, height), pixels.data)


def _open_file(directory: int | None, path: str | bytes) -> IO[bytes]:
    # By path and not from bytes: Pillow's "cannot identify" message quotes the file object.
    name = os.fsdecode(path)
    return open(name, "rb", opener=functools.partial(_open_regular, None if name.startswith("/") else directory))


def _open_regular(directory: int | None, path: str, flags: int) -> int:
    """Opener for ``open``: never waits for a writer of a FIFO. Folders pass: ``open`` words their error."""
    system_open = functools.partial(os.open, dir_fd=directory)
    opened: list[int] = []  # none is lost to an interrupt: Note [interrupts]
    try:
        try:
            append_result(opened, system_open, path, flags | os.O_NONBLOCK)
        except BlockingIOError:  # another process has a lease on it, which the kernel asks for while open() waits
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


@dataclass(frozen=True)
class SampleFailure:
    """What a decode exception says about the sample, in the words of SampleError."""

    stage: Stage
    detail: str | None


def classify_failure(exception: BaseException, path: str | bytes, directory: int | None = None) -> SampleFailure:
    """Name the stage at which `decode_rgb` failed; for a file that is no image, say what it starts with.

    Reads at most 16 bytes of the file, and nothing unless Pillow could not identify it.
    """
    if isinstance(exception, UnidentifiedImageError):
        return SampleFailure("header", _describe_start(directory, path))
    if isinstance(exception, (Image.DecompressionBombError, Image.DecompressionBombWarning)):
        return SampleFailure("limit", None)
    if isinstance(exception, OSError) and exception.errno is not None:
        # open() sets the file name; a failing read() on the open file does not.
        return SampleFailure("read" if exception.filename is None else "open", None)
    return SampleFailure("decode", None)


def _describe_start(directory: int | None, path: str | bytes) -> str | None:
    try:
        with _open_file(directory, path) as file:
            start = file.read(_SHOWN_BYTES)
    except OSError as error:
        if is_interrupt(error):
            raise
        return None  # it went away since; the exception at hand is told anyway
    return f"not an image: first bytes {start!r}" if start else "empty file"


@dataclass(frozen=True)
class PillowInfo:
    """The installed Pillow.

    Attributes:
        version: As text, for example "13.0.0".
        is_simd: Whether it is Pillow-SIMD, whose resize is not Pillow's arithmetic.
        libjpeg_turbo: Version of the libjpeg-turbo inside, or None where the JPEG decoder is another one.
        max_pixels: Pillow warns above this many pixels and refuses above twice as many. A module setting that users
            change, so ask at each epoch.
    """

    version: str
    is_simd: bool
    libjpeg_turbo: str | None
    max_pixels: int


def pillow_info() -> PillowInfo:
    """Describe the Pillow that decodes here."""
    # Pillow-SIMD is Pillow-SIMD by its version only: 9.5.0.post1 of the former is built on 9.5.0 of the latter.
    turbo = None if _has_feature("mozjpeg") else features.version_feature("libjpeg_turbo")
    return PillowInfo(__version__, ".post" in __version__, turbo, max_pixels())


def max_pixels() -> int:
    """Image.MAX_IMAGE_PIXELS, which may be any number, or None: no limit."""
    limit: float | None = Image.MAX_IMAGE_PIXELS
    if limit is None or not limit < _NO_PIXEL_LIMIT:
        return _NO_PIXEL_LIMIT
    return max(0, int(limit))


def accepted_files() -> object:
    """What of Pillow's settings decides which files it takes; equal while none has changed."""
    return max_pixels(), bool(ImageFile.LOAD_TRUNCATED_IMAGES), len(Image.OPEN)


class Exactness(NamedTuple):
    """A yes or no with the sentence that explains it."""

    is_exact: bool
    reason: str


def native_jpeg_is_exact() -> Exactness:
    """Whether the native JPEG decoder gives this Pillow's pixels: only where both are libjpeg-turbo's arithmetic."""
    info = pillow_info()
    if info.libjpeg_turbo is None:
        return Exactness(False, f"Pillow {info.version} decodes JPEG with a library other than libjpeg-turbo")
    if _version_numbers(info.libjpeg_turbo) < _OLDEST_LIBJPEG_TURBO:
        oldest = ".".join(map(str, _OLDEST_LIBJPEG_TURBO))
        return Exactness(
            False, f"Pillow {info.version} decodes JPEG with libjpeg-turbo {info.libjpeg_turbo}, older than {oldest}"
        )
    return Exactness(True, f"Pillow {info.version} decodes JPEG with libjpeg-turbo {info.libjpeg_turbo}")


def _has_feature(name: str) -> bool:
    return name in features.features and bool(features.check_feature(name))


def _version_numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".") if part.isdigit())


class FallbackTask(Protocol):
    """One sample the engine could not decode. Exactly one of `complete` and `fail` is called, once."""

    @property
    def path(self) -> bytes:
        """File name."""

    @property
    def directory(self) -> int | None:
        """Descriptor of the directory that a relative path is in; None: the current one."""

    def complete(self, pixels: bytes, width: int, height: int) -> None:
        """Hand in the decoded image (layout as in `DecodedPixels`); the engine copies or keeps `pixels`."""

    def fail(self, exception: BaseException) -> None:
        """Hand in why it could not be decoded."""


class FallbackEngine(Protocol):
    """The engine's handle, as the fallback threads see it."""

    def next_fallback(self) -> FallbackTask | None:
        """Wait, without the GIL, for the next task; None once the engine is closed."""

    def close(self) -> object:
        """Signal the end: waits for nothing, may be called again and from any thread."""


class FallbackThreads:
    """Python threads that decode for an engine.

    They hold the engine's handle, never this object, a loader or an iterator. Before the interpreter is torn down the
    engines of those still alive are closed.

    Args:
        engine: Source of the tasks.
        max_threads: Threads that `start` makes.
    """

    def __init__(self, engine: FallbackEngine, max_threads: int) -> None:
        self._threads = [_FallbackThread(engine, number) for number in range(max_threads)]
        self._engine = engine

    def start(self) -> None:
        """Start the threads. Raises ThreadStartError where the system refuses one; close() ends the others."""
        start_threads(self._threads)

    def close(self, timeout_seconds: float = EXIT_JOIN_SECONDS) -> bool:
        """Close the engine and wait for the threads; never call it from a finalizer.

        Returns:
            Whether all of them ended in time. One that is inside a decode ends after it.
        """
        self._engine.close()
        return join_threads(self._threads, timeout_seconds)


class _FallbackThread(DaemonThread):
    """One decoding thread.

    An exception given to the user keeps the frames below it (``f_back``), and so what their locals name: therefore
    these methods let go of the task and the engine by hand.
    """

    def __init__(self, engine: FallbackEngine, number: int) -> None:
        super().__init__(f"fastload-fallback-{number}")
        self._engine: FallbackEngine | None = engine

    def run(self) -> None:
        engine = self._engine
        try:
            while engine is not None and (task := engine.next_fallback()) is not None:
                serve(task, kept=BaseException)  # no signal comes here, and a thread has no caller
                del task
        finally:
            self._engine = engine = None

    def signal_end(self) -> None:
        if (engine := self._engine) is not None:
            engine.close()


def serve(task: FallbackTask, kept: type[BaseException] = Exception) -> None:
    """Decode for `task` in this thread. Exceptions of type `kept` are the sample's; others, and interrupts, the
    caller's."""
    try:
        decoded = decode_rgb(task.path, task.directory)
        task.complete(decoded.pixels, decoded.width, decoded.height)
    except kept as exception:
        if kept is Exception and is_interrupt(exception):
            raise
        task.fail(exception)
    finally:
        del task
