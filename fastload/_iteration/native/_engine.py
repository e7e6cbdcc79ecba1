"""The engine of a native loader, and the Python threads that decode the files that it cannot."""

from __future__ import annotations

from dataclasses import dataclass

from fastload import _native
from fastload._errors import LoaderClosedError
from fastload._pillow._pillow import FallbackThread
from fastload._process import _config
from fastload._process._exit import EXIT_JOIN_SECONDS, LiveObjects, exit_state, join_threads, start_threads

# How long close() and the interpreter's exit wait for native threads; a thread that hangs in a read is abandoned.
CLOSE_TIMEOUT_SECONDS = 0.2


@dataclass(frozen=True)
class EngineSettings:
    """The settings of an engine.

    Attributes:
        num_threads: Number of native threads; 0: the thread that asks for a batch does the work.
        max_free_buffers: The most unused buffers that are kept.
        max_pixels: Pillow decodes larger images.
        native_jpeg: False: Pillow decodes every file.
        cache: Cache of decoded images; None: none is kept.
    """

    num_threads: int
    max_free_buffers: int
    max_pixels: int
    native_jpeg: bool
    cache: _native.DecodeCache | None


class LoaderEngine:
    """The native engine of one loader, and the Python threads that decode files that it cannot. Kept between epochs.

    Iterators hold it, so that the engine of a loader made in the head of a for statement lives as long as its iterator.
    When nothing holds it any more, its threads are signalled, but not waited for.

    Raises RuntimeError if the system refuses a thread.
    """

    def __init__(self, settings: EngineSettings) -> None:
        self.settings = settings
        self.iterators: LiveObjects[object] = LiveObjects()
        self.native = _native.Engine(**vars(settings), max_file_bytes=_config.MAX_FILE_BYTES)
        self._end = _native.CallsAtDrop((self.native.close,))
        self._fallback_threads = [FallbackThread(self.native, number) for number in range(settings.num_threads)]
        try:
            start_threads(self._fallback_threads)
        except BaseException:
            self.close()  # a kept error would keep this object alive
            raise
        exit_state.watch()

    def check_open(self) -> None:
        """Raises LoaderClosedError if the engine was closed; for waits for something other than its threads."""
        exit_state.sleep_if_begun()
        if not self.native.is_running:
            raise LoaderClosedError("the loader was closed; iterate over it again to start anew")

    def close(self) -> None:
        """Ends every iterator and thread. Waits at most 0.2 s for native threads and 1 s for those inside Pillow."""
        if self.native.is_forked:
            return
        self.native.close(CLOSE_TIMEOUT_SECONDS)
        join_threads(self._fallback_threads, EXIT_JOIN_SECONDS)
