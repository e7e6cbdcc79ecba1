"""Programs that keep state between samples: counters, caches and buffers on objects, in slots and in closures."""

from __future__ import annotations

import bisect
import collections
import functools
import itertools
import threading
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from numbered import Numbered
from program import Chapter, Setting, Transformed

STATE = Chapter()


@STATE.program
def a_counter_on_the_dataset() -> Any:
    """Counts the samples that this worker's dataset was asked for."""

    class Data(Numbered):
        asked = 0

        def sample(self, index: int) -> Any:
            self.asked += 1
            return index, self.asked

    data = Data()
    return Setting(data, after_epoch=lambda: (data.asked, sorted(vars(data))))


@STATE.program
def a_nonlocal_counter() -> Any:
    """Counts in a variable of the enclosing function."""
    calls = 0

    def transform(_index: int) -> int:
        nonlocal calls
        calls += 1
        return calls

    return Setting(Transformed(transform), after_epoch=lambda: calls)


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
def a_mutable_default() -> Any:
    """Uses a list that is a default argument."""

    def transform(index: int, seen: list[int] = []) -> int:  # noqa: B006 - the habit that is tested
        seen.append(index)
        return sum(seen)

    return Transformed(transform)


@STATE.program
def an_attribute_of_a_function() -> Any:
    """Counts in transform.calls, as programs do without a class."""

    def transform(index: int) -> int:
        transform.calls += 1  # type: ignore[attr-defined]
        return index * transform.calls  # type: ignore[attr-defined]

    transform.calls = 0  # type: ignore[attr-defined]
    return Setting(Transformed(transform), after_epoch=lambda: transform.calls)  # type: ignore[attr-defined]


@STATE.program
def a_deque_of_the_last_samples() -> Any:
    """Gives the mean of the last four samples of this worker."""
    last: collections.deque[int] = collections.deque(maxlen=4)

    def transform(index: int) -> float:
        last.append(index)
        return sum(last) / len(last)

    return Setting(Transformed(transform), after_epoch=lambda: list(last))


@STATE.program
def a_dict_as_a_cache() -> Any:
    """Keys that were there, and in which order."""
    cache: dict[int, int] = {}

    def transform(index: int) -> Any:
        was_there = index % 5 in cache
        cache.setdefault(index % 5, index)
        return was_there, cache[index % 5], len(cache)

    return Setting(Transformed(transform), {"shuffle": True}, after_epoch=lambda: cache)


@STATE.program
def a_set_of_what_was_seen() -> Any:
    """Tells whether a sample with the same remainder came before."""
    seen: set[int] = set()

    def transform(index: int) -> Any:
        before = len(seen)
        seen.add(index % 7)
        return len(seen) > before

    return Setting(Transformed(transform), after_epoch=lambda: sorted(seen))


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
def private_names_in_slots() -> Any:
    """Slots whose names begin with two underscores."""

    class Hidden:
        __slots__ = ("__calls",)

        def __init__(self) -> None:
            self.__calls = 0

        def __call__(self, _index: int) -> int:
            self.__calls += 1
            return self.__calls

    return Transformed(Hidden())


@STATE.program
def a_dataclass() -> Any:
    """Uses a dataclass with a list of its own."""

    @dataclass
    class Statistics:
        total: int = 0
        seen: list[int] = field(default_factory=list)

    statistics = Statistics()

    def transform(index: int) -> Any:
        statistics.total += index
        statistics.seen.append(index)
        return statistics.total, len(statistics.seen)

    return Setting(Transformed(transform), after_epoch=lambda: (statistics.total, statistics.seen))


@STATE.program
def a_frozen_dataclass_with_a_list() -> Any:
    """Uses an object that takes no attributes, with a list that changes."""

    @dataclass(frozen=True)
    class Settings:
        name: str
        seen: list[int]

    settings = Settings("a", [])
    return Transformed(lambda index: (settings.seen.append(index), len(settings.seen))[1])


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
def an_iterator_of_the_standard_library() -> Any:
    """Uses itertools.count and a cycle over a list."""
    count, names = itertools.count(5), itertools.cycle(["a", "b", "c"])
    return Transformed(lambda _: (next(count), next(names)))


@STATE.program
def iterators_over_containers() -> Any:
    """Uses iter() of a list, a range, a reversed list and zip()."""
    numbers = iter([*range(100)])
    steps = iter(range(0, 1000, 3))
    back = reversed([*range(100)])
    pairs = zip([*range(100)], [*range(100, 200)], strict=True)
    return Transformed(lambda _: (next(numbers), next(steps), next(back), next(pairs)))


@STATE.program
def a_sorted_list() -> Any:
    """Keeps a list sorted, and gives the position of each sample in it."""
    ordered: list[int] = [10]

    def transform(index: int) -> int:
        position = bisect.bisect(ordered, index)
        ordered.insert(position, index)
        return position

    return Setting(Transformed(transform), {"shuffle": True})


@STATE.program
def a_cached_property() -> Any:
    """Uses a functools.cached_property that keeps the first sample."""

    class Data(Numbered):
        current = -1

        @functools.cached_property
        def first(self) -> int:
            return self.current

        def sample(self, index: int) -> Any:
            self.current = index
            return index, self.first

    data = Data()
    return Setting(data, after_epoch=lambda: sorted(vars(data)))


@STATE.program
def a_property_with_a_setter() -> Any:
    """Uses a property that counts how often it was set."""

    class Data(Numbered):
        times = 0

        @property
        def size(self) -> int:
            return self.times

        @size.setter
        def size(self, _value: int) -> None:
            self.times += 1

        def sample(self, index: int) -> Any:
            self.size = index
            return self.size

    return Data()


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
def three_thousand_nested_dicts() -> Any:
    """Keeps a number at the end of 3,000 nested dicts."""
    top: dict[str, Any] = {}
    deepest = top
    for _ in range(3000):
        deepest["next"] = {}
        deepest = deepest["next"]
    deepest["calls"] = 0

    class Data(Numbered):
        def __init__(self) -> None:
            super().__init__()
            self.top = top

        def sample(self, index: int) -> Any:
            found = self.top
            while "next" in found:
                found = found["next"]
            found["calls"] += 1
            return index, found["calls"]

    return Setting(Data(), after_epoch=lambda: deepest["calls"])


@STATE.program
def a_chain_of_three_thousand_objects() -> Any:
    """Adds one element to a linked list in each sample."""

    class Node:
        def __init__(self, following: Any) -> None:
            self.following = following

    def length(node: Any) -> int:
        count = 0
        while node is not None:
            count, node = count + 1, node.following
        return count

    class Data(Numbered):
        def __init__(self) -> None:
            super().__init__()
            self.head: Any = None
            for _ in range(3000):
                self.head = Node(self.head)

        def sample(self, index: int) -> Any:
            self.head = Node(self.head)
            return index, length(self.head)

    return Data()


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
def a_running_mean() -> Any:
    """Updates a tensor on self in place in every sample."""

    class Data(Numbered):
        def __init__(self) -> None:
            super().__init__()
            self.mean, self.count = torch.zeros(3), torch.zeros((), dtype=torch.int64)

        def sample(self, index: int) -> Any:
            self.count += 1
            self.mean += (torch.full((3,), float(index)) - self.mean) / self.count
            return self.mean.clone(), int(self.count)

    data = Data()
    return Setting(data, {"shuffle": True}, after_epoch=lambda: (data.mean, data.count))


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
def hooks_of_a_module() -> Any:
    """Uses a forward hook, which is a closure, and what it has gathered."""
    seen: list[float] = []
    module = torch.nn.Identity()
    module.register_forward_hook(lambda _module, _inputs, output: seen.append(float(output.sum())))

    def transform(index: int) -> Any:
        module(torch.tensor([float(index)]))
        return len(seen), sum(seen)

    return Setting(Transformed(transform), after_epoch=lambda: seen)


@STATE.program
def state_in_the_collate_function() -> Any:
    """Uses a collate_fn object that keeps the last batch, as mixing across batches does."""

    class Mixing:
        def __init__(self) -> None:
            self.last: Any = None

        def __call__(self, samples: list[Any]) -> Any:
            batch = torch.utils.data.default_collate(samples)[0].float()
            mixed = batch if self.last is None else batch + self.last.mean()
            self.last = batch
            return mixed

    mixing = Mixing()
    return Setting(Numbered(), {"collate_fn": mixing}, after_epoch=lambda: mixing.last is None)


@STATE.program
def padding_to_the_longest_so_far() -> Any:
    """Uses a collate_fn whose padding grows with the samples that this worker has seen."""
    longest = [0]

    def collate(samples: list[Any]) -> Any:
        rows = [torch.arange(index) for _, index in samples]
        longest[0] = max(longest[0], *map(len, rows))
        return torch.stack([torch.nn.functional.pad(row, (0, longest[0] - len(row))) for row in rows])

    return Setting(Numbered(), {"collate_fn": collate, "shuffle": True})


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


@STATE.program
def retries() -> Any:
    """Fails once in a sample and reads it again, with a count of failures."""
    failures: collections.Counter[int] = collections.Counter()

    def read(index: int) -> int:
        if index % 3 == 0 and not failures[index]:
            failures[index] += 1
            raise OSError("not yet")
        return sum(failures.values())

    def transform(index: int) -> int:
        try:
            return read(index)
        except OSError:
            return read(index) + 100

    return Setting(Transformed(transform), after_epoch=lambda: dict(failures))


@STATE.program
def sample_lists_with_state() -> Any:
    """Uses a class with a __getitems__ that counts its calls."""

    class Data(Numbered):
        calls = 0

        def __getitems__(self, indices: list[int]) -> list[Any]:
            self.calls += 1
            return [(index, self.calls, len(indices)) for index in indices]

    data = Data()
    return Setting(data, after_epoch=lambda: data.calls)


@STATE.program
def a_sum_without_batches() -> Any:
    """Adds to a tensor in each sample, with batch_size=None."""
    buffer = torch.zeros(2)

    def transform(index: int) -> Any:
        buffer.add_(index)
        return buffer.sum().item()

    return Setting(Transformed(transform), {"batch_size": None}, after_epoch=lambda: buffer)


@STATE.program
def a_tree_of_callables() -> Any:
    """Transforms in transforms, each with a count, as Compose has them."""

    class Step:
        def __init__(self, *steps: Callable[[Any], Any]) -> None:
            self.steps, self.calls = list(steps), 0

        def __call__(self, value: Any) -> Any:
            self.calls += 1
            for step in self.steps:
                value = step(value)
            return value * 2 + self.calls

    shared = Step()
    return Transformed(Step(shared, Step(shared, shared), Step()))
