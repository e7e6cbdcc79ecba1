"""The progress of a loader's last iteration, and a state that was loaded for the next one."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from fastload._iteration._saved_state import SavedState


class Progress:
    """The progress of a loader. It does not keep the iterator alive.

    Attributes:
        loaded: The dict passed to load_state_dict(), and the state read from it; None after an iteration has begun.
        resumed: Resume point of the iteration that is being made; None: the start of an epoch.
        left: Makes the state in which the last iterator was deleted; None while it lives, and if there was none.
        has_begun: Whether an iteration has begun since the loader was made or a state was loaded.
        epoch: Epoch of the next iteration.
        asked_epoch: Last argument of the loader's set_epoch() since an iteration began; None if it was not called.
        begun: An iteration that state_dict() has begun and the next iter() returns.
    """

    def __init__(self, epoch: int = 0) -> None:
        self.epoch = epoch
        self.asked_epoch: int | None = None
        self.loaded: tuple[dict[str, Any], SavedState] | None = None
        self.resumed: SavedState | None = None
        self.left: Callable[[], SavedState] | None = None
        self.has_begun = False
        self.begun: Any = None
        self._iterator: weakref.ref[Any] | None = None
        self._identity = 0

    def begin(self, iterator: Any) -> None:
        """Notes that `iterator` has begun an epoch."""
        self.loaded, self.resumed, self.left, self.has_begun = None, None, None, True
        self.asked_epoch = None
        self._iterator, self._identity = weakref.ref(iterator), id(iterator)

    def load(self, state: dict[str, Any] | None, saved: SavedState | None) -> None:
        """Makes the next iteration resume from a state; with None, forgets any iteration and state."""
        self.loaded = None if state is None or saved is None else (state, saved)
        self.left, self.has_begun, self.begun, self._iterator, self._identity = None, False, None, None, 0

    @property
    def iterator(self) -> Any:
        """The iterator of the last iteration; None if it was deleted."""
        return None if self._iterator is None else self._iterator()

    def is_latest(self, iterator: Any) -> bool:
        """Returns whether `iterator` began last. It is being deleted, so a weak reference no longer finds it."""
        return self._identity == id(iterator)
