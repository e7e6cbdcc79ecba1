"""patch_torch(): code that makes torch's DataLoader by its name gets fastload's.

The class itself is told to make the other one. To exchange its name in modules would miss those that have imported it
already, or import it in a function, and would break isinstance() for loaders made before.
"""

from __future__ import annotations

import functools
import inspect
import warnings
from types import TracebackType
from typing import Any

from fastload._loader._loader import DataLoader
from fastload._process._config import TorchDataLoader


class TorchPatch:
    """What :func:`patch_torch` returns: a context manager that has begun already, and a way to end it.

    One that has ended begins again with the next ``with`` block of it.
    """

    def __enter__(self) -> TorchPatch:
        _active.add(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.undo()

    @property
    def is_active(self) -> bool:
        """Whether it has not been undone."""
        return self in _active

    def undo(self) -> None:
        """Ends this patch; a second call does nothing. torch's class is its own again when every patch has ended."""
        _active.discard(self)

    def __repr__(self) -> str:
        return f"<fastload.TorchPatch, {'active' if self.is_active else 'undone'}>"


# Those not undone. A set, because adding to one and taking from it need no lock that a forked child might find held.
_active: set[TorchPatch] = set()


def patch_torch() -> TorchPatch:
    """Make ``torch.utils.data.DataLoader(...)`` return a fastload.DataLoader.

    For frameworks that make torch's loader themselves. torch's class stays where it is and makes the other object, so
    it does not matter who imported it, when, and by which name; isinstance(loader, torch.utils.data.DataLoader) holds
    for loaders of both kinds, made before, while and after. It is of the whole process, all of its threads included.

    Returns:
        A context manager: leaving its block, also by an exception, ends the patch. Called without ``with``, the patch
        holds until its ``undo()``. Patches may overlap: torch makes its own loaders again when all have ended. Loaders
        keep their class then; they stay usable.

    What stays torch's: loaders of classes that derive from torch's (derive them from fastload.DataLoader instead),
    loaders that exist already, a call with an argument that only torch's class has (with a warning) or that neither
    has (torch's TypeError), and processes that are spawned: call it there, too. Errors are those of
    fastload.DataLoader.

    Example:
        >>> with fastload.patch_torch():
        ...     trainer.train()
    """
    _install()
    patch = TorchPatch()
    _active.add(patch)
    return patch


@functools.cache
def _install() -> None:
    """Gives torch's class a ``__new__`` that asks whether there is a patch; for good.

    A class that has had a ``__new__`` cannot have object's back: after a ``del``, CPython's object.__new__ refuses
    arguments.
    """

    def __new__(cls: type[Any], *args: Any, **kwargs: Any) -> Any:
        if cls is TorchDataLoader and _active and _is_for_fastload(args, kwargs):
            cls = DataLoader  # Python goes on with the __init__ of what is returned
        make = super(TorchDataLoader, cls).__new__
        return make(cls) if make is object.__new__ else make(cls, *args, **kwargs)

    # Tools that ask for the class's signature look at __new__ first.
    __new__.__signature__ = inspect.signature(TorchDataLoader.__init__)  # type: ignore[attr-defined]
    TorchDataLoader.__new__ = __new__  # type: ignore[method-assign]


def _is_for_fastload(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    if not args and not kwargs:
        return False  # a copy or a pickle of a loader of torch's makes its object so
    unknown = kwargs.keys() - inspect.signature(DataLoader.__init__).parameters.keys()
    torchs = sorted(unknown & inspect.signature(TorchDataLoader.__init__).parameters.keys())
    if torchs:
        warnings.warn(
            f"torch.utils.data.DataLoader is not exchanged for fastload's in this call, because fastload.DataLoader "
            f"has no {', '.join(torchs)}: the loader is torch's own. Leave that argument out to get fastload's.",
            stacklevel=3,
        )
    return not unknown
