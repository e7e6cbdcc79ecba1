"""patch_torch() and classes that derive from torch's: those that keep an iterator over epochs, and all others."""

from __future__ import annotations

import copy
import pickle
import warnings
from pathlib import Path
from typing import Any

import pytest
import recipes
import torch
from children import RunChild
from framework_recipes import Drawing
from torch.utils.data import TensorDataset
from torchvision.datasets import ImageFolder

import fastload

SAMPLES = TensorDataset(torch.arange(10))
EPOCHS = 3
WORKERS = [(0, False), (2, False), (2, True)]  # and persistent_workers


class _RepeatSampler:
    def __init__(self, sampler: Any) -> None:
        self.sampler = sampler

    def __iter__(self) -> Any:
        while True:
            yield from self.sampler


class Infinite(torch.utils.data.DataLoader[Any]):
    """Calls what ultralytics' InfiniteDataLoader calls."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        object.__setattr__(self, "batch_sampler", _RepeatSampler(self.batch_sampler))
        self.iterator = super().__iter__()

    def __len__(self) -> int:
        return len(self.batch_sampler.sampler)  # type: ignore[union-attr, arg-type]

    def __iter__(self) -> Any:
        for _ in range(len(self)):
            yield next(self.iterator)

    def __del__(self) -> None:
        try:
            for worker in getattr(self.iterator, "_workers", ()):
                if worker.is_alive():
                    worker.terminate()
            self.close()
        except Exception:  # noqa: BLE001 - as ultralytics does
            pass

    def close(self) -> None:
        if hasattr(self.iterator, "_workers"):
            self.iterator._shutdown_workers()

    def reset(self) -> None:
        self.close()
        self.iterator = self._get_iterator()


class MultiEpochs(torch.utils.data.DataLoader[Any]):
    """Calls what timm's MultiEpochsDataLoader calls."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._DataLoader__initialized = False
        self.batch_sampler = _RepeatSampler(self.batch_sampler)  # type: ignore[assignment]
        self._DataLoader__initialized = True
        self.iterator: Any = None

    def __len__(self) -> int:
        return len(self.batch_sampler.sampler)  # type: ignore[union-attr, arg-type]

    def __iter__(self) -> Any:
        if self.iterator is None:
            self.iterator = super().__iter__()
        for _ in range(len(self)):
            yield next(self.iterator)


def timms() -> Any:
    return pytest.importorskip("timm.data.loader").MultiEpochsDataLoader


def ultralytics() -> Any:
    return pytest.importorskip("ultralytics.data.build").InfiniteDataLoader


KINDS = {"infinite": lambda: Infinite, "multi epochs": lambda: MultiEpochs, "timm": timms, "ultralytics": ultralytics}


@pytest.mark.parametrize(("num_workers", "is_persistent"), WORKERS)
@pytest.mark.parametrize("samples", ["images", "in Python"])
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_a_class_that_keeps_its_iterator_loads_torchs_bytes(
    folder: Any, kind: Any, samples: str, num_workers: int, is_persistent: bool
) -> None:
    kind = kind()
    dataset = ImageFolder(str(folder), recipes.training(32)) if samples == "images" else Drawing(13)

    def program() -> tuple[Any, Any]:
        torch.manual_seed(0)
        arguments = {"num_workers": num_workers, "persistent_workers": is_persistent}
        loader = kind(dataset, batch_size=4, shuffle=True, **arguments)
        batches = [recipes.bytes_of(loader) for _ in range(EPOCHS)]
        if hasattr(loader, "reset"):
            loader.reset()
        return [*batches, recipes.bytes_of(loader)], loader

    expected, theirs = program()
    with fastload.patch_torch():
        batches, mine = program()
    assert batches == expected
    assert isinstance(mine, kind)
    assert isinstance(mine, fastload.DataLoader)
    assert not isinstance(theirs, fastload.DataLoader)
    assert mine.stats().batches_delivered == len(mine) * (EPOCHS + 1)
    assert (type(mine).__module__, type(mine).__qualname__) == (kind.__module__, kind.__qualname__)


def test_such_a_class_may_derive_from_fastloads_or_from_its_name(run_child: RunChild) -> None:
    run_child(
        f"""
        import sys
        import torch, fastload, torchvision_shim
        sys.path.append({str(Path(__file__).parent)!r})

        TorchsOwn = torch.utils.data.DataLoader
        torch.utils.data.DataLoader = fastload.DataLoader

        import test_patched_subclasses

        for kind in (test_patched_subclasses.Infinite, test_patched_subclasses.MultiEpochs):
            for num_workers in (0, 2):
                samples = torch.utils.data.TensorDataset(torch.arange(10))
                expected = [batch[0].tolist() for batch in TorchsOwn(samples, batch_size=3)]
                loader = kind(samples, batch_size=3, num_workers=num_workers)
                assert issubclass(kind, fastload.DataLoader)
                for _ in range(2):
                    assert [batch[0].tolist() for batch in loader] == expected
        """,
        warm=True,
    )


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_an_exchanged_loader_is_copied_and_pickled_as_what_it_is(protocol: int) -> None:
    with fastload.patch_torch():
        loader = MultiEpochs(SAMPLES, 4)
    for twin in (pickle.loads(pickle.dumps(loader, protocol)), copy.copy(loader), copy.deepcopy(loader)):
        assert type(twin) is type(loader)
        assert [batch[0].tolist() for _ in range(2) for batch in twin] == 2 * [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


class NamesInternals(torch.utils.data.DataLoader[Any]):
    def __len__(self) -> int:
        return len(self._index_sampler)


class OverridesMore(torch.utils.data.DataLoader[Any]):
    def _get_iterator(self) -> Any:
        return super()._get_iterator()


class HasArguments(torch.utils.data.DataLoader[Any]):
    def __init__(self, dataset: Any) -> None:
        super().__init__(dataset)


class DerivesFromOne(NamesInternals):
    pass


OTHERS = {
    NamesInternals: r"its __len__\(\) uses _index_sampler",
    OverridesMore: "it defines _get_iterator",
    HasArguments: r"its __init__\(\) does not pass all arguments to super\(\).__init__\(\)",
    DerivesFromOne: r"its __len__\(\) uses _index_sampler",
}


@pytest.mark.parametrize("kind", OTHERS)
def test_every_other_class_stays_torchs_and_is_warned_of_once(kind: Any) -> None:
    name = f"{kind.__module__}.{kind.__qualname__}"
    expected = f"loaders of {name} stay torch's .*: {OTHERS[kind]}. Derive the class from fastload.DataLoader"
    with fastload.patch_torch():
        with pytest.warns(UserWarning, match=expected) as caught:
            assert type(kind(SAMPLES)) is kind
        assert caught[0].filename == __file__
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert len([*kind(SAMPLES)]) == 10
