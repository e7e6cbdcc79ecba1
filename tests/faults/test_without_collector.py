"""Iterators that are dropped while Python's collector is off, as in some trainers: nothing of them stays."""

from __future__ import annotations

import pytest
from children import RunChild

pytestmark = pytest.mark.alone

PRELUDE = """
    import collections, warnings, weakref
    from numbered import Numbered
    from torch.utils.data import IterableDataset

    warnings.simplefilter("ignore")

    class Failing(Numbered):
        def sample(self, index):
            raise ValueError(f"no {index}")

    class Stream(IterableDataset):
        def __iter__(self):
            return iter(torch.arange(48.0))

    class Sampler:
        def __len__(self):
            return 3
        def __iter__(self):
            yield from (0, 1)
            raise ValueError("sampler")

    def fail(argument):
        raise ValueError("no")

    def with_absent_files(loader):
        loader.dataset.samples = [("absent.jpg", 0)] * 3 + loader.dataset.samples[:5]
        return loader

    kept = []

    def leave(num_steps, keeps_errors):
        iterator, errors = iter(make()), []
        for _ in range(num_steps):
            try:
                next(iterator)
            except StopIteration:
                break
            except Exception as error:
                errors.append(error)
        gone = weakref.ref(iterator)
        del iterator
        if keeps_errors:  # their frames have the iterator
            kept[:] = [error.with_traceback(None) for error in errors]
        errors.clear()
        return gone

    def are_threads_gone():
        return num_native_threads() == 0 and threading.active_count() == 1

    def check(num_steps, keeps_errors):
        for _ in range(5):
            assert leave(num_steps, keeps_errors)() is None, "the iterator"
        assert wait_for(are_threads_gone, 10), threading.enumerate()
        kept.clear()
        gc.collect()
        found = collections.Counter(type(each).__qualname__ for each in gc.garbage)
        assert not found, found
"""
LOADERS = {
    "native, caller": "make_loader(0, repeats=1, batch_size=3)",
    "native": "make_loader(2, repeats=1, batch_size=3)",
    "native, persistent": "make_loader(2, repeats=1, batch_size=3, persistent_workers=True)",
    "partly native": "make_python_part_loader(2, repeats=1, batch_size=3)",
    "Python, caller": "fastload.DataLoader(Numbered(48), 8, shuffle=True)",
    "Python": "fastload.DataLoader(Numbered(48), 8, num_workers=2, shuffle=True)",
    "Python, persistent": "fastload.DataLoader(Numbered(48), 8, num_workers=2, persistent_workers=True)",
    "Python, by sample": "fastload.DataLoader(Numbered(48), 8, num_workers=2, rng='sample')",
    "stream": "fastload.DataLoader(Stream(), 8, num_workers=2)",
}
LOADERS |= {
    f"{name}, processes": loader[:-1] + ", workers='processes')"
    for name, loader in LOADERS.items()
    if "num_workers=2" in loader or "part_loader(2" in loader
}
FAILING = {
    "absent files, caller": "with_absent_files(make_loader(0, repeats=1, batch_size=2))",
    "absent files": "with_absent_files(make_loader(2, repeats=1, batch_size=2))",
    "absent files, partly native": "with_absent_files(make_python_part_loader(2, repeats=1, batch_size=2))",
    "transform": "make_python_part_loader(2, fail, repeats=1, batch_size=3)",
    "data set, caller": "fastload.DataLoader(Failing(48), 8)",
    "data set": "fastload.DataLoader(Failing(48), 8, num_workers=2)",
    "collate_fn": "fastload.DataLoader(Numbered(48), 8, num_workers=2, collate_fn=fail)",
    "worker_init_fn": "fastload.DataLoader(Numbered(48), 8, num_workers=2, worker_init_fn=fail)",
    "worker_init_fn, native": "make_loader(2, repeats=1, batch_size=3, worker_init_fn=fail)",
    "indices": "make_loader(2, repeats=1, batch_size=1, batch_sampler=[[99], ['x'], [1]])",
    "sampler": "make_loader(1, repeats=1, batch_size=1, prefetch_factor=1, sampler=Sampler())",
    "sampler, Python": "fastload.DataLoader(Numbered(48), 1, num_workers=1, prefetch_factor=1, sampler=Sampler())",
}
FAILING |= {
    f"{name}, processes": loader[:-1] + ", workers='processes')"
    for name, loader in FAILING.items()
    if "num_workers=2" in loader
}


def run(run_loader_child: RunChild, loader: str, checks: str) -> None:
    run_loader_child(
        PRELUDE
        + f"""
    def make():
        return {loader}

    leave(30, False)  # what is made once in a process is made
    wait_for(are_threads_gone)
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    {checks}
    """
    )


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.smoke if name == "partly native" else ()) for name in LOADERS]
)
def test_an_iterator_that_is_dropped_leaves_nothing(run_loader_child: RunChild, name: str) -> None:
    """Drops it after no batch, after one, and after all."""
    run(run_loader_child, LOADERS[name], "check(0, False); check(1, False); check(30, False)")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.smoke if name == "transform" else ()) for name in FAILING]
)
def test_an_iterator_that_has_raised_leaves_nothing(run_loader_child: RunChild, name: str) -> None:
    """The errors may be kept or not, and some may not be raised yet."""
    run(run_loader_child, FAILING[name], "check(1, False); check(30, False); check(1, True)")
