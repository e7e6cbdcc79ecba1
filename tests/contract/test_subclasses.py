"""Loaders whose class users derive or whose attributes they change: the same with torch's and fastload's class."""

from __future__ import annotations

import copy
import inspect
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import recipes
import torch
import torch.utils.data
from both_loaders import assert_same, on_both, outcome
from children import RunChild
from torchvision.datasets import ImageFolder
from user_datasets import Drawing, Numbered, Stream, flat

import fastload

# Each takes a loader's class and returns one derived from it.


def with_own_iter(base: Any) -> Any:
    class Prefetched(base):  # type: ignore[misc]
        def __iter__(self) -> Iterator[Any]:
            yield from enumerate(super().__iter__())

    return Prefetched


def with_own_length(base: Any) -> Any:
    class Limited(base):  # type: ignore[misc]
        def __len__(self) -> int:
            return 2

        def __iter__(self) -> Iterator[Any]:
            return (batch for _, batch in zip(range(len(self)), super().__iter__(), strict=False))

    return Limited


def with_collate_method(base: Any) -> Any:
    class Collating(base):  # type: ignore[misc]
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, collate_fn=self.collate, **kwargs)

        def collate(self, samples: list[Any]) -> Any:
            return len(samples), torch.utils.data.default_collate(samples)

    return Collating


def with_own_iterator(base: Any) -> Any:
    class Wrapping(base):  # type: ignore[misc]
        def _get_iterator(self) -> Any:
            self.num_iterators = getattr(self, "num_iterators", 0) + 1
            return super()._get_iterator()

    return Wrapping


def with_attributes_before(base: Any) -> Any:
    class Early(base):  # type: ignore[misc]
        def __init__(self, dataset: Any, **kwargs: Any) -> None:
            self.scale = 2
            super().__init__(dataset, **kwargs)
            self.after = 3

    return Early


class Repeating:
    """A batch sampler that never ends."""

    def __init__(self, sampler: Any) -> None:
        self.sampler = sampler

    def __iter__(self) -> Iterator[Any]:
        while True:
            yield from iter(self.sampler)


def with_endless_sampler(base: Any) -> Any:
    """Derives a class that replaces the batch sampler despite the guard, as loaders that keep workers do."""

    class Endless(base):  # type: ignore[misc]
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            object.__setattr__(self, "batch_sampler", Repeating(self.batch_sampler))
            self.iterator = super().__iter__()

        def __len__(self) -> int:
            return len(self.batch_sampler.sampler)

        def __iter__(self) -> Iterator[Any]:
            for _ in range(len(self)):
                yield next(self.iterator)

    return Endless


def with_the_guard_undone(base: Any) -> Any:
    class Unguarded(base):  # type: ignore[misc]
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self._DataLoader__initialized = False
            self.batch_sampler = list(self.batch_sampler)[::-1]
            self._DataLoader__initialized = True

    return Unguarded


def with_context(base: Any) -> Any:
    class Spawning(base):  # type: ignore[misc]
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            if self.num_workers:
                self.multiprocessing_context = "fork"

        @property
        def start_method(self) -> Any:
            return self.multiprocessing_context and self.multiprocessing_context.get_start_method()

    return Spawning


SUBCLASSES: dict[str, Callable[[Any], Any]] = {
    "own __iter__": with_own_iter,
    "own __len__": with_own_length,
    "own collate method": with_collate_method,
    "own _get_iterator": with_own_iterator,
    "attributes before": with_attributes_before,
    "endless batch sampler": with_endless_sampler,
    "guard undone": with_the_guard_undone,
    "context set later": with_context,
}


# Attributes that fastload.DataLoader has and torch's has not; a class may use them with its own meaning.
OWN_NAMES = (
    *("device", "device_prefetch", "device_transform", "workers", "num_streams", "steps", "rng", "seed"),
    *("memory_format", "stats", "_device", "_engine", "_epoch", "_threads"),
)


class Own:
    """A type that fastload does not know; has no == and no truth."""

    def __bool__(self) -> bool:
        raise TypeError("asked for its truth")

    __eq__ = __hash__ = None  # type: ignore[assignment]


def with_own_names_after(base: Any) -> Any:
    class Owning(base):  # type: ignore[misc]
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            vars(self).update(dict.fromkeys(OWN_NAMES, Own()))

    return Owning


def with_own_names_before(base: Any) -> Any:
    class Owning(base):  # type: ignore[misc]
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            vars(self).update(dict.fromkeys(OWN_NAMES, Own()))
            super().__init__(*args, **kwargs)

    return Owning


def with_own_names_in_the_class(base: Any) -> Any:
    return type("Owning", (base,), {name: Own() for name in OWN_NAMES})


def with_own_properties(base: Any) -> Any:
    return type("Owning", (base,), {name: property(lambda self: Own()) for name in OWN_NAMES})


OWNING: dict[str, Callable[[Any], Any]] = {
    "after": with_own_names_after,
    "before": with_own_names_before,
    "in the class": with_own_names_in_the_class,
    "properties": with_own_properties,
}


class OwningAtTheTop(fastload.DataLoader[Any]):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.device, self.seed = "the class's own", 5


class WithOwnState(fastload.DataLoader[Any]):
    """Drops an attribute, like mixins that do not know another class's state."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.left_behind = iter(())

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        del state["left_behind"]
        return state


DUPLICATES: dict[str, Callable[[Any], Any]] = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda loader: pickle.loads(pickle.dumps(loader)),
}


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("name", OWNING)
def test_a_derived_class_may_own_attributes_of_fastloads_names(folder: Path, name: str, num_workers: int) -> None:
    dataset = ImageFolder(str(folder), recipes.training(32))

    def run(kind: Any) -> Any:
        torch.manual_seed(1)
        loader = OWNING[name](kind)(dataset, batch_size=4, num_workers=num_workers)
        found = [flat(batch) for _ in range(2) for batch in loader]
        return found, all(isinstance(getattr(loader, own), Own) for own in OWN_NAMES), torch.rand(1).item()

    mine = assert_same(run)
    assert mine[1]
    assert OWNING[name](fastload.DataLoader)(dataset).explain().startswith("native:")


@pytest.mark.parametrize("duplicate", DUPLICATES)
def test_copies_of_a_derived_class_keep_its_attributes_and_the_settings(folder: Path, duplicate: str) -> None:
    dataset = ImageFolder(str(folder), recipes.training(32))
    loader = OwningAtTheTop(dataset, batch_size=4, rng="sample", seed=3, memory_format=torch.channels_last)
    loader.set_epoch(4)
    twin = DUPLICATES[duplicate](loader)
    assert (twin.device, twin.seed, twin.rng, twin.memory_format) == (
        "the class's own",
        5,
        "sample",
        torch.channels_last,
    )
    assert [flat(batch) for batch in twin] == [flat(batch) for batch in loader]


@pytest.mark.parametrize("duplicate", DUPLICATES)
def test_a_derived_class_may_make_its_state_of_its_dict(folder: Path, duplicate: str) -> None:
    dataset = ImageFolder(str(folder), recipes.training(32))
    loader = WithOwnState(dataset, batch_size=4, num_workers=2, rng="sample", seed=3)
    twin = DUPLICATES[duplicate](loader)
    expected = [flat(batch) for batch in loader]
    later = DUPLICATES[duplicate](loader)
    assert later.stats().samples == 0
    assert [flat(batch) for batch in twin] == expected
    twin.close()
    later.close()
    assert len([flat(batch) for batch in later]) == len(list(loader)) == len(expected)


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("name", SUBCLASSES)
def test_a_class_derived_from_it_works_as_one_derived_from_torchs(dataset: Any, name: str, num_workers: int) -> None:
    def run(kind: Any) -> Any:
        torch.manual_seed(1)
        loader = SUBCLASSES[name](kind)(dataset, batch_size=3, num_workers=num_workers, drop_last=True)
        found = [[flat(batch) for batch in loader] for _ in range(2)]
        own = ("num_iterators", "scale", "after", "start_method")
        return len(loader), found, [getattr(loader, attribute, None) for attribute in own], torch.rand(1).item()

    mine = assert_same(run)
    assert mine[1][0]


# ---- attributes that are set later ---------------------------------------------------------------------------------


def doubled(samples: Any) -> Any:
    return [samples, samples]


LATER: dict[str, Any] = {
    "collate_fn": doubled,
    "timeout": 30,
    "worker_init_fn": lambda worker_id: torch.manual_seed(worker_id),
    "generator": torch.Generator().manual_seed(3),
    "prefetch_factor": 1,
    "pin_memory": True,
    "in_order": True,
    "multiprocessing_context": None,
    "anything": "of the user's",
}


@pytest.mark.filterwarnings("ignore:'pin_memory' argument")
@pytest.mark.parametrize("make", [Drawing, Stream], ids=["map", "iterable"])
@pytest.mark.parametrize("name", LATER)
def test_what_is_set_later_counts_from_the_next_iter_on(make: Callable[[], Any], name: str) -> None:
    def run(kind: Any) -> Any:
        torch.manual_seed(2)
        loader = kind(make(), batch_size=6, num_workers=1)
        first = [flat(batch) for batch in loader]
        value = torch.Generator().manual_seed(3) if name == "generator" else LATER[name]
        setattr(loader, name, value)
        iterator = iter(loader)
        setattr(loader, "collate_fn", list)  # noqa: B010 - too late for this iterator
        return first, [flat(batch) for batch in iterator], getattr(loader, name) is value or name == "collate_fn"

    assert_same(run)


REFUSED = {
    "batch_size": 3,
    "batch_sampler": [[0]],
    "sampler": [0],
    "drop_last": True,
    "dataset": [1],
    "persistent_workers": True,
}


@pytest.mark.parametrize(
    ("name", "value"), [*REFUSED.items(), ("multiprocessing_context", "no such"), ("multiprocessing_context", 3)]
)
def test_what_may_not_be_set_later_is_refused_in_torchs_words(name: str, value: Any) -> None:
    def run(kind: Any) -> Any:
        try:
            setattr(kind([1, 2], num_workers=1), name, value)
        except (ValueError, TypeError) as error:
            return type(error), str(error)
        raise AssertionError("it was taken")

    assert_same(run)


@pytest.mark.filterwarnings("ignore:.*_MultiProcessingDataLoaderIter.__del__:pytest.PytestUnraisableExceptionWarning")
def test_num_workers_raised_later_is_an_error_in_torch_and_works_here() -> None:
    def run(kind: Any) -> Any:
        loader = kind(Numbered(4), batch_size=2)
        loader.num_workers = 2
        return outcome(lambda: [labels.tolist() for _, labels in loader])

    theirs, mine = on_both(run)
    assert theirs[0] == "raised"
    assert mine == ("returned", [[0, 1], [2, 3]])


@pytest.mark.parametrize("is_persistent", [False, True])
def test_num_workers_lowered_to_none_is_loading_by_the_caller(is_persistent: bool) -> None:
    def run(kind: Any) -> Any:
        torch.manual_seed(4)
        loader = kind(Drawing(7), batch_size=2, num_workers=1, persistent_workers=is_persistent)
        first = [flat(batch) for batch in loader]
        loader.num_workers = 0
        return first, [flat(batch) for batch in loader], torch.rand(1).item()

    assert_same(run)


# ---- the class itself ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [lambda: Numbered(5), Stream, lambda: [1, 2, 3]], ids=["map", "iterable", "list"])
@pytest.mark.parametrize("num_workers", [0, 1])
def test_attributes_and_properties_have_torchs_values(make: Callable[[], Any], num_workers: int) -> None:
    dataset = make()

    def run(kind: Any) -> Any:
        loader = kind(dataset, batch_size=2, num_workers=num_workers)
        skipped = {"sampler", "batch_sampler", "_iterator"}
        return {
            name: value if isinstance(value, (int, float, str, bool, type(None))) or callable(value) else type(value)
            for name, value in vars(loader).items()
            if name not in skipped
        }, [type(loader.sampler), type(loader.batch_sampler), loader._auto_collation, loader._dataset_kind]

    theirs, mine = on_both(run)
    assert mine[1] == theirs[1]
    assert {name: mine[0][name] for name in theirs[0]} == theirs[0]


def test_lengths_of_loaders_and_iterators_and_their_errors_are_torchs() -> None:
    class Endless:
        def __iter__(self) -> Iterator[int]:
            yield from range(3)

    class WithoutLength(torch.utils.data.Dataset[int]):
        def __getitem__(self, index: int) -> int:
            return index

    makes: list[Callable[[Any], Any]] = [
        lambda kind: kind(range(7), batch_size=2),
        lambda kind: kind(range(7), batch_size=2, drop_last=True),
        lambda kind: kind(range(7), batch_size=None),
        lambda kind: kind(range(7), sampler=Endless()),
        lambda kind: kind(range(7), batch_size=None, sampler=Endless()),
        lambda kind: kind(WithoutLength(), sampler=[0, 1, 2]),
        lambda kind: kind(WithoutLength(), batch_size=2),
        lambda kind: kind(Stream(), batch_size=2),
    ]

    def text(action: Callable[[], Any]) -> Any:
        try:
            return action()
        except Exception as error:  # noqa: BLE001 - what is raised is what is compared
            return type(error), str(error)

    for make in makes:
        assert_same(lambda kind, make=make: (text(lambda: len(make(kind))), text(lambda: len(iter(make(kind))))))


# ---- torch's signature through its versions ------------------------------------------------------------------------

# Keyword-only arguments of __init__, besides prefetch_factor, persistent_workers and pin_memory_device.
SIGNATURES = {"2.4": [], "2.6": ["in_order=True"], "to come": ["in_order=True", 'worker_method="multiprocessing"']}

OTHER_TORCH = """
    import typing
    import torch, torch.utils.data
    from torch.utils.data import dataloader
    torchs_own = torch.utils.data.DataLoader

    class DataLoader(torchs_own, typing.Generic[typing.TypeVar("T")]):
        def __init__(self, dataset, batch_size=1, shuffle=None, sampler=None, batch_sampler=None, num_workers=0,
                     collate_fn=None, pin_memory=False, drop_last=False, timeout=0, worker_init_fn=None,
                     multiprocessing_context=None, generator=None, *, prefetch_factor=None, persistent_workers=False,
                     pin_memory_device=""{more}):
            super().__init__(dataset, batch_size, shuffle, sampler, batch_sampler, num_workers, collate_fn, pin_memory,
                             drop_last, timeout, worker_init_fn, multiprocessing_context, generator,
                             prefetch_factor=prefetch_factor, persistent_workers=persistent_workers)
            self.has = sorted(set(locals()) & {{"in_order", "worker_method"}})
            if "worker_method" in self.has:
                if locals()["worker_method"] not in ("multiprocessing", "thread"):
                    raise ValueError("no such method")
                self.worker_method = locals()["worker_method"]

    torch.utils.data.DataLoader = dataloader.DataLoader = DataLoader
    import fastload
    expected = [batch.tolist() for batch in DataLoader(list(range(7)), 3, num_workers=1)]
    methods = ({{"worker_method": "multiprocessing"}}, {{"worker_method": "thread"}})
    for arguments in ({{}}, {{"in_order": True}}, *methods):
        try:
            theirs = DataLoader([1], **arguments).has
        except TypeError:
            theirs = None
        try:
            loader = fastload.DataLoader(list(range(7)), 3, num_workers=1, **arguments)
            assert [batch.tolist() for batch in loader] == expected
            assert loader.in_order is True
            assert loader.worker_method == arguments.get("worker_method", "multiprocessing")
            mine = loader.has
        except TypeError as error:
            assert "unexpected keyword argument" in str(error), error
            mine = None
        print(arguments, theirs, mine, sep="|")
"""


@pytest.mark.parametrize("version", SIGNATURES)
def test_torchs_class_gets_only_what_its_signature_has(version: str, run_child: RunChild) -> None:
    more = "".join(f", {parameter}" for parameter in SIGNATURES[version])
    rows = [line.split("|") for line in run_child(OTHER_TORCH.format(more=more)).stdout.splitlines()]
    assert len(rows) == 4
    known = [parameter.split("=")[0] for parameter in SIGNATURES[version]]
    for arguments, theirs, mine in rows:
        if arguments == "{'worker_method': 'thread'}" or theirs != "None":
            assert mine == theirs, arguments
        else:  # the default, given explicitly
            assert mine == str(sorted(known)), arguments


def test_worker_method_is_torchs_to_know() -> None:
    def run(kind: Any, value: Any) -> Any:
        try:
            return kind([1], worker_method=value).worker_method
        except TypeError as error:
            return type(error), str(error)
        except ValueError as error:
            return type(error)

    for value in ("thread", "no such method", 3):
        assert_same(lambda kind, value=value: run(kind, value))
    assert fastload.DataLoader([1]).worker_method == "multiprocessing"


def test_every_argument_may_come_by_position_as_in_torch() -> None:
    generator = torch.Generator()
    given = (list(range(6)), 2, None, [5, 4, 3], None, 1, doubled, False, True, 9, seed_nothing, "fork", generator)

    def run(kind: Any) -> Any:
        loader = kind(*given)
        names = [name for name in inspect.signature(kind.__init__).parameters if name not in ("self", "shuffle")]
        positional = names[: len(given) - 1]
        plain = [
            getattr(loader, name) for name in positional if name not in ("batch_sampler", "multiprocessing_context")
        ]
        return positional, plain, list(loader), outcome(lambda: kind(*given, 2))

    assert_same(run)


def seed_nothing(worker_id: int) -> None:
    pass
