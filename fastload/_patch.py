"""patch_torch(): replaces torch's DataLoader, so that code which names it gets fastload's.

The patch makes torch's class create the other one. Replacing its name in modules would miss modules that have imported
it already or import it in a function, and would break isinstance() for older loaders.
"""

from __future__ import annotations

import functools
import inspect
import warnings
import weakref
from types import CodeType, FunctionType
from typing import Any

from fastload._loader._loader import DataLoader
from fastload._process._config import TorchDataLoader


class TorchPatch:
    """The return value of :func:`patch_torch`: a context manager that is already active, with an undo().

    After its end it becomes active again with its next ``with`` block.

    Example:
        >>> patch = fastload.patch_torch()
        >>> loader = torch.utils.data.DataLoader(dataset)
        >>> patch.undo()
        >>> isinstance(loader, fastload.DataLoader), patch.is_active
        (True, False)
    """

    def __enter__(self) -> TorchPatch:
        _active.add(self)
        return self

    def __exit__(self, *exception: object) -> None:
        self.undo()

    @property
    def is_active(self) -> bool:
        """Whether it has not been undone."""
        return self in _active

    def undo(self) -> None:
        """Ends this patch; a second call does nothing.

        torch's class makes its own objects again once every patch has ended.
        """
        _active.discard(self)

    def __repr__(self) -> str:
        return f"<fastload.TorchPatch, {'active' if self.is_active else 'undone'}>"


# The active patches. Adding to a set and removing from it need no lock, which a forked child might find held.
_active: set[TorchPatch] = set()


def patch_torch() -> TorchPatch:
    """Makes ``torch.utils.data.DataLoader(...)`` return a fastload.DataLoader.

    This is for frameworks that make torch's loader themselves. torch's class stays in place and creates the other
    object, so it does not matter which code imported it, when, and by which name. For both kinds of loaders, made
    before, during and after the patch, isinstance(loader, torch.utils.data.DataLoader) holds. The patch applies to all
    threads of the process.

    Returns:
        A context manager: leaving its block, also by an exception, ends the patch. Without ``with`` the patch lasts
        until its ``undo()``. Patches may overlap: torch makes its own loaders again once all have ended. Loaders then
        keep their class and stay usable.

    Objects of a class that derives from torch's also become fastload.DataLoader's if the class does no more than
    ultralytics' InfiniteDataLoader and timm's MultiEpochsDataLoader do to keep an iterator over epochs. The rule: it
    has no bases but torch's class and such classes; it overrides only __init__, with (self, *args, **kwargs), __iter__,
    __len__, __del__, close and reset; and the code of these methods uses only names that those two classes use.

    torchdata's ``StatefulDataLoader(...)`` returns a fastload.DataLoader, too, which has its ``state_dict()`` and
    ``load_state_dict()``; ``isinstance(loader, StatefulDataLoader)`` is then False.

    The following stay torch's: loaders of all other classes that derive from torch's (with a warning per class: derive
    it from fastload.DataLoader instead), existing loaders, a call with an argument that only torch's class has (with a
    warning) or that neither has (torch's TypeError), and spawned processes: call it there, too. Errors are those that
    fastload.DataLoader raises.

    Example:
        >>> with fastload.patch_torch():
        ...     loader = torch.utils.data.DataLoader(dataset, batch_size=4)
        >>> isinstance(loader, fastload.DataLoader)
        True
    """
    _install()
    patch = TorchPatch()
    _active.add(patch)
    return patch


@functools.cache
def _install() -> None:
    """Gives torch's class a permanent ``__new__`` that checks whether there is a patch.

    A class that has had a ``__new__`` cannot get object's back: after a ``del``, CPython's object.__new__ refuses
    arguments.
    """

    def __new__(cls: Any, *args: Any, **kwargs: Any) -> Any:
        if _active and not issubclass(cls, DataLoader) and _is_for_fastload(cls, args, kwargs):
            if _is_torchdatas(cls):  # it overrides all methods of fastload's class, so its objects are not fastload's
                return DataLoader(*args, **kwargs)
            # Python continues with the __init__ of the returned object.
            cls = DataLoader if cls is TorchDataLoader else _fastload_class_of(cls)
        make = super(TorchDataLoader, cls).__new__
        return make(cls) if make is object.__new__ else make(cls, *args, **kwargs)

    # Tools that read the class's signature look at __new__ first.
    __new__.__signature__ = inspect.signature(TorchDataLoader.__init__)  # type: ignore[attr-defined]
    TorchDataLoader.__new__ = __new__  # type: ignore[method-assign]


def _is_for_fastload(cls: type[Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    if not args and not kwargs:
        return False  # copying or unpickling one of torch's loaders creates its object this way
    if (reason := _obstacle_of(cls)) is not None:
        _warn_of_class(cls, reason)
        return False
    unknown = kwargs.keys() - inspect.signature(DataLoader.__init__).parameters.keys()
    torchs = sorted(unknown & inspect.signature(TorchDataLoader.__init__).parameters.keys())
    if torchs:
        warnings.warn(
            f"torch.utils.data.DataLoader does not return fastload's in this call, because fastload.DataLoader has no "
            f"{', '.join(torchs)}: the loader is torch's own. Leave that argument out to get fastload's.",
            stacklevel=3,
        )
    return not unknown


# Members that Python itself puts into a class, and typing into one that derives from DataLoader[int].
_PLAIN_MEMBERS = frozenset(
    {
        *("__module__", "__qualname__", "__doc__", "__firstlineno__", "__static_attributes__"),
        *("__orig_bases__", "__parameters__"),
    }
)
_METHODS = frozenset({"__init__", "__iter__", "__len__", "__del__", "close", "reset"})
# Globals and attributes. They include neither torch's class nor torch, so its methods are called by super() or self.
_NAMES = frozenset(
    {
        *("Exception", "_RepeatSampler", "getattr", "hasattr", "len", "next", "object", "range", "super"),
        *("TORCH_1_13", "TORCH_2_0", "TORCH_2_7"),
        *("__init__", "__iter__", "__setattr__", "_DataLoader__initialized", "_get_iterator"),
        *("batch_sampler", "close", "iterator", "pop", "sampler"),
        *("_shutdown_workers", "_workers", "is_alive", "terminate"),
    }
)


def _is_torchdatas(cls: type[Any]) -> bool:
    """Returns whether it is torchdata's loader with a state; torchdata need not be installed."""
    module, _, _ = cls.__module__.partition(".")
    return (module, cls.__qualname__) == ("torchdata", "StatefulDataLoader")


def _obstacle_of(cls: type[Any]) -> str | None:
    """Returns why objects of `cls` cannot be fastload's, as a clause; None if they can."""
    if _is_torchdatas(cls):
        return None
    for base in cls.__mro__:
        if base in TorchDataLoader.__mro__:
            continue
        if not issubclass(base, TorchDataLoader):
            return f"it also derives from {base.__qualname__}"
        for name, member in vars(base).items():
            if name not in _PLAIN_MEMBERS and (reason := _obstacle_of_member(name, member)) is not None:
                return reason
    return None


def _obstacle_of_member(name: str, member: object) -> str | None:
    if name not in _METHODS or not isinstance(member, FunctionType):
        return f"it defines {name}"
    if unknown := _names_in(member.__code__) - _NAMES:
        return f"its {name}() uses {min(unknown)}"
    if name == "__init__" and not _passes_on(member):
        return "its __init__() does not pass all arguments to super().__init__()"
    return None


def _names_in(code: CodeType) -> set[str]:
    inner = (_names_in(constant) for constant in code.co_consts if isinstance(constant, CodeType))
    return set(code.co_names).union(*inner)


def _passes_on(init: FunctionType) -> bool:
    """Returns whether it takes (self, *args, **kwargs) and names super().__init__."""
    code = init.__code__
    takes_all = bool(code.co_flags & inspect.CO_VARARGS and code.co_flags & inspect.CO_VARKEYWORDS)
    has_others = code.co_argcount != 1 or code.co_kwonlyargcount
    return takes_all and not has_others and {"super", "__init__"} <= set(code.co_names)


_warned_of: weakref.WeakSet[type[Any]] = weakref.WeakSet()


def _warn_of_class(cls: type[Any], reason: str) -> None:
    if cls not in _warned_of:
        _warned_of.add(cls)
        warnings.warn(
            f"loaders of {cls.__module__}.{cls.__qualname__} stay torch's under fastload.patch_torch(): {reason}. "
            "Derive the class from fastload.DataLoader to get fastload's.",
            stacklevel=4,
        )


@functools.cache
def _fastload_class_of(cls: type[Any]) -> Any:
    """Returns a class named like `cls` that derives from `cls` and fastload's: super() in `cls` is fastload's."""

    def __reduce_ex__(self: Any, _protocol: Any) -> tuple[Any, ...]:
        return _new_object, (cls,), self.__getstate__()  # by the name, pickle would find `cls`

    named = {name: getattr(cls, name) for name in ("__module__", "__qualname__", "__doc__")}
    return type(cls.__name__, (cls, DataLoader), {**named, "__reduce_ex__": __reduce_ex__})


def _new_object(cls: Any) -> Any:
    """Creates the object with which copying and unpickling begin."""
    kind = _fastload_class_of(cls)
    return kind.__new__(kind)
