"""Loaders in processes of every kind: scripts without a guard, children of torch.multiprocessing, forks."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest
from children import RunChild

LOADERS = """
import hashlib
import os
import sys

import torch
import torchvision_shim
from torch.utils.data import Dataset, IterableDataset
from torchvision import transforms
from torchvision.datasets import ImageFolder

import fastload


class Numbers(Dataset):
    def __len__(self):
        return 60

    def __getitem__(self, index):
        return torch.tensor(index) + torch.rand(2)


class Unordered(Numbers):
    def __getitem__(self, index):
        return torch.tensor(index)


class Stream(IterableDataset):
    def __iter__(self):
        info = torch.utils.data.get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        return iter(range(first, 60, step))


def images(*steps):
    dataset = ImageFolder(os.environ["IMAGES"], transforms.Compose([transforms.RandomResizedCrop(32), *steps]))
    dataset.samples = dataset.samples * 5
    return dataset


MAKERS = {
    "native": lambda: images(transforms.ToTensor()),
    "python part": lambda: images(transforms.ToTensor(), lambda image: image + torch.rand(1)),
    "map, drawing": Numbers,
    "map": Unordered,
    "iterable": Stream,
}


def digest(batches):
    total = hashlib.sha256()
    for batch in batches:
        for tensor in batch if isinstance(batch, list) else [batch]:
            total.update(tensor.numpy().tobytes())
    return total.hexdigest()


def loader_of(name, loader_class=fastload.DataLoader, num_workers=2, **arguments):
    return loader_class(MAKERS[name](), batch_size=4, num_workers=num_workers, **arguments)


def digest_of(name, loader_class=fastload.DataLoader, **arguments):
    torch.manual_seed(7)
    return digest(loader_of(name, loader_class, **arguments))


def digests_of_torch(**arguments):
    arguments = arguments or {"multiprocessing_context": "fork"}
    return {name: digest_of(name, torch.utils.data.DataLoader, **arguments) for name in MAKERS}
"""


@pytest.fixture
def environment(image_folder: Path) -> dict[str, str]:
    return {"IMAGES": str(image_folder)}


def test_a_script_without_a_main_guard_under_spawn(run_script: RunChild) -> None:
    """Worker processes import the script, which starts workers, which import the script."""
    script = """
    import multiprocessing
    multiprocessing.set_start_method("spawn", force=True)
    import torch
    import fastload
    class Numbers(torch.utils.data.Dataset):
        def __len__(self):
            return 12
        def __getitem__(self, index):
            return index
    loader = {loader}(Numbers(), batch_size=5, num_workers=2{more})
    print([batch.tolist() for batch in loader])
    """
    by_torch = run_script(script.format(loader="torch.utils.data.DataLoader", more=""), check=False)
    assert by_torch.returncode != 0
    assert "before the current process has finished its bootstrapping phase" in " ".join(by_torch.stderr.split())
    expected = [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9], [10, 11]]
    result = run_script(script.format(loader="fastload.DataLoader", more=", workers='threads'"))
    assert result.stdout == f"{expected}\n"
    assert result.stderr == ""


@pytest.mark.parametrize("start_method", ["spawn", "fork"])
def test_children_of_torch_multiprocessing_load_what_their_parent_does(
    run_script: RunChild, environment: dict[str, str], start_method: str
) -> None:
    """The parent has iterated over loaders of its own before it starts them."""
    run_script(
        LOADERS
        + textwrap.dedent(f"""
        import torch.multiprocessing

        def train(rank, expected):
            for name in MAKERS:
                assert digest_of(name, workers="threads") == expected[name], (rank, name)

        if __name__ == "__main__":
            expected = digests_of_torch()
            for name in MAKERS:
                assert digest_of(name, workers="threads") == expected[name], name
            torch.multiprocessing.start_processes(train, (expected,), nprocs=2, start_method={start_method!r})
        """),
        env=environment,
        timeout=60,
    )


@pytest.mark.smoke
def test_an_iterator_is_refused_in_a_forked_child_which_then_starts_its_own(
    run_child: RunChild, environment: dict[str, str]
) -> None:
    result = run_child(
        LOADERS
        + textwrap.dedent(r"""
        import itertools
        import time
        import warnings

        # From Python 3.12 on, of every fork beside threads.
        warnings.filterwarnings("ignore", r"This process \(pid=\d+\) is multi-threaded", DeprecationWarning)
        digests = {0: digests_of_torch(num_workers=0), 2: digests_of_torch()}
        for name, (num_workers, is_persistent) in itertools.product(MAKERS, ((0, False), (2, False), (2, True))):
            expected = digests[num_workers]
            loader = loader_of(name, num_workers=num_workers, persistent_workers=is_persistent)
            torch.manual_seed(7)
            iterator = iter(loader)
            first = next(iterator)
            pid = os.fork()
            if pid == 0:
                begin = time.monotonic()
                try:
                    next(iterator)
                except fastload.ForkedProcessError as error:
                    assert f"(pid {os.getppid()})" in str(error), error
                    assert "call iter() on it again in this process" in str(error), error
                else:
                    raise AssertionError(f"{name}: the parent's iterator gave a batch")
                assert time.monotonic() - begin < 1
                assert loader.stats().batches_in_flight == 0
                loader.explain()
                torch.manual_seed(7)
                own = iter(loader)
                assert own is not iterator
                assert digest(own) == expected[name], name
                loader.close()
                del own, iterator, loader
                sys.exit(0)  # the ordinary way out, with all finalizers
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, name
            assert digest([first, *iterator]) == expected[name], name
        """),
        env=environment,
        timeout=180,  # it takes 20 s of processor time
    )
    assert result.stderr == ""
