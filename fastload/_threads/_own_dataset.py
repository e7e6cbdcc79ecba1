"""What a worker may have for itself of a dataset that threads share: attributes, where it is known to set them.

Note [own attributes]
A worker process has a copy of the dataset, so what it sets there is its own: in ``worker_init_fn``, by way of
``get_worker_info().dataset``, or while it iterates. Threads ask one object. worker_init_fn is given a shallow copy of
it in each thread, and a worker whose copy has other attributes behind the call goes on with that copy. What
``__iter__`` or the iterator set cannot be given back to those who have read it: they are warned of it.
"""

from __future__ import annotations

import copyreg
from typing import Any

from torch.utils.data import Dataset

# A dataset leads to more objects where it is a list of samples: those are not looked at.
_MAX_OBJECTS = 100
_COMPARED_BY_VALUE = (bool, int, float, complex, str, bytes, type(None))


def shallow_copy(dataset: Any) -> Any:
    """Another object of the same type with the same attributes; `dataset` itself where that may have side effects.

    No method of the dataset's is called: a forked process does not call any either.
    """
    kind = type(dataset)
    is_made_as_usual = kind.__new__ is object.__new__  # type: ignore[comparison-overlap]
    has_slots = bool(copyreg._slotnames(kind))  # type: ignore[attr-defined]
    if not is_made_as_usual or has_slots or hasattr(kind, "__del__") or not hasattr(dataset, "__dict__"):
        return dataset
    copied = object.__new__(kind)
    copied.__dict__.update(dataset.__dict__)
    return copied


def has_same_values(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether both have the same names, and the same objects for them."""
    return one.keys() == other.keys() and all(one[name] is other[name] for name in one)


def attributes(dataset: Any) -> dict[str, Any]:
    """What to compare the attributes of `dataset` with later, and of objects of its own package that it holds."""
    package = type(dataset).__module__.partition(".")[0]
    found: dict[str, Any] = {}
    left: list[tuple[str, Any]] = [("", dataset)]
    seen = {id(dataset)}
    while left:
        prefix, holder = left.pop()
        for name, value in tuple(vars(holder).items()):
            found[prefix + name] = value if type(value) in _COMPARED_BY_VALUE else id(value)
            is_known = id(value) in seen or len(seen) == _MAX_OBJECTS
            if not is_known and _has_attributes_of_its_own(value, package):
                seen.add(id(value))
                left.append((f"{prefix}{name}.", value))
    return found


def _has_attributes_of_its_own(value: Any, package: str) -> bool:
    kind = type(value)
    is_of_package = isinstance(value, Dataset) or kind.__module__.partition(".")[0] == package
    return is_of_package and not isinstance(value, type) and isinstance(getattr(value, "__dict__", None), dict)
