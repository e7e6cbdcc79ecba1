"""Programs that keep state between samples: counters, caches and buffers on objects, in slots and in closures."""

from __future__ import annotations

import collections
import threading
import types
from typing import Any

import torch
from numbered import Numbered
from program import Chapter, Setting, Transformed

STATE = Chapter()


@STATE.program
def two_closures_on_one_variable() -> Any:
    """Uses a function that writes what another one reads."""
    total = 0

    def write(index: int) -> int:
        nonlocal total
        total += index
        return total

    def read(samples: Any) -> Any:
        return torch.utils.data.default_collate(samples), total

    return Setting(Transformed(write), {"collate_fn": read}, after_epoch=lambda: total)


@STATE.program
def containers_of_other_types() -> Any:
    """Uses defaultdict, Counter, OrderedDict and a bytearray."""
    groups: Any = collections.defaultdict(list)
    counter: Any = collections.Counter("a")
    order: Any = collections.OrderedDict(a=1, b=2, c=3)
    raw = bytearray(b"\x00\x01\x02")

    def transform(index: int) -> Any:
        groups[index % 3].append(index)
        counter["abc"[index % 3]] += 1
        order.move_to_end("abc"[index % 3])
        raw[index % 3] += 1
        return len(groups[index % 3]), counter.most_common(1)[0][1], "".join(order), list(raw)

    return Setting(Transformed(transform), after_epoch=lambda: (dict(groups), dict(counter), list(order), bytes(raw)))


@STATE.program
def derived_containers() -> Any:
    """Classes derived from list, dict, set and deque, with attributes."""

    class Items(list):  # type: ignore[type-arg]
        total = 0

        def append(self, item: Any) -> None:
            self.total += item
            super().append(item)

    class Table(dict):  # type: ignore[type-arg]
        misses = 0

        def __missing__(self, key: Any) -> int:
            self.misses += 1
            self[key] = self.misses
            return self.misses

    class Seen(set):  # type: ignore[type-arg]
        __slots__ = ("last",)

    class Recent(collections.deque):  # type: ignore[type-arg]
        pass

    items, table, seen, recent = Items([1]), Table(), Seen(), Recent([0], 3)
    seen.last = 0  # type: ignore[attr-defined]

    def transform(index: int) -> Any:
        items.append(index)
        recent.appendleft(index)
        seen.add(index % 6)
        previous, seen.last = seen.last, index  # type: ignore[attr-defined]
        return items.total, len(items), table[index % 4], table.misses, len(seen), previous, str(list(recent))

    return Transformed(transform)


@STATE.program
def slots() -> Any:
    """Uses a class that has slots and no __dict__, and one that has both."""

    class Slotted:
        __slots__ = ("calls", "unset")

        def __init__(self) -> None:
            self.calls = 0

    class Both(Slotted):
        def __init__(self) -> None:
            super().__init__()
            self.extra: list[int] = []

    slotted, both = Slotted(), Both()

    def transform(index: int) -> Any:
        slotted.calls += 1
        both.calls += index
        both.extra.append(index)
        return slotted.calls, both.calls, len(both.extra), hasattr(both, "unset")

    return Transformed(transform)


@STATE.program
def a_named_tuple_with_a_list() -> Any:
    """Uses a tuple that leads to a list."""

    class Pair(tuple):  # type: ignore[type-arg]
        __slots__ = ()

    Point = collections.namedtuple("Point", "seen, name")
    point, pair = Point([], "a"), Pair(([], {}))

    def transform(index: int) -> Any:
        point.seen.append(index)
        pair[0].append(index)
        pair[1][index] = len(pair[0])
        return len(point.seen), sum(pair[1].values())

    return Transformed(transform)


@STATE.program
def a_namespace() -> Any:
    """Uses types.SimpleNamespace, as configurations do."""
    config = types.SimpleNamespace(step=0, inner=types.SimpleNamespace(values=[0]))

    def transform(index: int) -> Any:
        config.step += 1
        config.inner.values[0] += index
        return config.step, config.inner.values[0]

    return Setting(Transformed(transform), after_epoch=lambda: (config.step, config.inner.values))


@STATE.program
def iterators_over_containers() -> Any:
    """Uses iter() of a list, a range, a reversed list and zip()."""
    numbers = iter([*range(100)])
    steps = iter(range(0, 1000, 3))
    back = reversed([*range(100)])
    pairs = zip([*range(100)], [*range(100, 200)], strict=True)
    return Transformed(lambda _: (next(numbers), next(steps), next(back), next(pairs)))


@STATE.program
def a_recursive_structure() -> Any:
    """Uses a list that contains itself and a dict that contains the list."""
    ring: list[Any] = [0]
    ring.append(ring)
    table = {"ring": ring}

    def transform(index: int) -> Any:
        ring[1][1][0] += index
        return table["ring"][0], ring[1] is ring, table["ring"] is ring

    return Transformed(transform)


@STATE.program
def a_dict_keyed_by_objects() -> Any:
    """Uses a dict whose keys are compared by identity, and looks them up by the same objects."""

    class Key:
        pass

    keys = [Key() for _ in range(4)]
    counts = dict.fromkeys(keys, 0)

    def transform(index: int) -> Any:
        counts[keys[index % 4]] += 1
        return list(counts.values())

    return Setting(Transformed(transform), after_epoch=lambda: list(counts.values()))


@STATE.program
def a_set_of_objects() -> Any:
    """Objects that are found in a set by their own hash."""

    class Word:
        def __init__(self, text: str) -> None:
            self.text, self.count = text, 0

        def __hash__(self) -> int:
            return hash(self.text)

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Word) and other.text == self.text

    words = [Word(letter) for letter in "abc"]
    known = set(words)

    def transform(index: int) -> Any:
        word = words[index % 3]
        word.count += 1
        return word in known, max(other.count for other in known)

    return Transformed(transform)


@STATE.program
def a_module_in_training_mode() -> Any:
    """Keeps batch statistics in the buffers of a torch module."""

    class Data(Numbered):
        def __init__(self) -> None:
            super().__init__()
            self.norm = torch.nn.BatchNorm1d(2)

        def sample(self, index: int) -> Any:
            with torch.no_grad():
                normed = self.norm(torch.tensor([[index, 1.0], [2.0, index]]))
            return normed, self.norm.running_mean.clone(), int(self.norm.num_batches_tracked)

    data = Data()
    return Setting(data, after_epoch=lambda: dict(data.norm.state_dict()))


@STATE.program
def a_thread_local() -> Any:
    """Uses threading.local with values that the program's thread has set."""
    local = threading.local()
    local.calls, local.seen = 10, [1]

    def transform(index: int) -> Any:
        local.calls += 1
        local.seen.append(index)
        return local.calls, len(local.seen)

    return Setting(Transformed(transform), after_epoch=lambda: (local.calls, local.seen))


@STATE.program
def a_lock_around_a_counter() -> Any:
    """Counts under a lock, as thread-safe datasets do."""

    class Data(Numbered):
        def __init__(self) -> None:
            super().__init__()
            self.lock, self.condition, self.calls = threading.RLock(), threading.Condition(), 0

        def sample(self, index: int) -> Any:
            with self.lock, self.condition:
                self.calls += 1
                return index, self.calls

    data = Data()
    return Setting(data, after_epoch=lambda: data.calls)


@STATE.program
def an_error_now_and_then() -> Any:
    """Fails in a sample that depends on how many came before in this worker."""

    class Data(Numbered):
        calls = 0

        def sample(self, index: int) -> Any:
            self.calls += 1
            if self.calls == 7:
                raise ValueError(f"call 7 is sample {index}")
            return index, self.calls

    return Data()
