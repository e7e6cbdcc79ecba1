"""Where samples are kept, as CachedDataset asks for them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from typing import Any, Final


class _Missing:
    """In the place of a sample that is not kept."""


MISSING: Final = _Missing()


class Samples(ABC):
    """Samples by their keys; all worker threads share them. Thread-safe."""

    @property
    @abstractmethod
    def is_full(self) -> bool:
        """Whether no more are kept."""

    @abstractmethod
    def has(self, key: bytes) -> bool:
        """Whether one is kept; it may be damaged all the same."""

    @abstractmethod
    def get(self, key: bytes) -> Any:
        """The caller's own; MISSING where none is kept."""

    @abstractmethod
    def put(self, key: bytes, sample: Any) -> None:
        """Keeps one, if there is room. `sample` is not changed, and stays the caller's."""

    @abstractmethod
    def turn(self, key: bytes, *, waits: bool = True) -> AbstractContextManager[bool]:
        """In it the calling thread makes a sample: Note [who makes a sample]. False: somebody else does just now."""

    @abstractmethod
    def clear(self) -> None:
        """Keeps none any more."""

    @abstractmethod
    def describe(self) -> str:
        """Where they are and how many, for people."""
