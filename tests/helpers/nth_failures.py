"""Fails the n-th call of a kind, for n = 1, 2, ... until all succeed, as SQLite's tests do.

Runs in a child that has the library of failing_calls.py and in which Python takes each object from malloc. An
operation makes a loader and iterates over it, or lists a folder. After each n: the error is fastload's or the system's,
no batch has other bytes, no threads, descriptors and memory are left, and the same loader now gives the right bytes.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import gc
import io
import os
import re
import shutil
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import recipes
import torch
from both_loaders import Threads
from failing_calls import FOREVER, Shim
from held import settle, settled
from image_folders import make_clean_folder, synthetic_image
from PIL import Image
from torchvision import transforms

import fastload
from fastload import _native
from fastload._process import _started_thread
from fastload.sources import _folder_scan

NUM_IMAGES = 12
BATCH_SIZE = 4
# The longest time for one n; after it the test counts as hanging, and the stacks of all threads are printed.
SECONDS_OF_ONE = 30.0
# The allowed growth of the heap over a whole loop; it varies with threads that end.
SPARE_BYTES = 2_000_000

Outcome = tuple[list[Any], list[BaseException]]


class _HeapFacts(ctypes.Structure):
    """struct mallinfo2, of which two numbers count here: bytes given out, and bytes in mappings of their own."""

    _fields_ = [
        *((f"other_{number}", ctypes.c_size_t) for number in range(4)),
        ("mapped", ctypes.c_size_t),
        *((f"other_{number}", ctypes.c_size_t) for number in range(4, 6)),
        ("given_out", ctypes.c_size_t),
        *((f"other_{number}", ctypes.c_size_t) for number in range(6, 8)),
    ]


def heap_bytes() -> int:
    """Returns the number of bytes that the allocator has given out."""
    mallinfo2 = ctypes.CDLL(None).mallinfo2
    mallinfo2.restype = _HeapFacts
    facts = mallinfo2()
    return int(facts.given_out) + int(facts.mapped)


def let_go() -> None:
    """Releases unused objects: native code releases the ones it kept at its next call."""
    gc.collect()
    _native.ListedIndex.of([])


class OpensImages(torch.utils.data.Dataset[Any]):
    """A data set in Python that opens images with Pillow."""

    def __init__(self, paths: list[Path], transform: Callable[[Any], Any]) -> None:
        self.paths = paths
        self.transform = transform

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Any:
        with Image.open(self.paths[index]) as image:
            return self.transform(image.convert("RGB")), index


def add_one(image: torch.Tensor) -> torch.Tensor:
    """Adds one: a transform in Python."""
    return image + 1


class LoaderSetting:
    """A loader. With `is_drawing` batches depend on those before, which a failure changes; else each is compared."""

    def __init__(self, make: Callable[[], fastload.DataLoader[Any]], mode: str, *, is_drawing: bool = False) -> None:
        self._make = make
        self.compares_each = not is_drawing
        self._loader: fastload.DataLoader[Any] | None = None
        loader = make()
        assert str(loader.explain()).startswith(mode), loader.explain()

    def begin(self) -> None:
        self._loader = None

    def run(self) -> Outcome:
        errors: list[BaseException] = []
        try:
            self._loader = self._make()
            return self.again(errors)
        except Exception as error:  # noqa: BLE001 - it is looked at
            return [], [*errors, error]

    def again(self, errors: list[BaseException] | None = None) -> Outcome:
        """Runs an epoch, with the same loader if there is one."""
        if self._loader is None:
            self._loader = self._make()
        torch.manual_seed(0)
        errors = [] if errors is None else errors
        batches = []
        iterator = iter(self._loader)
        while len(errors) < 2 * NUM_IMAGES:
            try:
                images, labels = next(iterator)
            except StopIteration:
                break
            except Exception as error:  # noqa: BLE001 - it is looked at
                errors.append(error)
            else:
                batches.append((labels.tolist(), images.numpy().tobytes()))
        return batches, errors

    def end(self) -> None:
        self._loader = None


class FolderSetting:
    """A folder that is listed, with an index file or without one."""

    compares_each = False

    def __init__(self, root: Path, index: str, cache: Path, *, has_index: bool) -> None:
        self._root, self._index, self._cache, self._has_index = root, index, cache, has_index

    def begin(self) -> None:
        if self._index == "off":
            return
        if not self._has_index:
            shutil.rmtree(self._cache, ignore_errors=True)
        elif not self._cache.exists():
            self.again()

    def run(self) -> Outcome:
        try:
            return self.again()
        except Exception as error:  # noqa: BLE001 - it is looked at
            return [], [error]

    def again(self) -> Outcome:
        folder = fastload.ImageFolder(self._root, index=self._index)
        return [list(folder.samples), folder.classes], []

    def end(self) -> None:
        if self._cache.exists():
            assert not list(self._cache.glob("*.tmp")), list(self._cache.iterdir())


def make_settings(folder: Path) -> dict[str, Callable[[], Any]]:
    """Returns by name functions that make a setting."""
    root = make_clean_folder(folder / "images", NUM_IMAGES)
    paths = sorted(root.glob("*/*"))
    png = paths[6].with_suffix(".png")
    synthetic_image(6, 150, 170).save(png)
    paths[6].unlink()
    paths[6] = png
    evaluation = recipes.evaluation(40, 32)
    cache = folder / "cache"
    os.environ["FASTLOAD_CACHE"] = str(cache)
    _folder_scan.SETTLED_AFTER_NS = 0  # what was just made would be listed again

    def files(transform: Any, paths: Sequence[Path] = paths, **arguments: Any) -> fastload.DataLoader[Any]:
        data = fastload.ImageFiles(paths, range(NUM_IMAGES), transform)
        return Threads(data, batch_size=BATCH_SIZE, num_workers=2, **arguments)

    some_missing = [*paths[:3], root / "missing.jpg", *paths[4:]]
    replacing = {"on_error": "replace", "max_errors": 1}
    python_part = transforms.Compose([*evaluation.transforms, add_one])
    opening = OpensImages(paths, evaluation)
    return {
        "native": lambda: LoaderSetting(lambda: files(evaluation), "native"),
        "drawing": lambda: LoaderSetting(lambda: files(recipes.training(32)), "native", is_drawing=True),
        "replacing": lambda: LoaderSetting(
            lambda: files(recipes.training(32), some_missing, **replacing), "native", is_drawing=True
        ),
        "mixed": lambda: LoaderSetting(lambda: files(python_part), "partly native"),
        "python": lambda: LoaderSetting(lambda: Threads(opening, batch_size=BATCH_SIZE, num_workers=2), "not native"),
        "scan": lambda: FolderSetting(root, "off", cache, has_index=False),
        "index write": lambda: FolderSetting(root, "auto", cache, has_index=False),
        "index read": lambda: FolderSetting(root, "auto", cache, has_index=True),
    }


class Noted:
    """Records exceptions that nobody can catch."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        sys.unraisablehook = lambda it: self._texts.append(f"{it.exc_type.__name__} in {it.object!r}: {it.exc_value}")
        threading.excepthook = lambda it: self._texts.append(f"{it.exc_type.__name__} in {it.thread}")

    def take(self) -> list[str]:
        texts, self._texts[:] = self._texts.copy(), []
        return texts


def check_errors(errors: list[BaseException]) -> None:
    for error in errors:
        check_error(error)


def check_error(error: BaseException) -> None:
    is_known = isinstance(error, (fastload.FastloadError, MemoryError, OSError))
    if not is_known and isinstance(error, RuntimeError):
        is_known = "thread" in str(error) and ("start" in str(error) or "did not begin" in str(error))
    if not is_known or not (str(error) or isinstance(error, MemoryError)):
        raise AssertionError(f"{error!r} is none of ours") from error


class Loop:
    """All n of one setting and one kind of call.

    Args:
        setting: A setting of make_settings().
        call: A key of failing_calls.ERRORS, or "Thread.start".
        times: How many calls fail, from the n-th on.
    """

    def __init__(self, setting: Any, call: str, times: int, shim: Shim) -> None:
        self._setting, self._call, self._times, self._shim = setting, call, times, shim
        setting.begin()
        self._good = setting.again()[0]
        for _ in range(3):
            setting.begin()
            assert setting.run() == (self._good, [])
            assert setting.again() == (self._good, [])
            setting.end()
        let_go()
        self._held = settled()
        self._noted = Noted()

    def count(self) -> int:
        """Counts the calls of the kind if none fails; with threads the number varies a little."""
        return self._run(FOREVER)[1]

    def run(self, most: int | None) -> int:
        """Checks `most` n, evenly among all; None: each until the first that no call reaches. Returns the last n."""
        before = heap_bytes()
        last = self.count()
        assert last > 0, f"no call of {self._call}"
        if most is None:
            last = 0
            while self.check(last + 1):
                last += 1
        else:
            for n in sorted({1 + (last - 1) * part // max(1, most - 1) for part in range(most)}):
                self.check(n)
        let_go()
        grown = heap_bytes() - before
        assert grown < SPARE_BYTES, f"{grown} bytes are not given back"
        return last

    def check(self, n: int) -> bool:
        """Fails the n-th call and checks the results; returns whether the call came."""
        print(self._call, n, flush=True)
        faulthandler.dump_traceback_later(SECONDS_OF_ONE, exit=True)
        (found, errors), seen = self._run(n)
        check_errors(errors)
        if not errors:
            assert found == self._good, "wrong bytes, and no error"
        elif self._setting.compares_each:
            assert all(batch in self._good for batch in found), "wrong bytes beside an error"
        del errors, found
        # The state of an iterator that is dropped without memory is lost, as Python says.
        texts = [text for text in self._noted.take() if not re.match(r"MemoryError in .*_when_dropped", text)]
        assert self._call == "thread memory" or not texts, texts
        again = self._setting.again()
        assert again == (self._good, []), f"the next one gave {again[1]}"
        self._setting.end()
        faulthandler.cancel_dump_traceback_later()  # which is a thread
        let_go()
        held = settle(self._held)
        assert held == self._held, f"{held} instead of {self._held}: {threading.enumerate()}"
        return seen >= n

    def _run(self, n: int) -> tuple[Outcome, int]:
        self._setting.begin()
        with failing(self._shim, self._call, n, self._times), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            outcome = self._setting.run()
        return outcome, self._shim.seen


@contextlib.contextmanager
def failing(shim: Shim, call: str, n: int, times: int) -> Any:
    """Does what Shim.failing does, also for the start of Python's threads."""
    if call != "Thread.start":
        with shim.failing(call, n, times):
            yield
        return
    name = "_start_joinable_thread" if hasattr(threading, "_start_joinable_thread") else "_start_new_thread"
    start, seen = getattr(threading, name), 0

    def start_or_fail(*arguments: Any, **named: Any) -> Any:
        nonlocal seen
        seen += 1
        if n <= seen < n + times:
            raise RuntimeError("can't start new thread")
        return start(*arguments, **named)

    setattr(threading, name, start_or_fail)
    try:
        yield
    finally:
        setattr(threading, name, start)
        shim.seen = seen


def run_native_calls() -> None:
    """Runs single native calls in which the n-th and all later allocations fail, when Python has no MemoryError left.

    Python keeps 16 in reserve. If it needs another one then and there is no memory, it ends the process.
    """
    faulthandler.enable()
    file = io.BytesIO()
    synthetic_image(1, 40, 30).save(file, "JPEG")
    jpeg = file.getvalue()
    decoder = _native.SampleDecoder(max_file_bytes=1 << 20, max_pixels=1 << 20, native_jpeg=True)
    plan = _native.TransformPlan(
        [], element_size=1, channels_last=True, table=None, resize_order="horizontal_first", allow_variable_size=True
    )
    draws, buffer = _native.CounterDraws(0, 0, 0), _native.BufferPool(1).allocate(2 * 40 * 30 * 3)
    opened = tempfile.TemporaryFile()  # noqa: SIM115
    opened.write(jpeg)
    opened.flush()
    calls: list[Callable[[], Any]] = [
        lambda: decoder.check_bytes(jpeg),
        lambda: decoder.read_open(opened.fileno()),
        lambda: _native.decode_jpeg(jpeg),
        lambda: _native.read_plain_header({"info": {}}, jpeg),
        lambda: decoder.run_bytes(jpeg, plan, draws, _native.BatchRows(buffer, 2), 1),
        lambda: _native.Resize(height=5, width=7, interpolation="bilinear"),
        lambda: _native.Resize(height="5", width=7, interpolation="bilinear"),  # type: ignore[arg-type]
    ]
    shim = Shim()
    shim.watch(Path("/nowhere"), "/_core.")
    held: list[BaseException] = [MemoryError() for _ in range(32)]
    for number, call in enumerate(calls):
        n, is_over = 0, False
        while not is_over:
            n += 1
            print("native call", number, n, flush=True)
            with shim.failing("malloc", n, FOREVER):
                try:
                    call()
                except (MemoryError, TypeError) as error:
                    held.append(error)
            is_over = shim.seen < n
        assert n > 1, "no allocation"


def run(setting: str, calls: Iterable[str], times: int, most: int | None) -> None:
    """Runs the loop of each kind of call. Prints each n before it begins, and "last" with the last one and the call."""
    torch.set_num_threads(1)
    faulthandler.enable()
    _started_thread.BEGIN_SECONDS = 0.5
    folder = Path("nth").resolve()
    made = make_settings(folder)[setting]()
    shim = Shim()
    for call in calls:
        shim.watch(folder, "/_core.")
        print("last", Loop(made, call, times, shim).run(most), call, flush=True)
