"""patch_torch(): torch's class makes fastload's loaders, and nothing else about it changes."""

from __future__ import annotations

import copy
import inspect
import pickle
import threading
import warnings
from typing import Any

import pytest
import recipes
import torch
from children import RunChild
from framework_recipes import Drawing
from made_samples import in_threads
from torch.utils.data import DataLoader as ImportedBefore
from torch.utils.data import TensorDataset
from torchvision.datasets import ImageFolder

import fastload

NAMES = {
    "torch.utils.data": lambda: torch.utils.data.DataLoader,
    "torch.utils.data.dataloader": lambda: torch.utils.data.dataloader.DataLoader,
    "imported before": lambda: ImportedBefore,
    "with a type": lambda: ImportedBefore[int],
}
SAMPLES = TensorDataset(torch.arange(10))

pytestmark = pytest.mark.smoke  # all of it takes a second


class Derived(torch.utils.data.DataLoader[Any]):
    """Calls torch's class by name, as old code does."""

    def __init__(self, dataset: Any, extra: int) -> None:
        torch.utils.data.DataLoader.__init__(self, dataset, batch_size=extra)


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_every_name_of_torchs_class_makes_fastloads_loader_until_the_block_ends(name: Any) -> None:
    with fastload.patch_torch():
        loader = name()(SAMPLES, 4, False, num_workers=1)
    assert type(loader) is fastload.DataLoader
    assert [batch[0].tolist() for batch in loader] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert loader.stats().samples_python == 10
    assert type(name()(SAMPLES, 4)) is torch.utils.data.DataLoader


def test_torchdatas_loader_with_a_state_becomes_fastloads() -> None:
    torchdata = pytest.importorskip("torchdata.stateful_dataloader")

    class Deriving(torchdata.StatefulDataLoader):  # type: ignore[misc]
        pass

    with fastload.patch_torch():
        loader = torchdata.StatefulDataLoader(SAMPLES, 4, num_workers=1, snapshot_every_n_steps=1)
        with pytest.warns(UserWarning, match="Deriving stay torch's"):
            assert not isinstance(Deriving(SAMPLES), fastload.DataLoader)
    assert type(loader) is fastload.DataLoader
    first = next(iter(loader))[0].tolist()
    again = fastload.DataLoader(SAMPLES, 4, num_workers=1)
    again.load_state_dict(loader.state_dict())
    assert [first, *(batch[0].tolist() for batch in again)] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert type(torchdata.StatefulDataLoader(SAMPLES, 4)) is torchdata.StatefulDataLoader


def test_a_patched_program_loads_the_bytes_of_the_one_that_is_not(folder: Any) -> None:
    dataset = ImageFolder(str(folder), recipes.training(32))

    def program() -> tuple[Any, Any]:
        torch.manual_seed(0)
        loader = torch.utils.data.DataLoader(dataset, 4, shuffle=True, num_workers=2, drop_last=True)
        return recipes.bytes_of(loader), loader

    expected, theirs = program()
    with fastload.patch_torch():
        batches, mine = program()
    assert batches == expected
    assert mine.stats().samples_native == 12
    assert not hasattr(theirs, "stats")


def test_loaders_of_both_kinds_are_instances_of_torchs_class_before_and_after() -> None:
    before = torch.utils.data.DataLoader(SAMPLES)
    with fastload.patch_torch():
        between = torch.utils.data.DataLoader(SAMPLES)
        assert isinstance(before, torch.utils.data.DataLoader)
        assert isinstance(between, torch.utils.data.DataLoader)
        assert issubclass(fastload.DataLoader, torch.utils.data.DataLoader)
        assert issubclass(Derived, torch.utils.data.DataLoader)
        assert not isinstance(before, fastload.DataLoader)
    assert isinstance(between, torch.utils.data.DataLoader)
    assert isinstance(between, fastload.DataLoader)


def test_fastloads_own_class_and_those_derived_from_either_are_what_they_were() -> None:
    class Mine(fastload.DataLoader):
        pass

    with fastload.patch_torch():
        assert type(fastload.DataLoader(SAMPLES, num_workers="auto")) is fastload.DataLoader
        assert type(Mine(SAMPLES)) is Mine
        with pytest.warns(UserWarning, match="loaders of test_patch.Derived stay torch's"):
            derived = Derived(SAMPLES, 5)
    assert type(derived) is Derived
    assert [len(batch[0]) for batch in derived] == [5, 5]


def test_other_bases_of_a_derived_class_still_make_its_objects() -> None:
    class Counted:
        made: list[Any] = []  # noqa: RUF012 - of the class, on purpose

        def __new__(cls, *args: Any, **kwargs: Any) -> Any:
            cls.made.append((args, kwargs))
            return super().__new__(cls)

    class Both(torch.utils.data.DataLoader[Any], Counted):
        pass

    with fastload.patch_torch(), pytest.warns(UserWarning, match="it also derives from .*Counted"):
        assert len(Both(SAMPLES, batch_size=2)) == 5
    assert Counted.made == [((SAMPLES,), {"batch_size": 2})]


def test_patches_nest_and_a_call_holds_until_it_is_undone() -> None:
    patch = fastload.patch_torch()
    assert patch.is_active
    with fastload.patch_torch():
        with fastload.patch_torch():
            pass
        assert is_exchanged()
    assert is_exchanged()
    patch.undo()
    assert not is_exchanged()
    patch.undo()  # does nothing, not even to another patch
    with fastload.patch_torch():
        patch.undo()
        assert is_exchanged()
    assert repr(patch) == "<fastload.TorchPatch, undone>"
    assert not patch.is_active
    with patch:  # begins again
        assert is_exchanged()
    assert not is_exchanged()


def is_exchanged() -> bool:
    return type(torch.utils.data.DataLoader(SAMPLES)) is fastload.DataLoader


def test_overlapping_patches_end_in_any_order() -> None:
    first, second = fastload.patch_torch(), fastload.patch_torch()
    first.undo()
    assert is_exchanged()
    second.undo()
    assert not is_exchanged()


def test_an_exception_ends_the_block_and_goes_on() -> None:
    with pytest.raises(KeyError, match="mine"), fastload.patch_torch():
        raise KeyError("mine")
    assert not is_exchanged()


def test_a_bad_argument_is_torchs_error_with_torchs_words() -> None:
    def error_of(**arguments: Any) -> tuple[type, str]:
        with pytest.raises((ValueError, TypeError)) as caught:
            torch.utils.data.DataLoader(**arguments)
        return caught.type, str(caught.value)

    for arguments in (
        {"dataset": SAMPLES, "batch_size": 0},
        {"dataset": SAMPLES, "shared_memory": True},
        {"dataset": SAMPLES, "batch_size": 2, "batch_sampler": [[1]]},
        {"dataset": SAMPLES, "num_workers": -1},
        {},
    ):
        expected = error_of(**arguments)
        with fastload.patch_torch():
            assert error_of(**arguments) == expected
    assert not is_exchanged()


def test_an_argument_that_only_torch_knows_gives_torchs_loader_with_a_warning(monkeypatch: Any) -> None:
    torchs_init = torch.utils.data.DataLoader.__init__

    def newer_init(self: Any, *args: Any, novelty: int = 0, **kwargs: Any) -> None:
        torchs_init(self, *args, **kwargs)

    monkeypatch.setattr(torch.utils.data.DataLoader, "__init__", newer_init)
    with fastload.patch_torch():
        with pytest.warns(UserWarning, match="fastload.DataLoader has no novelty: the loader is torch's own") as caught:
            loader = torch.utils.data.DataLoader(SAMPLES, novelty=1)
        assert type(loader) is torch.utils.data.DataLoader
        assert caught[0].filename == __file__
        assert is_exchanged()


def test_a_patch_holds_in_every_thread() -> None:
    def kind_made_in_a_thread() -> list[type]:
        kinds: list[type] = []
        thread = threading.Thread(target=lambda: kinds.append(type(torch.utils.data.DataLoader(SAMPLES))))
        thread.start()
        thread.join()
        return kinds

    with fastload.patch_torch():
        assert kind_made_in_a_thread() == [fastload.DataLoader]
    assert kind_made_in_a_thread() == [torch.utils.data.DataLoader]


def test_threads_that_patch_at_once_leave_nothing_behind() -> None:
    errors: list[bool] = []

    def work(_: int) -> None:
        for _ in range(200):
            with fastload.patch_torch():
                errors.append(not is_exchanged())

    in_threads(4, work)
    assert len(errors) == 800
    assert not any(errors)
    assert not is_exchanged()


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_loaders_of_both_kinds_are_copied_and_pickled_as_what_they_are(protocol: int) -> None:
    theirs = torch.utils.data.DataLoader(SAMPLES, 3)
    with fastload.patch_torch():
        mine = torch.utils.data.DataLoader(SAMPLES, 3)
        twins = [(loader, twin) for loader in (theirs, mine) for twin in copies(loader, protocol)]
    twins += [(loader, twin) for loader in (theirs, mine) for twin in copies(loader, protocol)]
    for loader, twin in twins:
        assert type(twin) is type(loader)
        assert [batch[0].tolist() for batch in twin] == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9]]


def copies(loader: Any, protocol: int) -> list[Any]:
    return [pickle.loads(pickle.dumps(loader, protocol)), copy.copy(loader), copy.deepcopy(loader)]


def test_the_signature_of_torchs_class_is_torchs() -> None:
    expected = inspect.signature(torch.utils.data.DataLoader.__init__).parameters
    with fastload.patch_torch():
        for shown in (torch.utils.data.DataLoader, torch.utils.data.DataLoader.__init__):
            parameters = inspect.signature(shown).parameters
            assert [*parameters] == [name for name in expected if name in parameters]
            assert {*expected} - {*parameters} <= {"self"}
    assert "native_images" in inspect.signature(fastload.DataLoader).parameters


def test_what_a_patch_makes_outlives_it_and_makes_no_warnings() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with fastload.patch_torch():
            iterator = iter(torch.utils.data.DataLoader(Drawing(13), 5, num_workers=2))
            next(iterator)
        assert len([*iterator]) == 2


@pytest.mark.parametrize("name", ["torch.utils.data", "torch.utils.data.dataloader"])
def test_a_program_may_give_torchs_name_to_fastloads_class(name: str, run_child: RunChild) -> None:
    run_child(
        f"""
        import torch, fastload
        from numbered import Numbered

        TorchsOwn = torch.utils.data.DataLoader
        {name}.DataLoader = fastload.DataLoader

        class Derived({name}.DataLoader):
            pass

        for kind in ({name}.DataLoader, Derived):
            loader = kind(Numbered(10), batch_size=3, num_workers=2, shuffle=True)
            report = fastload.verify(TorchsOwn(Numbered(10), batch_size=3, num_workers=2, shuffle=True), loader)
            assert report.is_equal, str(report)
            assert len(list(loader)) == loader.stats().batches_delivered == 4
        with fastload.patch_torch():
            assert type(TorchsOwn(Numbered(10))) is fastload.DataLoader
        """,
        warm=True,
    )
