"""What a loader knows of the iteration that began last, and of a state that was loaded for the next one."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from fastload._resume._saved_state import SavedState


class Progress:
    """It keeps no iterator.

    Attributes:
        loaded: What load_state_dict() was given, and that as it was read; None: nothing since an iteration began.
        beginning: Where the iteration begins that is being made; None: at the beginning of an epoch.
        left: Makes the state in which the iteration was let go of; None while it lives, and where there is none.
        has_begun: Whether there is or was an iteration, since the loader was made or a state was loaded.
        epoch: Of the next iteration.
        asked_epoch: What set_epoch() of the loader was given since an iteration began; None: nothing.
        begun: An iteration that state_dict() has begun, and that the next iter() gives.
    """

    def __init__(self, epoch: int = 0) -> None:
        self.epoch = epoch
        self.asked_epoch: int | None = None
        self.loaded: tuple[dict[str, Any], SavedState] | None = None
        self.beginning: SavedState | None = None
        self.left: Callable[[], SavedState] | None = None
        self.has_begun = False
        self.begun: Any = None
        self._iterator: weakref.ref[Any] | None = None
        self._identity = 0

    def begin(self, iterator: Any) -> None:
        """Called when `iterator` has begun an epoch."""
        self.loaded, self.beginning, self.left, self.has_begun = None, None, None, True
        self.asked_epoch = None
        self._iterator, self._identity = weakref.ref(iterator), id(iterator)

    def load(self, state: dict[str, Any] | None, saved: SavedState | None) -> None:
        """Called where the next iteration begins there; with None as if there had been none."""
        self.loaded = None if state is None or saved is None else (state, saved)
        self.left, self.has_begun, self.begun, self._iterator, self._identity = None, False, None, None, 0

    @property
    def iterator(self) -> Any:
        """Of the iteration that began last; None: it was let go of."""
        return None if self._iterator is None else self._iterator()

    def is_latest(self, iterator: Any) -> bool:
        """Whether `iterator`, which is being let go of, has begun last: nothing refers to it weakly any more."""
        return self._identity == id(iterator)
