"""The exceptions fastload raises.

    Exception
    └── FastloadError
        ├── SampleError                     one sample is bad; the iterator stays usable
        │   └── SampleError[X]              the same, and an X: also caught by ``except X``
        ├── TooManyErrors                   (RuntimeError) more samples are bad than max_errors allows
        ├── DeviceError                     (RuntimeError) a batch did not reach its device
        ├── StateError                      (ValueError, AssertionError) a saved state does not fit, or there is none
        ├── LoaderClosedError               (RuntimeError) used after close()
        └── ForkedProcessError              (RuntimeError) used in a child of the process that made it

Argument errors are ValueError, TypeError and IndexError, as torch raises them.
"""

from __future__ import annotations

import errno as errno_names
import functools
import os
import pickle
import types
from typing import Any, Literal

Stage = Literal["open", "read", "header", "decode", "limit", "transform"]

_NEXT_STEPS: dict[str, str] = {
    "open": "Check that the file still exists and may be read, or index the folder again.",
    "read": "Check the storage that holds the file; the next batch can still be requested.",
    "header": "Remove or replace the file; the next batch can still be requested.",
    "decode": "Remove or replace the file; the next batch can still be requested.",
    "limit": "If you trust the file, raise PIL.Image.MAX_IMAGE_PIXELS.",
    "transform": "Run the transform on this file alone to see why.",
}

# A combined class must not steer control flow: a StopIteration that leaves next() ends the epoch silently.
_NEVER_COMBINED = (StopIteration, StopAsyncIteration)


class FastloadError(Exception):
    """Base of fastload's own errors.

    Argument errors are Python's: ValueError, TypeError and the like, as torch raises them.
    """


class LoaderClosedError(FastloadError, RuntimeError):
    """The loader or iterator was closed; iter() of the loader makes a new one.

    It is a RuntimeError, too.

    Example:
        >>> loader = fastload.DataLoader(dataset, batch_size=4, num_workers=2)
        >>> iterator = iter(loader)
        >>> loader.close()
        >>> try:
        ...     next(iterator)
        ... except fastload.LoaderClosedError:
        ...     iterator = iter(loader)
    """


class ForkedProcessError(FastloadError, RuntimeError):
    """A loader or iterator is used in another process than the one that made it.

    It is a RuntimeError, too. The message names both processes and says what to do.

    Args:
        what: Name of the object, which begins the message, for example ``"DataLoader iterator"``.
        owner_pid: Process that created it.

    Example:
        >>> raise fastload.ForkedProcessError("DataLoader iterator", 17)
        Traceback (most recent call last):
        fastload._errors.ForkedProcessError: DataLoader iterator was created in another process (pid 17); ...
    """

    def __init__(self, what: str, owner_pid: int) -> None:
        self.what = what
        self.owner_pid = owner_pid
        super().__init__(what, owner_pid)

    def __str__(self) -> str:
        return (
            f"{self.what} was created in another process (pid {self.owner_pid}); its workers do not belong to this one "
            f"(pid {os.getpid()}). Create the loader after the fork, or call iter() on it again in this process."
        )


class TooManyErrors(FastloadError, RuntimeError):
    """More samples are bad than ``max_errors`` allows, so the run should end: each later next() raises it again.

    It is a RuntimeError, too. Let it end the process: a launcher such as torchrun then ends the other ranks as well,
    which would otherwise wait for this one.

    Args:
        num_failed: Samples that could not be loaded, in all batches delivered since the process began.
        num_samples: Samples of these batches.
        max_errors: The allowed share.
        kinds: Up to five pairs (stage and cause of failures, count), the most frequent first.

    Example:
        >>> loader = fastload.DataLoader(dataset, batch_size=4, on_error="replace", max_errors=0.05)
        >>> try:
        ...     for images, labels in loader:
        ...         train(images, labels)
        ... except fastload.TooManyErrors as error:
        ...     raise SystemExit(f"the data set is broken: {error}")
    """

    def __init__(
        self, num_failed: int, num_samples: int, max_errors: float, kinds: tuple[tuple[str, int], ...]
    ) -> None:
        self.num_failed = num_failed
        self.num_samples = num_samples
        self.max_errors = max_errors
        self.kinds = kinds
        super().__init__(num_failed, num_samples, max_errors, kinds)

    def __str__(self) -> str:
        share = f"{self.num_failed / max(1, self.num_samples):.2%}"
        kinds = ", ".join(f"{kind} ({count:,})" for kind, count in self.kinds)
        return (
            f"{self.num_failed:,} of {self.num_samples:,} samples could not be loaded ({share}), more than "
            f"max_errors={self.max_errors} allows. Most frequent: {kinds}. Repair the data (`fastload check FOLDER` "
            "lists bad files), or raise max_errors"
        )


class StateError(FastloadError, ValueError, AssertionError):
    """A saved state does not fit the loader, or the loader has none; the message names the field and what to do.

    It is a ValueError, and an AssertionError, which torchdata's StatefulDataLoader raises. If load_state_dict() raises
    it, nothing has been changed.

    Args:
        field: Field of the state, for example "fastload.num_workers".
        problem: The problem, as a clause that follows the field.
        next_step: The next step, as a sentence; None if nothing helps.

    Example:
        >>> state = fastload.DataLoader(dataset, batch_size=4, rng="sample").state_dict()
        >>> try:
        ...     fastload.DataLoader(dataset, batch_size=4).load_state_dict(state)
        ... except fastload.StateError as error:
        ...     print(error.field)
        fastload.rng
    """

    def __init__(self, field: str, problem: str, next_step: str | None = None) -> None:
        self.field = field
        self.problem = problem
        self.next_step = next_step
        super().__init__(field, problem, next_step)

    def __reduce__(self) -> tuple[Any, ...]:
        cause = self.__cause__ if _survives_pickling(self.__cause__) else None
        return type(self), (self.field, self.problem, self.next_step), {**vars(self), "__cause__": cause}

    def __str__(self) -> str:
        end = "" if self.next_step is None else f". {self.next_step[0].upper()}{self.next_step[1:]}"
        return f"{self.field}: {self.problem}{end}"


class DeviceError(FastloadError, RuntimeError):
    """A batch did not reach its device; the message has its number and bytes, the stream, and what to do.

    It is a RuntimeError, too. After most such errors the process cannot use the device any more, and the message says
    so. If the device runs out of memory, torch's OutOfMemoryError is raised instead.

    Example:
        >>> loader = fastload.DataLoader(dataset, batch_size=4, num_workers=2, device="cuda")
        >>> try:
        ...     for images, labels in loader:
        ...         train(images, labels)
        ... except fastload.DeviceError as error:
        ...     raise SystemExit(f"start again from the last checkpoint: {error}")
    """


class SampleError(FastloadError):
    """One sample could not be delivered; the next next() gives the next batch.

    An instance also derives from the type of its cause if Python allows it, so ``except FileNotFoundError`` catches
    it as with torch's DataLoader. `sample_error` makes instances.

    Attributes:
        path: File name as str; bytes that are not UTF-8 are surrogate escapes, so ``os.fsencode(path)`` is the file.
        index: Dataset index.
        stage: Stage of the failure: "open", "read", "header", "decode", "limit" or "transform".
        offset: Byte of the file at which the fault shows, or None.
        errno: The system's error number, or None.
        cause: The original exception (also ``__cause__``), or None if only a status is known.

    Example:
        >>> files = fastload.ImageFiles(["cat.jpg", "missing.jpg", "cat.jpg"], [0, 1, 2], transform)
        >>> iterator = iter(fastload.DataLoader(files))
        >>> found = []
        >>> while True:
        ...     try:
        ...         images, labels = next(iterator)
        ...         found.append(labels.item())
        ...     except fastload.SampleError as error:
        ...         found.append((error.stage, error.index, error.path, isinstance(error, FileNotFoundError)))
        ...     except StopIteration:
        ...         break
        >>> found
        [0, ('open', 1, 'missing.jpg', True), 2]
    """

    # Class-level defaults: a cause class may have read-only attributes with these names, and this class comes first.
    path: str = ""
    index: int = -1
    stage: str = "decode"
    offset: int | None = None
    errno: int | None = None
    cause: BaseException | None = None
    _message: str = ""

    def __str__(self) -> str:
        return self._message

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._message!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        cause = self.cause if _survives_pickling(self.cause) else None
        mixin = getattr(type(self), "_mixin", None)
        if not _survives_pickling(mixin):
            mixin = None
        fields = {name: getattr(self, name) for name in ("path", "index", "stage", "offset", "errno", "_message")}
        return _rebuild, (mixin, cause, fields)


def sample_error(
    index: int,
    path: str | bytes,
    stage: Stage,
    cause: BaseException | str,
    *,
    offset: int | None = None,
    detail: str | None = None,
    next_step: str | None = None,
) -> SampleError:
    """Builds the error of one sample, ready to be raised.

    `cause` is the original exception, or the text of a native status. The error has an exception as ``__cause__`` and
    takes its attributes. It also derives from ``type(cause)``, so that ``except`` clauses for it keep working, unless
    the two cannot be combined or the cause steers control flow (StopIteration, KeyboardInterrupt and the like).
    `detail` is a clause that follows the cause's text, for example the file's first bytes, and `next_step` a sentence
    that says what to do, by default the stage's.
    """
    name = os.fsdecode(path)
    original = cause if isinstance(cause, BaseException) else None
    errno = getattr(original, "errno", None)
    text = cause if isinstance(cause, str) else _cause_text(cause)
    fields: dict[str, Any] = {"path": name, "index": index, "stage": stage, "offset": offset}
    fields["errno"] = errno if isinstance(errno, int) else None
    where = f" (at byte {offset})" if offset is not None else ""
    extra = f" ({detail})" if detail else ""
    body = f"sample {index} ({name!r}): {stage}: {text.rstrip('.')}{where}{extra}. {next_step or _NEXT_STEPS[stage]}"
    # Printing lone surrogates to a UTF-8 stream would raise.
    fields["_message"] = body.encode("utf-8", "backslashreplace").decode()
    return _rebuild(None if original is None else type(original), original, fields)


def _rebuild(mixin: type[BaseException] | None, cause: BaseException | None, fields: dict[str, Any]) -> SampleError:
    error = _instance(SampleError if mixin is None else _combined_class(mixin))  # type: ignore[arg-type]
    if cause is not None:
        _copy_attributes(cause, error)
        # _copy_attributes copies a cause's own slots and properties; these are ours.
        error.__cause__ = cause
    error.__dict__.update(fields)
    error.__dict__["cause"] = cause
    error.args = (fields["_message"],)
    return error


@functools.lru_cache(maxsize=256)
def _combined_class(mixin: type[BaseException]) -> type[SampleError]:
    """Returns the class that derives from SampleError and `mixin`, or SampleError if there can be none."""
    if issubclass(mixin, SampleError):
        return mixin
    if not issubclass(mixin, Exception) or issubclass(mixin, _NEVER_COMBINED):
        return SampleError
    try:
        members = {"__module__": SampleError.__module__, "__doc__": SampleError.__doc__, "_mixin": mixin}
        make_class: Any = type(mixin)
        combined: type[SampleError] = make_class(f"SampleError[{mixin.__name__}]", (SampleError, mixin), members)
        _instance(combined)
    except Exception:  # noqa: BLE001 - foreign metaclasses and __init_subclass__ may refuse in any way
        return SampleError
    return combined


def _instance(cls: type[SampleError]) -> SampleError:
    """Returns an instance without calling any Python ``__init__`` or ``__new__``, whose arguments are unknown."""
    heap_type_flag = 1 << 9
    # The chain of layouts, not the MRO: CPython accepts no other built-in type's __new__ for a class.
    layout: Any = cls
    while layout.__flags__ & heap_type_flag:
        layout = layout.__base__
    error: SampleError = layout.__new__(cls)
    return error


def _copy_attributes(source: BaseException, target: SampleError) -> None:
    """Copies what user code may read from `source`: its attributes, its slots and the C members of built-in types.

    Descriptors are called directly because SampleError's own attributes hide those with the same name.
    """
    target.__dict__.update(getattr(source, "__dict__", {}))
    for base in type(source).__mro__:
        if not isinstance(target, base):
            continue
        for descriptor in vars(base).values():
            if isinstance(descriptor, types.MemberDescriptorType):
                try:
                    descriptor.__set__(target, descriptor.__get__(source))
                except (AttributeError, TypeError):  # unset slot, or a read-only member
                    continue


def _cause_text(cause: BaseException) -> str:
    """Returns the cause's message without a second copy of the path; its class name if there is none."""
    if isinstance(cause, OSError) and isinstance(cause.errno, int):
        name = errno_names.errorcode.get(cause.errno, f"errno {cause.errno}")
        return f"{cause.strerror or os.strerror(cause.errno)} ({name})"
    try:
        text = str(cause)
    except Exception as error:  # noqa: BLE001 - a broken __str__ must not hide which sample failed
        text = f"({type(cause).__name__}.__str__ raised {type(error).__name__})"
    return text or type(cause).__name__


def _survives_pickling(value: object) -> bool:
    """Returns whether `value` pickles and unpickles; many exception classes only pickle."""
    try:
        pickle.loads(pickle.dumps(value))
    except Exception:  # noqa: BLE001 - the value's own code decides what is raised
        return False
    return True
