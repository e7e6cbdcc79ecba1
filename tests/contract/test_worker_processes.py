"""workers="processes": torch's worker processes give the same batches, errors, warnings and images."""

from __future__ import annotations

import copy
import os
import pickle
import random
import re
import traceback
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.utils.data
import torchvision_shim  # noqa: F401
from both_loaders import Processes, Threads, assert_same
from flat_values import flat
from numbered import Numbered
from PIL import Image
from torch.utils.data import Dataset, get_worker_info
from torchvision import transforms
from torchvision.datasets import ImageFolder
from user_datasets import Knowing

import fastload
from fastload._process import _limits

BOTH = (torch.utils.data.DataLoader, Processes)


class Failing(Numbered):
    def sample(self, index: int) -> Any:
        if index % 5 == 3:
            raise ValueError(f"sample {index} is wrong")
        return index


class Photos(Dataset[Any]):
    """Images of a folder, opened with Pillow; a class that a spawned process can import."""

    def __init__(self, folder: Path, transform: Any) -> None:
        self.paths = sorted(folder.rglob("*.JPEG"))
        self.transform = transform

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Any:
        return self.transform(Image.open(self.paths[index])), os.getpid()


def _seed_all(worker_id: int) -> None:
    info = get_worker_info()
    assert info is not None
    random.seed(worker_id)
    np.random.seed(info.seed % 2**32)
    torch.rand(worker_id)


def _fail(worker_id: int) -> None:
    raise KeyError(f"worker {worker_id} cannot begin")


def _crop(image: Image.Image) -> Image.Image:
    return image.convert("RGB").crop((3, 4, 40, 41))


def _opened(image: Image.Image) -> Image.Image:
    return image


def _images_only(samples: list[Any]) -> list[Any]:
    return [image for image, _ in samples]


def _texts(kind: Any, dataset: Any, num_batches: int, **arguments: Any) -> list[str]:
    """Returns the outcome of each batch: itself, or the error's full text with the worker's traceback."""
    iterator, texts = iter(kind(dataset, **arguments)), []
    for _ in range(num_batches):
        try:
            texts.append(str(next(iterator)))
        except Exception as error:  # noqa: BLE001 - what is raised is what is compared
            texts.append(_without_loader(traceback.format_exception_only(error)[0]))
    return texts


def _without_loader(text: str) -> str:
    """Returns a traceback without the frames of loaders."""
    frames = re.split(r"(?m)^(?=  File|\w)", text)
    return "".join(frame for frame in frames if not re.match(r'  File ".*/(torch/utils/data|fastload)/', frame))


@pytest.mark.parametrize(
    ("dataset", "arguments"),
    [
        pytest.param(Failing(), {"batch_size": 2}, id="sample"),
        pytest.param(Numbered(), {"batch_size": 9, "worker_init_fn": _fail}, id="init function"),
        pytest.param(Numbered(), {"batch_size": 2, "collate_fn": _fail}, id="collate"),
    ],
)
def test_errors_have_all_of_torchs_words(dataset: Any, arguments: Any) -> None:
    # In torch, later batches of a worker that could not begin fail in code of torch's.
    mine = assert_same(lambda kind: _texts(kind, dataset, 2, num_workers=2, **arguments), BOTH)
    assert any("Original Traceback" in text for text in mine)


def test_too_many_workers_are_warned_of_in_torchs_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    monkeypatch.setattr(_limits, "num_available", lambda: 1)

    def texts(kind: Any) -> list[str]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            list(kind(Numbered(), num_workers=2))
        return [str(one.message) for one in caught]

    assert assert_same(texts, BOTH)


def test_auto_is_a_number_of_processes() -> None:
    loader = Processes(Knowing(), num_workers="auto", batch_size=None)
    assert {sample[2] for sample in loader} == {loader.num_workers}
    assert loader.num_workers == _limits.num_auto_workers()


# ---- images ----------------------------------------------------------------------------------------------------------

TRAINING = transforms.Compose(
    [transforms.RandomResizedCrop(40, scale=(0.3, 1.0)), transforms.RandomHorizontalFlip(), transforms.ToTensor()]
)


def _image_batches(kind: Any, dataset: Any, **arguments: Any) -> tuple[Any, Any]:
    torch.manual_seed(3)
    loader = kind(dataset, 4, num_workers=2, shuffle=True, collate_fn=_images_only, **arguments)
    return [[np.asarray(image).tobytes() for image in batch] for batch in loader], loader


@pytest.mark.parametrize("transform", [TRAINING, _crop, _opened], ids=["pipeline", "deferred", "opened"])
def test_images_that_are_opened_are_torchs_and_native(folder: Path, transform: Any) -> None:
    dataset = Photos(folder, transform)
    theirs, _ = _image_batches(torch.utils.data.DataLoader, dataset)
    mine, loader = _image_batches(Processes, dataset)
    assert mine == theirs
    assert loader.stats().images_opened == len(dataset)
    assert loader.stats().images_native == len(dataset)
    assert "decoded natively as your code asks" in loader.explain()
    assert list(loader)
    assert loader.stats().images_opened == 2 * len(dataset)  # includes iterators that have ended


@pytest.mark.slow
@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_images_are_native_in_processes_that_are_not_forked(folder: Path, method: str) -> None:
    dataset = Photos(folder, TRAINING)
    theirs, _ = _image_batches(torch.utils.data.DataLoader, dataset, multiprocessing_context=method)
    mine, loader = _image_batches(Processes, dataset, multiprocessing_context=method)
    assert mine == theirs
    assert loader.stats().images_native == len(dataset)


def test_pillow_decodes_where_that_is_asked_for(folder: Path) -> None:
    dataset = Photos(folder, TRAINING)
    theirs, _ = _image_batches(torch.utils.data.DataLoader, dataset)
    mine, loader = _image_batches(Processes, dataset, native_images=False)
    assert mine == theirs
    assert loader.stats().images_opened == 0
    assert "decoded by Pillow (native_images=False)" in loader.explain()


def test_a_loader_without_python_needs_no_process(images: ImageFolder) -> None:
    loader = Processes(images, 4, num_workers=2, memory_format=torch.channels_last)
    assert loader.explain() == fastload.DataLoader(images, 4, num_workers=2).explain()
    assert [label.tolist() for _, label in loader] == [label.tolist() for _, label in fastload.DataLoader(images, 4)]
    assert loader.stats().samples_native == len(images)


def test_a_partly_native_loader_runs_whole_in_its_workers(images: ImageFolder) -> None:
    images.target_transform = lambda label: (label, os.getpid())
    loader = Processes(images, 4, num_workers=2)
    pids = {int(pid) for _, (_, batch) in loader for pid in batch}
    assert len(pids) == 2
    assert os.getpid() not in pids
    assert loader.stats().samples_native == len(images)
    assert loader.explain().splitlines()[0].endswith("then finished in Python, by 2 processes")


def test_without_workers_it_makes_no_difference(images: ImageFolder) -> None:
    assert Processes(images, 4).explain() == fastload.DataLoader(images, 4).explain()


# ---- the loader ------------------------------------------------------------------------------------------------------


def test_per_thread_gives_each_process_one_handle() -> None:
    class Handles(Numbered):
        handle = fastload.per_thread(lambda: [os.getpid()])

        def sample(self, index: int) -> Any:
            self.handle().append(index)
            return os.getpid(), self.handle()[0], len(self.handle())

    Handles.handle()  # the program has its own
    opened: dict[int, int] = {}
    for pid, opened_by, num_samples in Processes(Handles(), None, num_workers=2):
        assert opened_by == pid
        assert num_samples == opened.get(pid, 1) + 1
        opened[pid] = num_samples
    assert len(opened) == 2
    assert os.getpid() not in opened


def test_a_device_transform_is_called_in_the_program() -> None:
    loader = Processes(Numbered(), 4, num_workers=2, device_transform=lambda batch: (batch[1].tolist(), os.getpid()))
    assert [number for numbers, _ in loader for number in numbers] == list(range(23))
    assert {pid for _, pid in loader} == {os.getpid()}


def test_the_loaders_attributes_stay_the_users() -> None:
    loader = Processes(Numbered(), 4, num_workers=2, worker_init_fn=_seed_all, persistent_workers=True)
    next(iter(loader))
    assert loader.worker_init_fn is _seed_all
    assert loader.collate_fn is torch.utils.data.default_collate
    assert loader.multiprocessing_context is None
    assert loader.workers == "processes"
    for another in (copy.copy(loader), pickle.loads(pickle.dumps(loader))):
        assert another.workers == "processes"
        assert flat(list(another)) == flat(list(loader))


def test_what_is_set_later_counts_from_the_next_iter_on() -> None:
    loader = Threads(Numbered(), None, num_workers=2, collate_fn=lambda _: os.getpid())
    assert set(loader) == {os.getpid()}
    loader.workers = "processes"
    assert os.getpid() not in set(loader)
