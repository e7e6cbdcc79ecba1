"""Counters of native work on images that the user's code opens, and the threads that do it."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any


@dataclass
class ImageTally:
    """Counters of one thread, by their names in LoaderStats. Other threads may add to it."""

    images_opened: int = 0
    images_native: int = 0
    image_fallback_reasons: dict[str, int] = field(default_factory=dict)

    def left_to_pillow(self, reason: str) -> None:
        self.image_fallback_reasons[reason] = self.image_fallback_reasons.get(reason, 0) + 1

    @property
    def is_counting(self) -> bool:
        """Whether a counter is not 0."""
        return bool(self.images_opened or self.images_native or self.image_fallback_reasons)

    def take(self) -> dict[str, Any]:
        """Returns the counters since the last call, and resets them."""
        taken, self.__dict__ = self.__dict__, ImageTally().__dict__
        return taken


class _ThreadState(threading.local):
    tally: ImageTally | None = None
    is_forking_workers: bool = False


@dataclass
class _ProcessState:
    tally: ImageTally | None = None


# Tallies of the calling thread, if it has its own, and of all other threads, if they also work natively.
thread_state = _ThreadState()
process_state = _ProcessState()


def native_tally() -> ImageTally | None:
    """Returns the tally in which the calling thread counts; None if it leaves images to Pillow."""
    return thread_state.tally or process_state.tally
