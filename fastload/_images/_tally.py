"""Which threads work natively on images that the user's code opens, and what they count."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any


@dataclass
class ImageTally:
    """What one thread has opened, by the names of LoaderStats. Other threads may add to it."""

    images_opened: int = 0
    images_native: int = 0
    image_fallback_reasons: dict[str, int] = field(default_factory=dict)

    def left_to_pillow(self, reason: str) -> None:
        self.image_fallback_reasons[reason] = self.image_fallback_reasons.get(reason, 0) + 1

    @property
    def is_counting(self) -> bool:
        """Whether there is something to take."""
        return bool(self.images_opened or self.images_native or self.image_fallback_reasons)

    def take(self) -> dict[str, Any]:
        """The numbers since the last call."""
        taken, self.__dict__ = self.__dict__, ImageTally().__dict__
        return taken


class _OfThread(threading.local):
    tally: ImageTally | None = None


@dataclass
class _OfProcess:
    tally: ImageTally | None = None


# Of the calling thread, where it has one of its own; and of all others, where they work natively as well.
of_thread = _OfThread()
of_process = _OfProcess()


def native_tally() -> ImageTally | None:
    """Where the calling thread counts; None where it leaves images to Pillow."""
    return of_thread.tally or of_process.tally
