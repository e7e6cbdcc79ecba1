"""Programs of classes that cannot be copied or have finalizers, and of exceptions that are kept."""

from __future__ import annotations

import weakref
from typing import Any

from program import Chapter, Counter, Setting, Transformed

CLASSES = Chapter()


class Hostile(Counter):
    """An object that loses its count when it is copied or pickled."""

    def __deepcopy__(self, _memo: Any) -> Any:
        return Hostile()

    def __copy__(self) -> Any:
        return Hostile()

    def __reduce_ex__(self, _protocol: Any) -> Any:
        return Hostile, ()

    def __getstate__(self) -> Any:
        return {"calls": -1000}

    def __setstate__(self, state: Any) -> None:
        raise RuntimeError("must not be restored")


@CLASSES.program
def a_class_that_copies_itself_wrongly() -> Any:
    """Uses a class with __deepcopy__, __reduce_ex__ and __getstate__ that forget."""
    counter = Hostile()
    counter.calls = 40
    return Setting(Transformed(counter), after_epoch=lambda: counter.calls)


@CLASSES.program
def a_class_with_a_finalizer() -> Any:
    """Uses a class with a __del__ that closes what the program goes on using."""

    class Handle:
        def __init__(self) -> None:
            self.opened = [True]
            self.reads = 0

        def __call__(self, _index: int) -> Any:
            self.reads += 1
            return self.opened[0], self.reads

        def __del__(self) -> None:
            self.opened[0] = False
            closed.append(self.reads)

    closed: list[int] = []
    handle = Handle()
    return Setting(Transformed(handle), after_epoch=lambda: (handle.opened, handle.reads, list(closed)))


@CLASSES.program
def weakref_finalize() -> Any:
    """Uses weakref.finalize on an object of the dataset, which must not run when the worker ends."""
    ended: list[int] = []
    counter = Counter()
    finalizer = weakref.finalize(counter, ended.append, 1)
    return Setting(
        Transformed(lambda index: (counter(index), finalizer is not None)),
        after_epoch=lambda: (list(ended), finalizer.alive),
    )


@CLASSES.program
def an_error_prepared_by_the_program() -> Any:
    """Keeps an exception object of the program's, to which samples add notes by attribute."""
    error = LookupError("prepared")
    error.seen = []  # type: ignore[attr-defined]

    def transform(index: int) -> Any:
        error.seen.append(index)  # type: ignore[attr-defined]
        if len(error.seen) == 9:  # type: ignore[attr-defined]
            raise error
        return len(error.seen)  # type: ignore[attr-defined]

    return Setting(Transformed(transform), after_epoch=lambda: error.seen)  # type: ignore[attr-defined]
