"""Decoding by Pillow, its reports of failures, and the threads that run it for the engine."""

from __future__ import annotations

import errno
import gc
import os
import queue
import threading
import warnings
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import PIL
import pytest
from children import RunChild
from PIL import Image, UnidentifiedImageError, features
from torchvision.datasets.folder import pil_loader

import fastload
from fastload._errors import sample_error
from fastload._pillow import _pillow
from fastload._pillow._pillow import (
    DecodedPixels,
    FallbackThread,
    classify_failure,
    decode_rgb,
    max_pixels,
    native_jpeg_is_exact,
    open_rgb,
    pillow_info,
)
from fastload._process._exit import join_threads


@pytest.fixture
def jpeg(tmp_path: Path) -> Path:
    path = tmp_path / "ok.jpg"
    Image.radial_gradient("L").resize((37, 23)).convert("RGB").save(path, quality=95)
    return path


class FakeTask:
    directory = None

    def __init__(self, path: bytes) -> None:
        self.path = path
        self.result: DecodedPixels | None = None
        self.error: BaseException | None = None
        self.done = threading.Event()

    def complete(self, pixels: bytes, width: int, height: int) -> None:
        self.result = DecodedPixels(pixels, width, height)
        self.done.set()

    def fail(self, exception: BaseException) -> None:
        self.error = exception
        self.done.set()


class FakeEngine:
    """A queue with the engine's closing rule: after close every waiter gets None."""

    def __init__(self) -> None:
        self.tasks: queue.SimpleQueue[FakeTask | None] = queue.SimpleQueue()
        self.is_closed = False

    def next_fallback(self) -> FakeTask | None:
        task = self.tasks.get()
        if task is None:
            self.tasks.put(None)
        return task

    def close(self) -> None:
        self.is_closed = True
        self.tasks.put(None)


def failure_of(path: Path | str) -> Exception:
    try:
        decode_rgb(str(path))
    except Exception as error:  # noqa: BLE001
        return error
    raise AssertionError("decoded")


@pytest.mark.parametrize("mode", ["RGB", "L", "CMYK", "P", "RGBA", "1", "LA", "I;16"])
def test_pixels_are_those_of_pil_loader(tmp_path: Path, mode: str) -> None:
    path = tmp_path / "image"
    gradient = Image.radial_gradient("L").resize((19, 11))
    image = gradient.convert(mode) if mode != "I;16" else gradient.convert("I").convert("I;16")
    image.save(path, format="TIFF")
    expected = pil_loader(str(path))
    assert decode_rgb(os.fsencode(path)) == (expected.tobytes(), 19, 11)


@pytest.mark.parametrize("kind", ["missing", "folder", "empty", "html", "half", "loop"])
def test_errors_have_the_type_and_text_of_pil_loader(tmp_path: Path, jpeg: Path, kind: str) -> None:
    path = tmp_path / "victim.jpg"
    if kind == "folder":
        path.mkdir()
    elif kind == "loop":
        path.symlink_to(path)
    elif kind != "missing":
        data = {"empty": b"", "html": b"<html><body>", "half": jpeg.read_bytes()[:-200]}[kind]
        path.write_bytes(data)
    got = failure_of(path)
    with pytest.raises(type(got)) as expected:
        pil_loader(str(path))
    assert type(got) is type(expected.value)
    assert str(got) == str(expected.value)


def test_a_fifo_is_refused_at_once(tmp_path: Path) -> None:
    path = tmp_path / "pipe.jpg"
    os.mkfifo(path)
    error = failure_of(path)
    assert str(error) == f"[Errno 22] not a regular file: {str(path)!r}"
    assert classify_failure(error, str(path))[0] == "open"


def test_a_failing_open_leaks_no_descriptor(tmp_path: Path) -> None:
    path = tmp_path / "pipe.jpg"
    os.mkfifo(path)
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(20):
        failure_of(path)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


@pytest.mark.parametrize(
    ("content", "stage", "detail"),
    [
        (b"", "header", "empty file"),
        (b"<html><head><title>404", "header", "not an image: first bytes b'<html><head><tit'"),
        (None, "open", None),
    ],
)
def test_failures_name_stage_and_what_the_file_starts_with(
    tmp_path: Path, content: bytes | None, stage: str, detail: str | None
) -> None:
    path = tmp_path / "x.jpg"
    if content is not None:
        path.write_bytes(content)
    assert classify_failure(failure_of(path), str(path)) == (stage, detail)


def test_truncated_files_fail_in_decode_and_bombs_at_the_limit(
    tmp_path: Path, jpeg: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    half = tmp_path / "half.jpg"
    half.write_bytes(jpeg.read_bytes()[:-200])
    assert classify_failure(failure_of(half), str(half))[0] == "decode"
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 37 * 23 // 3)
    assert classify_failure(failure_of(jpeg), str(jpeg))[0] == "limit"
    assert max_pixels() == 37 * 23 // 3


def test_read_errors_without_a_file_name_are_stage_read() -> None:
    assert classify_failure(OSError(5, "Input/output error"), "x")[0] == "read"


def test_sample_error_from_a_failure_is_still_an_unidentified_image_error(tmp_path: Path) -> None:
    path = tmp_path / "x.jpg"
    path.write_bytes(b"")
    cause = failure_of(path)
    stage, detail = classify_failure(cause, str(path))
    error = sample_error(4, str(path), stage, cause, detail=detail)
    assert isinstance(error, UnidentifiedImageError)
    assert "(empty file)" in str(error)


def test_pillow_info_describes_the_installed_pillow() -> None:
    info = pillow_info()
    assert info.version == PIL.__version__
    assert info.libjpeg_turbo == features.version_feature("libjpeg_turbo")
    assert max_pixels() == Image.MAX_IMAGE_PIXELS


@pytest.mark.parametrize("limit", [None, 0, -1, 1e9, 851.5, 850.5, float("inf"), float("nan"), 10**20, 1 << 63, True])
def test_pillows_pixel_limit_may_be_any_number(jpeg: Path, monkeypatch: pytest.MonkeyPatch, limit: Any) -> None:
    """The image has 851 pixels."""
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", limit)

    def outcome(load: Any) -> Any:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                return np.asarray(load(jpeg)).tobytes(), [warning.category for warning in caught]
            except Image.DecompressionBombError:
                return "refused"

    expected = outcome(lambda path: Image.open(path).convert("RGB"))
    assert outcome(lambda path: fastload.decode_image(path, output="pil")) == expected


def test_a_file_with_a_lease_is_waited_for(jpeg: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    open_file, flags = os.open, []

    def refuse_not_to_wait(path: str, given: int, *, dir_fd: int | None) -> int:
        flags.append(given & os.O_NONBLOCK)
        if flags[-1]:
            raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable", path)
        return open_file(path, given, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", refuse_not_to_wait)
    assert open_rgb(str(jpeg)).size == (37, 23)
    assert flags == [os.O_NONBLOCK, 0]


def test_a_format_that_another_thread_has_loaded_meanwhile_is_asked(
    jpeg: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pillow compares with the formats that exist now, not with those that it has tried."""
    open_image, calls = Image.open, []

    def open_too_early(file: Any) -> Any:
        calls.append(file)
        if len(calls) == 1:
            file.read(9)
            monkeypatch.setattr(Image, "ID", [*Image.ID, "NEW"])
            raise UnidentifiedImageError("cannot identify image file")
        return open_image(file)

    expected = open_rgb(str(jpeg)).tobytes()
    monkeypatch.setattr(Image, "open", open_too_early)
    assert open_rgb(str(jpeg)).tobytes() == expected
    assert len(calls) == 2


@pytest.mark.parametrize(
    ("turbo", "exact"), [("3.2.0", True), ("2.1.5", True), ("2.0.6", False), ("1.5.1", False), (None, False)]
)
def test_native_jpeg_is_exact_only_with_a_recent_libjpeg_turbo(
    monkeypatch: pytest.MonkeyPatch, turbo: str | None, exact: bool
) -> None:
    monkeypatch.setattr(features, "version_feature", lambda name: turbo)
    monkeypatch.setattr(features, "check_feature", lambda name: name == "libjpeg_turbo")
    verdict = native_jpeg_is_exact()
    assert verdict.is_exact is exact
    assert (turbo or "other than libjpeg-turbo") in verdict.reason


def test_mozjpeg_does_not_count_as_libjpeg_turbo(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(features, "check_feature", lambda name: True)
    assert pillow_info().libjpeg_turbo is None
    assert not native_jpeg_is_exact().is_exact


def test_pillow_simd_is_recognised_by_its_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_pillow, "__version__", "9.5.0.post1")
    assert pillow_info().is_simd


@pytest.mark.parametrize("raised", [MemoryError("m"), SystemExit(3), KeyboardInterrupt(), RecursionError("r")])
def test_any_exception_goes_to_the_task_and_the_thread_goes_on(
    jpeg: Path, monkeypatch: pytest.MonkeyPatch, raised: BaseException
) -> None:
    def explode(path: bytes, directory: int | None) -> DecodedPixels:
        raise raised

    engine = FakeEngine()
    thread = FallbackThread(engine, 0)
    thread.start()
    with monkeypatch.context() as patch:
        patch.setattr(_pillow, "decode_rgb", explode)
        first = FakeTask(b"x")
        engine.tasks.put(first)
        assert first.done.wait(10)
    second = FakeTask(os.fsencode(jpeg))
    engine.tasks.put(second)
    assert second.done.wait(10)
    assert first.error is raised
    assert second.result is not None
    engine.close()
    assert join_threads([thread], 10)


def test_a_kept_error_keeps_neither_task_nor_engine_alive(tmp_path: Path) -> None:
    engine = FakeEngine()
    thread = FallbackThread(engine, 0)
    thread.start()
    task = FakeTask(os.fsencode(tmp_path / "gone"))
    engine.tasks.put(task)
    assert task.done.wait(10)
    error = task.error
    engine.close()
    assert join_threads([thread], 10)
    task_gone, engine_gone = weakref.ref(task), weakref.ref(engine)
    del task, engine, thread
    gc.collect()
    assert isinstance(error, FileNotFoundError)
    assert task_gone() is None
    assert engine_gone() is None


def test_a_bomb_warning_stays_a_warning(jpeg: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 37 * 23 - 1)
    with pytest.warns(Image.DecompressionBombWarning):
        assert decode_rgb(str(jpeg)).width == 37


THREADS = """
import atexit, os, sys, threading, time
from fastload._pillow._pillow import FallbackThread
from fastload._process._exit import start_threads

class Engine:
    def __init__(self):
        self.woken = threading.Event()
    def next_fallback(self):
        self.woken.wait()
    def close(self):
        self.woken.set()

"""
CHILDREN: dict[str, tuple[str, int, str]] = {
    "an exit closes waiting threads": (
        """
engine = Engine()
# Registered before the hook, so it runs after it.
atexit.register(lambda: print(engine.woken.is_set(), threading.active_count()))
start_threads([FallbackThread(engine, number) for number in range(3)])
sys.exit(7)
""",
        7,
        "True 1\n",
    ),
    "an exit does not wait for a decoder that is stuck": (
        """
class Stuck(Engine):
    def next_fallback(self):
        time.sleep(600)
start_threads([FallbackThread(Stuck(), number) for number in range(2)])
""",
        0,
        "",
    ),
    "a forked child does not touch its parent's engine": (
        """
class Parent(Engine):
    def close(self):
        if os.getpid() != owner:
            print("closed in child", flush=True)
        super().close()
owner = os.getpid()
FallbackThread(Parent(), 0).start()
if os.fork() == 0:
    sys.exit(0)
print(os.wait()[1])
""",
        0,
        "0\n",
    ),
}


@pytest.mark.parametrize("name", CHILDREN)
def test_threads_end_with_their_process(run_child: RunChild, name: str) -> None:
    program, status, printed = CHILDREN[name]
    child = run_child(THREADS + program, check=False)
    assert (child.returncode, child.stdout, child.stderr) == (status, printed, "")
