"""torchvision's data sets that hold arrays: batches are torch's, and native if native code knows every step."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from both_loaders import Threads
from comparison import described, native_opener, needs_deferral
from torch.utils.data import ConcatDataset, Subset, default_collate, random_split
from torchvision import datasets, transforms
from torchvision.transforms import v2

import fastload
from fastload._images import _array_dataset

NUM_SAMPLES = 37


def cifar(kind: type = datasets.CIFAR10, **attributes: Any) -> Any:
    random = np.random.default_rng(1)
    data = random.integers(0, 256, (NUM_SAMPLES, 3, 32, 32), np.uint8).transpose(0, 2, 3, 1)  # the class's own layout
    targets = random.integers(0, 10, NUM_SAMPLES).tolist()
    return _made(kind, {"data": data, "targets": targets, "transform": CIFAR_TRAINING(), **attributes})


def mnist(kind: type = datasets.MNIST, **attributes: Any) -> Any:
    random = np.random.default_rng(2)
    data = torch.from_numpy(random.integers(0, 256, (NUM_SAMPLES, 28, 28), np.uint8))
    targets = torch.from_numpy(random.integers(0, 10, NUM_SAMPLES))
    return _made(kind, {"data": data, "targets": targets, "transform": MNIST_TRAINING(), **attributes})


def _made(kind: type, attributes: dict[str, Any]) -> Any:
    """Makes the object that the class would make from downloaded files."""
    dataset = kind.__new__(kind)
    vars(dataset).update({"root": "", "train": True, "target_transform": None, **attributes})
    return dataset


def CIFAR_TRAINING() -> Any:
    return transforms.Compose(
        [
            transforms.RandomCrop(32, padding=4),
            transforms.RandomHorizontalFlip(),
            transforms.ToTensor(),
            transforms.Normalize((0.49, 0.48, 0.45), (0.2, 0.2, 0.2)),
        ]
    )


def MNIST_TRAINING() -> Any:
    return transforms.Compose([transforms.ToTensor(), transforms.Normalize((0.13,), (0.31,))])


def V2_TRAINING() -> Any:
    steps = [v2.RandomResizedCrop(20), v2.RandomHorizontalFlip(), v2.PILToTensor(), v2.ToDtype(torch.float32, True)]
    return v2.Compose(steps)


class OwnMnist(datasets.FashionMNIST):
    """A derived class that does not change the samples."""

    def describe(self) -> str:
        return "mine"


class Labelled(datasets.CIFAR10):
    def __getitem__(self, index: int) -> Any:
        image, label = super().__getitem__(index)
        return image, label, index


class Computed(datasets.CIFAR10):
    @property
    def targets(self) -> Any:
        return [3] * NUM_SAMPLES

    @targets.setter
    def targets(self, _: Any) -> None: ...


def drawing_label(label: int) -> float:
    return label + torch.rand(1).item()


def odd_images(dataset: Any) -> Any:
    dataset.data = dataset.data[:, :, ::2]
    return dataset


# Data sets whose samples native code makes.
NATIVE: dict[str, Callable[[], Any]] = {
    "CIFAR10": cifar,
    "CIFAR100": lambda: cifar(datasets.CIFAR100),
    "MNIST": mnist,
    "FashionMNIST, derived": lambda: mnist(OwnMnist),
    "one transform": lambda: mnist(transform=transforms.ToTensor()),
    "contiguous": lambda: cifar(data=np.ascontiguousarray(cifar().data)),
    "other memory": lambda: odd_images(cifar(transform=V2_TRAINING())),
    "no Normalize": lambda: cifar(transform=transforms.Compose([transforms.PILToTensor()])),
    "v2": lambda: cifar(transform=V2_TRAINING()),
    "v2 of gray": lambda: mnist(transform=V2_TRAINING()),
    "labels that draw": lambda: cifar(target_transform=drawing_label),
    "labels of a tensor that draw": lambda: mnist(target_transform=drawing_label),
    "labels are texts": lambda: cifar(targets=[f"class {number}" for number in range(NUM_SAMPLES)]),
    "split": lambda: random_split(cifar(), [30, 7], torch.Generator().manual_seed(1))[0],
    "subset of a subset": lambda: Subset(Subset(mnist(), range(5, 30)), np.arange(20)),
}
CIFAR_NORMALIZE = transforms.Normalize((0.49, 0.48, 0.45), (0.2, 0.2, 0.2))
# Data sets whose samples Python makes.
PYTHON: dict[str, Callable[[], Any]] = {
    "a method of its own": lambda: cifar(Labelled),
    "a property of its own": lambda: cifar(Computed),
    "QMNIST": lambda: mnist(datasets.QMNIST, compat=True, targets=torch.arange(NUM_SAMPLES)[:, None].repeat(1, 8)),
    "a function": lambda: cifar(transform=transforms.Compose([transforms.Lambda(np.array)])),
    "a step of three channels": lambda: mnist(transform=transforms.Compose([transforms.ToTensor(), CIFAR_NORMALIZE])),
    "other strides": lambda: mnist(data=mnist().data.transpose(1, 2)),
    "labels of numbers": lambda: mnist(targets=torch.arange(NUM_SAMPLES) / 3),
    "parts": lambda: ConcatDataset([cifar(), cifar()]),
}


@pytest.fixture
def native_samples(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """Records the indices of the samples that native code has made."""
    found: list[Any] = []
    number_of = _array_dataset._ArraySamples._number

    def noted(samples: Any, index: Any) -> Any:
        number = number_of(samples, index)
        if number is not None:
            found.append(index)
        return number

    monkeypatch.setattr(_array_dataset._ArraySamples, "_number", noted)
    return found


def epoch(module: Any, dataset: Any, **arguments: Any) -> list[Any]:
    """Returns the batches and the state of torch's generator afterwards; an error's type and text without traceback."""
    torch.manual_seed(7)
    arguments = {"batch_size": 8, "num_workers": 2, **arguments}
    loader = module.DataLoader(dataset, **arguments)
    found: list[Any] = []
    iterator = iter(loader)
    while True:
        try:
            found.append(described(next(iterator)))
        except StopIteration:
            return [*found, torch.rand(1).item()]
        except Exception as error:  # noqa: BLE001 - it is compared
            return [*found, type(error), str(error).rsplit("\n", 2)[-2:]]


@needs_deferral
@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("name", NATIVE)
def test_batches_are_torchs_and_native(name: str, shuffle: bool, native_samples: list[Any]) -> None:
    expected = epoch(torch.utils.data, NATIVE[name](), shuffle=shuffle)
    assert epoch(fastload, NATIVE[name](), shuffle=shuffle, workers="threads") == expected
    assert len(native_samples) == len(NATIVE[name]())


def _write_cifar(folder: Path) -> None:
    random = np.random.default_rng(3)
    for name, _ in (*datasets.CIFAR10.train_list, *datasets.CIFAR10.test_list):
        data = random.integers(0, 256, (6, 3072), np.uint8)
        (folder / name).write_bytes(pickle.dumps({"data": data, "labels": random.integers(0, 10, 6).tolist()}))
    (folder / "batches.meta").write_bytes(pickle.dumps({"label_names": list("abcdefghij")}))


def _write_mnist(folder: Path) -> None:
    random = np.random.default_rng(4)
    for name in ("train", "t10k"):
        images, labels = random.integers(0, 256, (30, 28, 28), np.uint8), random.integers(0, 10, 30).astype(np.uint8)
        for path, array in ((f"{name}-images-idx3-ubyte", images), (f"{name}-labels-idx1-ubyte", labels)):
            head = np.array([0x800 + array.ndim, *array.shape], ">i4").tobytes()
            (folder / path).write_bytes(head + array.tobytes())


# The class, the folder that it reads below its root, and a function that writes this folder.
FILES: list[tuple[Any, str, Callable[[Path], None]]] = [
    (datasets.CIFAR10, "cifar-10-batches-py", _write_cifar),
    (datasets.MNIST, "MNIST/raw", _write_mnist),
    (datasets.FashionMNIST, "FashionMNIST/raw", _write_mnist),
]


@needs_deferral
@pytest.mark.parametrize(("kind", "place", "write"), FILES)
def test_samples_that_torchvision_reads_from_files_are_native(
    kind: Any,
    place: str,
    write: Callable[[Path], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    native_samples: list[Any],
) -> None:
    (tmp_path / place).mkdir(parents=True)
    write(tmp_path / place)
    monkeypatch.setattr(datasets.cifar, "check_integrity", lambda *_: True)  # these are not the published files
    transform = CIFAR_TRAINING() if kind is datasets.CIFAR10 else MNIST_TRAINING()
    dataset = kind(tmp_path, transform=transform)
    expected = epoch(torch.utils.data, dataset, shuffle=True)
    assert epoch(fastload, dataset, shuffle=True, workers="threads") == expected
    assert len(native_samples) == len(dataset) == 30


@pytest.mark.parametrize("name", PYTHON)
def test_samples_that_python_has_to_make_are_torchs(name: str, native_samples: list[Any]) -> None:
    expected = epoch(torch.utils.data, PYTHON[name]())
    assert epoch(fastload, PYTHON[name](), workers="threads") == expected
    assert not native_samples


COLLATES: dict[str, Callable[[Any], Any]] = {
    "list": list,
    "of torch's": lambda samples: default_collate(samples)[0].mul_(2),
    "in place": lambda samples: [image.add_(1) for image, _ in samples],
}


@pytest.mark.parametrize("collate", COLLATES)
@pytest.mark.parametrize("make", [cifar, mnist])
def test_own_functions_get_samples_of_their_own(make: Callable[[], Any], collate: str) -> None:
    expected = epoch(torch.utils.data, make(), collate_fn=COLLATES[collate])
    assert epoch(fastload, make(), collate_fn=COLLATES[collate]) == expected
    ((image, _), *_) = next(iter(fastload.DataLoader(make(), batch_size=8, num_workers=1, collate_fn=list)))
    assert image.untyped_storage().nbytes() == image.nbytes


INDICES: dict[str, list[Any]] = {
    "from the end": [-1, 3, -NUM_SAMPLES],
    "NumPy's": list(np.array([4, 0, 9])),
    "tensors": list(torch.tensor([4, 0, 9])),
    "too large": [2, NUM_SAMPLES, 1],
    "too small": [2, -NUM_SAMPLES - 1],
    "truths": [True, False],
}


@pytest.mark.parametrize("indices", INDICES)
@pytest.mark.parametrize("make", [cifar, mnist, lambda: Subset(cifar(), list(range(NUM_SAMPLES)))])
def test_indices_of_every_kind(make: Callable[[], Any], indices: str) -> None:
    expected = epoch(torch.utils.data, make(), sampler=INDICES[indices], num_workers=1)
    assert epoch(fastload, make(), sampler=INDICES[indices], num_workers=1) == expected


def test_changes_between_epochs_are_seen() -> None:
    def program(module: Any) -> list[Any]:
        dataset = cifar()
        found = epoch(module, dataset)
        dataset.transform.transforms[0].padding = 2
        found += epoch(module, dataset)
        dataset.transform = V2_TRAINING()
        found += epoch(module, dataset)
        dataset.data = 255 - dataset.data
        dataset.targets = dataset.targets[::-1]
        found += epoch(module, dataset)
        dataset.transform = transforms.Compose([transforms.Lambda(lambda image: np.array(image)[::2].copy())])
        return found + epoch(module, dataset)

    assert program(fastload) == program(torch.utils.data)


def test_a_replaced_method_of_torchvisions_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets.CIFAR10, "__getitem__", lambda self, index: (index, self.targets[index]))
    assert epoch(fastload, cifar()) == epoch(torch.utils.data, cifar())


def test_draws_of_a_sample_do_not_depend_on_the_workers() -> None:
    epochs = [epoch(fastload, cifar(), rng="sample", num_workers=number, shuffle=True) for number in (1, 3)]
    assert epochs[0] == epochs[1]
    assert epochs[0] != epoch(fastload, cifar(), num_workers=1, shuffle=True)


def test_in_the_calling_thread_a_registered_opener_counts(native_samples: list[Any]) -> None:
    expected = epoch(torch.utils.data, mnist(), num_workers=0)
    assert epoch(fastload, mnist(), num_workers=0) == expected
    assert not native_samples
    with native_opener():
        assert epoch(fastload, mnist(), num_workers=0) == expected


@needs_deferral
@pytest.mark.parametrize("make", [cifar, mnist])
def test_explain_calls_these_data_sets_native(make: Callable[[], Any]) -> None:
    dataset = make()
    text = Threads(dataset, num_workers=2).explain()
    assert text.startswith("partly native: samples are made natively of the data set's array, by 2 threads\n")
    assert f"{'source':<10} {type(dataset).__name__}, {NUM_SAMPLES} samples in an array" in text
    assert "ImageFiles" not in text
    dataset.transform = transforms.Compose([transforms.Lambda(np.array)])
    assert fastload.DataLoader(dataset, num_workers=2).explain().startswith("not native: samples are loaded in Python")
