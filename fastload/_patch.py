"""patch_torch(): replaces torch's DataLoader, so that code which names it gets fastload's.

The class itself is told to make the other one. To exchange its name in modules would miss those that have imported it
already, or import it in a function, and would break isinstance() for loaders made before.
"""

from __future__ import annotations

import functools
import inspect
import warnings
import weakref
from types import CodeType, FunctionType, TracebackType
from typing import Any

from fastload._loader._loader import DataLoader
from fastload._process._config import TorchDataLoader


class TorchPatch:
    """What :func:`patch_torch` returns: a context manager that has begun already, and a way to end it.

    One that has ended begins again with the next ``with`` block of it.

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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.undo()

    @property
    def is_active(self) -> bool:
        """Whether it has not been undone."""
        return self in _active

    def undo(self) -> None:
        """Ends this patch; a second call does nothing.

        torch's class is its own again when every patch has ended.
        """
        _active.discard(self)

    def __repr__(self) -> str:
        return f"<fastload.TorchPatch, {'active' if self.is_active else 'undone'}>"


# Those not undone. A set, because adding to one and taking from it need no lock that a forked child might find held.
_active: set[TorchPatch] = set()


def patch_torch() -> TorchPatch:
    """Makes ``torch.utils.data.DataLoader(...)`` return a fastload.DataLoader.

    For frameworks that make torch's loader themselves. torch's class stays where it is and makes the other object, so
    it does not matter who imported it, when, and by which name; isinstance(loader, torch.utils.data.DataLoader) holds
    for loaders of both kinds, made before, while and after. It is of the whole process, all of its threads included.

    Returns:
        A context manager: leaving its block, also by an exception, ends the patch. Called without ``with``, the patch
        holds until its ``undo()``. Patches may overlap: torch makes its own loaders again when all have ended. Loaders
        keep their class then; they stay usable.

    A class that derives from torch's makes objects that are its own and fastload.DataLoader's, where it does no more
    than ultralytics' InfiniteDataLoader and timm's MultiEpochsDataLoader do to keep an iterator over epochs. The rule:
    it has no base but torch's class and such classes; it overrides nothing but __init__, with (self, *args, **kwargs),
    __iter__, __len__, __del__, close and reset; and the code of these names nothing but what those two name.

    torchdata's ``StatefulDataLoader(...)`` returns a fastload.DataLoader, too, which has its ``state_dict()`` and
    ``load_state_dict()``; ``isinstance(loader, StatefulDataLoader)`` is False of it.

    What stays torch's: loaders of every other class that derives from torch's (with a warning for each class: derive
    it from fastload.DataLoader instead), loaders that exist already, a call with an argument that only torch's class
    has (with a warning) or that neither has (torch's TypeError), and processes that are spawned: call it there, too.
    Errors are those of fastload.DataLoader.

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
    """Gives torch's class a ``__new__`` that asks whether there is a patch; for good.

    A class that has had a ``__new__`` cannot have object's back: after a ``del``, CPython's object.__new__ refuses
    arguments.
    """

    def __new__(cls: Any, *args: Any, **kwargs: Any) -> Any:
        if _active and not issubclass(cls, DataLoader) and _is_for_fastload(cls, args, kwargs):
            if _is_torchdatas(cls):  # it overrides all that fastload's has, so this is no object of it
                return DataLoader(*args, **kwargs)
            # Python goes on with the __init__ of what is returned.
            cls = DataLoader if cls is TorchDataLoader else _fastload_class_of(cls)
        make = super(TorchDataLoader, cls).__new__
        return make(cls) if make is object.__new__ else make(cls, *args, **kwargs)

    # Tools that ask for the class's signature look at __new__ first.
    __new__.__signature__ = inspect.signature(TorchDataLoader.__init__)  # type: ignore[attr-defined]
    TorchDataLoader.__new__ = __new__  # type: ignore[method-assign]


def _is_for_fastload(cls: type[Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    if not args and not kwargs:
        return False  # a copy or a pickle of a loader of torch's makes its object so
    if (reason := _obstacle_of(cls)) is not None:
        _warn_of_class(cls, reason)
        return False
    unknown = kwargs.keys() - inspect.signature(DataLoader.__init__).parameters.keys()
    torchs = sorted(unknown & inspect.signature(TorchDataLoader.__init__).parameters.keys())
    if torchs:
        warnings.warn(
            f"torch.utils.data.DataLoader is not exchanged for fastload's in this call, because fastload.DataLoader "
            f"has no {', '.join(torchs)}: the loader is torch's own. Leave that argument out to get fastload's.",
            stacklevel=3,
        )
    return not unknown


# What Python itself puts into a class, and typing into one that derives from DataLoader[int].
_PLAIN_MEMBERS = frozenset(
    {
        *("__module__", "__qualname__", "__doc__", "__firstlineno__", "__static_attributes__"),
        *("__orig_bases__", "__parameters__"),
    }
)
_METHODS = frozenset({"__init__", "__iter__", "__len__", "__del__", "close", "reset"})
# Globals and attributes. Neither torch's class nor torch is among them, so its methods are called by super() or self.
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
    """Whether it is the loader with a state of torchdata, which need not be installed."""
    module, _, _ = cls.__module__.partition(".")
    return (module, cls.__qualname__) == ("torchdata", "StatefulDataLoader")


def _obstacle_of(cls: type[Any]) -> str | None:
    """Why objects of `cls` cannot be fastload's, as a clause; None where they can."""
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
        return f"its {name}() names {min(unknown)}"
    if name == "__init__" and not _passes_on(member):
        return "its __init__() does not hand all arguments to super().__init__()"
    return None


def _names_in(code: CodeType) -> set[str]:
    inner = (_names_in(constant) for constant in code.co_consts if isinstance(constant, CodeType))
    return set(code.co_names).union(*inner)


def _passes_on(init: FunctionType) -> bool:
    """Whether it takes (self, *args, **kwargs) and names super().__init__."""
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
    """A class of this name whose objects are loaders of `cls` and fastload's: super() in `cls` is fastload's."""

    def __reduce_ex__(self: Any, _protocol: Any) -> tuple[Any, ...]:
        return _new_object, (cls,), self.__getstate__()  # pickle would find `cls` by the name

    named = {name: getattr(cls, name) for name in ("__module__", "__qualname__", "__doc__")}
    return type(cls.__name__, (cls, DataLoader), {**named, "__reduce_ex__": __reduce_ex__})


def _new_object(cls: Any) -> Any:
    """What a copy or a pickle begins with."""
    kind = _fastload_class_of(cls)
    return kind.__new__(kind)
