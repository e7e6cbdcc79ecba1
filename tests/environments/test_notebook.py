"""A Jupyter kernel: cells that define classes, iterate, are interrupted, and a restart."""

from __future__ import annotations

import pytest
from notebook_kernel import Notebook

CLASSES = '''
import os
import threading
import time

import torch
from torch.utils.data import Dataset, IterableDataset

import fastload


class Numbers(Dataset):
    def __init__(self, transform):
        self.transform = transform

    def __len__(self):
        return 60

    def __getitem__(self, index):
        return self.transform(torch.tensor(index))


class Stream(IterableDataset):
    def __init__(self, transform):
        self.transform = transform

    def __iter__(self):
        info = torch.utils.data.get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        return (self.transform(torch.tensor(number)) for number in range(first, 60, step))


def num_threads_left(expected):
    """Of fastload's threads; those that have been told to end get some time for it."""
    end = time.monotonic() + 30
    while True:
        count = sum(thread.name.startswith("fastload") for thread in threading.enumerate())
        if count == expected or time.monotonic() > end:
            return count
        time.sleep(0.01)
'''


@pytest.mark.smoke
def test_cells_define_a_data_set_and_iterate_twice(notebook: Notebook) -> None:
    assert notebook.run(CLASSES) == ""
    notebook.run(
        """
        noisy = lambda number: number + torch.rand(3)
        loader = fastload.DataLoader(Numbers(noisy), batch_size=8, shuffle=True, num_workers=2)
        streamed = fastload.DataLoader(Stream(noisy), batch_size=8, num_workers=2)
        """
    )
    for name in ("loader", "streamed"):
        found = notebook.run(
            f"""
            torch.manual_seed(3)
            epochs = [[batch for batch in {name}] for _ in range(2)]
            arguments = {{"shuffle": True}} if {name} is loader else {{}}
            theirs = torch.utils.data.DataLoader(
                {name}.dataset, batch_size=8, num_workers=2, multiprocessing_context="fork", **arguments
            )
            torch.manual_seed(3)
            for epoch in epochs:
                for found, expected in zip(epoch, theirs, strict=True):
                    assert torch.equal(found, expected)
            print(len(epochs[0]), len(epochs[1]))
            """
        )
        assert found == "8 8\n"
    assert notebook.run("print(num_threads_left(0))") == "0\n"


def test_an_interrupted_cell_leaves_loader_and_iterator_usable(notebook: Notebook) -> None:
    notebook.run(CLASSES)
    notebook.run(
        """
        slow = lambda number: (time.sleep(0.05), number)[1]
        loader = fastload.DataLoader(Numbers(slow), batch_size=6, num_workers=2)
        iterator = iter(loader)
        seen = []
        """
    )
    interrupted = notebook.run(
        """
        for batch in iterator:
            seen.append(batch)
            print("one")
            time.sleep(20)
        """,
        when_it_prints=notebook.manager.interrupt_kernel,
    )
    assert interrupted.startswith("KeyboardInterrupt")
    assert notebook.run("seen += iterator; print(torch.cat(seen).tolist() == list(range(60)))") == "True\n"
    waiting = notebook.run(
        """
        stuck = fastload.DataLoader(Numbers(lambda number: time.sleep(3)), num_workers=2)
        print("waiting", flush=True)
        next(iter(stuck))
        """,
        when_it_prints=notebook.manager.interrupt_kernel,
    )
    assert waiting.startswith("KeyboardInterrupt")
    assert notebook.run("print(torch.cat([*loader]).tolist() == list(range(60)))") == "True\n"


def test_a_cell_that_is_run_again_uses_its_new_class(notebook: Notebook) -> None:
    notebook.run(CLASSES)
    for step in (1, 2):
        found = notebook.run(
            f"""
            class Steps(Numbers):
                def __getitem__(self, index):
                    return index * {step}
            arguments = dict(num_workers=2, workers="threads", persistent_workers=True)
            loader = fastload.DataLoader(Steps(None), batch_size=20, **arguments)
            print(sum(int(batch.sum()) for _ in range(2) for batch in loader))
            """
        )
        assert found == f"{2 * step * sum(range(60))}\n"
    assert notebook.run("import gc; gc.collect(); print(num_threads_left(2))") == "2\n"


@pytest.mark.parametrize("workers", ["threads", "processes"])
def test_a_kernel_restarts_while_an_iterator_is_running(notebook: Notebook, workers: str) -> None:
    notebook.run(CLASSES)
    dataset = "Numbers(lambda number: (time.sleep(0.01), number)[1])"
    running = f"loader = fastload.DataLoader({dataset}, num_workers=2, workers={workers!r})\n"
    notebook.run("import atexit; atexit.register(lambda: open('ended', 'w').close())")
    old = notebook.run(running + "iterator = iter(loader); next(iterator); print(os.getpid())")
    notebook.restart()
    # A kernel that does not end when it is asked to is killed after 5 s, and what it has registered is not called. A
    # kernel that has had children takes longer, because it counts those that have ended: so with torch's workers, too.
    if workers == "threads":
        assert notebook.run("import os; print(os.path.exists('ended'))") == "True\n"
    notebook.run(CLASSES)
    new = notebook.run(running + "assert len([*loader]) == 60; print(os.getpid())")
    assert new.strip().isdigit()
    assert new != old
