"""Imported by children of the campaign "limits": loaders and folders at rising limits of the system, from a seed."""

from __future__ import annotations

import gc
import os
import random
import resource
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fault_loaders import LoaderCase, digest, make_case
from held import held_now, settle, settled

from fastload.sources import _folder_scan
from fastload.sources._folder_index import index_file, read_folder
from fastload.sources._image_folder import IMG_EXTENSIONS

# Errors that a limit may cause; a SampleError with an OSError is one.
ERRORS = (MemoryError, OSError, RuntimeError)


@dataclass
class LoaderTarget:
    """Gives what the batches of a loader are, one after the other."""

    case: LoaderCase

    def steps(self) -> Iterator[Any]:
        for number in range(self.case.num_epochs):
            for batch in self.case.begin(number):
                yield digest(batch)

    def drop(self) -> None:
        self.case.drop()


@dataclass
class FolderTarget:
    """Gives the samples of a folder, listed anew or out of an index."""

    root: str
    has_index: bool

    def steps(self) -> Iterator[Any]:
        file = index_file(self.root, IMG_EXTENSIONS)
        assert file is not None
        if not self.has_index:
            file.unlink(missing_ok=True)
        table = read_folder(self.root, IMG_EXTENSIONS, "auto").table
        yield [table.sample(number) for number in range(len(table))]

    def drop(self) -> None:
        pass


Target = LoaderTarget | FolderTarget


def _address_space(choose: random.Random) -> list[int]:
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    return [used + int(2 ** choose.uniform(12, 28)) for _ in range(4)] + [used, used + 2**31]


def _descriptors(choose: random.Random) -> list[int]:
    return list(range(choose.randrange(4), held_now().descriptors + 12))


def _processes(choose: random.Random) -> list[int]:
    return list(range(held_now().threads, held_now().threads + 12))


def _file_size(choose: random.Random) -> list[int]:
    return [0, choose.randrange(1, 200), choose.randrange(200, 2000), 2**20]


# The levels for each limit.
LIMITS: dict[int, Callable[[random.Random], list[int]]] = {
    resource.RLIMIT_AS: _address_space,
    resource.RLIMIT_NOFILE: _descriptors,
    resource.RLIMIT_NPROC: _processes,
    resource.RLIMIT_FSIZE: _file_size,
}


def attempt(target: Target) -> tuple[list[Any], BaseException | None]:
    """Returns the results before an error, and the error."""
    found: list[Any] = []
    try:
        found.extend(target.steps())  # keeps what came before
    except Exception as error:  # noqa: BLE001 - its type is looked at when there is room again
        return found, error
    return found, None


def assert_holds(target: Target, limit: int, levels: list[int]) -> int:
    """Sets a limit to each of `levels` in rising order, until all works; returns the number of levels that failed.

    Raises AssertionError if a level causes another error, a wrong result or a leak, or if the target does not work once
    the limit is lifted.
    """
    soft, hard = resource.getrlimit(limit)
    for _ in range(2):  # what is made once in a process is made
        expected, error = attempt(target)
        assert error is None, error
        target.drop()
    gc.collect()
    before = settled()
    for number, level in enumerate(sorted(levels)):
        resource.setrlimit(limit, (level, hard))
        found, error = attempt(target)
        resource.setrlimit(limit, (soft, hard))
        is_enough = error is None
        assert is_enough or isinstance(error, ERRORS), (level, repr(error))
        assert found == expected[: len(found)], (level, "wrong")
        assert not is_enough or len(found) == len(expected), (level, "short")
        error = None
        target.drop()
        gc.collect()
        assert (now := settle(before)) == before, (level, now, before)
        again, error = attempt(target)
        assert error is None, (level, "behind it", repr(error))
        assert again == expected, (level, "wrong behind it")
        target.drop()
        gc.collect()
        if is_enough:
            return number
    return len(levels)


def become_a_user(folder: Path) -> None:
    """Becomes a user, because the limit on processes counts per user and not for root; gives `folder` to the user."""
    if os.getuid() == 0:
        user = 100_000 + os.getpid()
        for path in [folder, *folder.rglob("*")]:
            os.chown(path, user, user)
        os.setuid(user)


def run_case(seed: int) -> None:
    choose = random.Random(seed)
    limit = choose.choice(list(LIMITS))
    is_folder = limit == resource.RLIMIT_FSIZE or choose.random() < 0.2
    folder = Path(tempfile.mkdtemp())
    try:
        images = shutil.copytree(os.environ["FASTLOAD_TEST_FOLDER"], folder / "images")
        os.environ.update(FASTLOAD_TEST_FOLDER=str(images), FASTLOAD_CACHE=str(folder / "cache"))
        _folder_scan.SETTLED_AFTER_NS = 0
        if limit == resource.RLIMIT_NPROC:
            become_a_user(folder)
        case = make_case(seed)
        target: Target = FolderTarget(str(images), choose.random() < 0.5) if is_folder else LoaderTarget(case)
        try:
            assert_holds(target, limit, LIMITS[limit](choose))
        except AssertionError as error:
            raise AssertionError(f"limit {limit}: {error}, {target}") from error
    finally:
        shutil.rmtree(folder)
