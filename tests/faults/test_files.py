"""Bad files: one fault costs one batch, the error names the file, and the iterator goes on."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import recipes
import torch
from image_folders import make_clean_folder
from PIL import Image, UnidentifiedImageError
from torchvision.datasets import ImageFolder

import fastload
from fastload._pillow import _pillow

WORKERS = pytest.mark.parametrize("num_workers", [0, 2])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Makes twelve clean JPEGs that a test may spoil."""
    return make_clean_folder(tmp_path / "images", 12)


def iterate_to_the_end(loader: fastload.DataLoader) -> tuple[list[bytes], list[fastload.SampleError]]:
    batches, errors = [], []
    iterator = iter(loader)
    while True:
        try:
            images, _ = next(iterator)
            batches.append(images.numpy().tobytes())
        except StopIteration:
            return batches, errors
        except fastload.SampleError as error:
            errors.append(error)


def spoil_and_load(folder: Path, num_workers: int, spoil: Callable[[Path], object]) -> fastload.SampleError:
    """Spoils sample 5 after the index was made, loads all in batches of 4, and returns the only error."""
    dataset = ImageFolder(str(folder), recipes.evaluation(64, 56))
    expected = recipes.bytes_of(fastload.DataLoader(dataset, batch_size=4))
    path = Path(dataset.samples[5][0])
    spoil(path)
    loader = fastload.DataLoader(dataset, batch_size=4, num_workers=num_workers)
    batches, errors = iterate_to_the_end(loader)
    assert batches == [expected[0][0], expected[2][0]]
    assert len(errors) == 1
    error = errors[0]
    assert (error.index, error.path) == (5, str(path))
    assert "sample 5" in str(error)
    assert path.name in str(error)
    assert loader.stats().samples_failed == 1
    return error


def make_fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def make_loop(path: Path) -> None:
    path.unlink()
    path.symlink_to(path)


def enlarge(path: Path) -> None:
    """Writes 65535 x 65535 into the frame header."""
    data = bytearray(path.read_bytes())
    frame_header = data.index(b"\xff\xc0")
    data[frame_header + 5 : frame_header + 9] = b"\xff\xff\xff\xff"
    path.write_bytes(data)


# How a file is spoiled, and the error's class, stage, number and words; not every error has a number.
SPOILED: dict[str, tuple[Callable[[Path], object], type[Exception], str, int | None, str]] = {
    "vanished": (Path.unlink, FileNotFoundError, "open", errno.ENOENT, ""),
    "truncated": (lambda path: os.truncate(path, path.stat().st_size // 2), OSError, "decode", None, "truncated"),
    "empty": (lambda path: path.write_bytes(b""), UnidentifiedImageError, "header", None, "empty file"),
    "no image": (
        lambda path: path.write_bytes(b"<html>not here</html>"),
        *(UnidentifiedImageError, "header", None, "not an image: first bytes b'<html>"),
    ),
    "a FIFO": (make_fifo, OSError, "open", None, "not a regular file"),
    "a loop of links": (make_loop, OSError, "open", errno.ELOOP, ""),
    "huge and sparse": (
        lambda path: os.truncate(path, 5 << 30),
        *(OSError, "limit", errno.EFBIG, "Files of more than 1024 MiB are not read"),
    ),
    "a header of 65535 squared": (enlarge, Exception, "limit", None, "decompression bomb"),
}


@WORKERS
@pytest.mark.parametrize("name", SPOILED)
def test_a_bad_file_is_an_error_that_says_what_is_wrong(folder: Path, num_workers: int, name: str) -> None:
    spoil, kind, stage, number, words = SPOILED[name]
    error = spoil_and_load(folder, num_workers, spoil)
    assert isinstance(error, kind)
    assert (error.stage, error.errno) == (stage, number)
    assert words in str(error)
    if name == "truncated":  # in Pillow's words
        assert isinstance(error.__cause__, OSError)


# Holds a lease on a file, as a file server does for a client, until half a second after the kernel breaks it.
HOLD_LEASE = """
import fcntl, signal, sys, time
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGIO])
file = open(sys.argv[1], "r+b")
fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
print("held", flush=True)
signal.sigwait([signal.SIGIO])
time.sleep(0.5)
fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_UNLCK)
"""


@WORKERS
@pytest.mark.parametrize("suffix", ["JPEG", "png"])
def test_a_file_that_another_process_has_a_lease_on_is_waited_for(folder: Path, num_workers: int, suffix: str) -> None:
    dataset = ImageFolder(str(folder), recipes.evaluation(64, 56))
    path = Path(dataset.samples[5][0])
    if suffix == "png":
        Image.open(path).save(path, "PNG")
    expected = recipes.bytes_of(torch.utils.data.DataLoader(dataset, batch_size=4))
    command = [sys.executable, "-c", HOLD_LEASE, path]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        if holder.stdout.readline() != "held\n":
            pytest.skip(f"no leases here: {holder.communicate()[1][-300:]}")
        assert recipes.bytes_of(fastload.DataLoader(dataset, batch_size=4, num_workers=num_workers)) == expected
    assert holder.returncode == 0


@WORKERS
def test_a_stream_with_a_hole_gives_pillows_pixels_and_is_counted(folder: Path, num_workers: int) -> None:
    dataset = ImageFolder(str(folder), recipes.evaluation(64, 56))
    path = Path(dataset.samples[5][0])
    data = bytearray(path.read_bytes())
    middle = len(data) * 2 // 3
    del data[middle : middle + 40]
    path.write_bytes(data)
    expected = dataset[5][0]
    loader = fastload.DataLoader(dataset, batch_size=12, num_workers=num_workers)
    iterator = iter(loader)
    images, _ = next(iterator)
    assert images[5].equal(expected)
    assert iterator.batch_report()[5].source == "fallback"
    assert loader.stats().samples_fallback == 1


@WORKERS
def test_the_first_of_several_errors_in_a_batch_is_raised(folder: Path, num_workers: int) -> None:
    dataset = ImageFolder(str(folder), recipes.evaluation(64, 56))
    for index in (3, 7, 9):
        Path(dataset.samples[index][0]).unlink()
    loader = fastload.DataLoader(dataset, batch_size=12, num_workers=num_workers)
    with pytest.raises(fastload.SampleError) as raised:
        next(iter(loader))
    assert raised.value.index == 3


@WORKERS
@pytest.mark.parametrize("name", ["with space.jpg", "with\nnewline.jpg", "ünïcode-日本.jpg", "y" * 251 + ".jpg"])
def test_unusual_names_load(tmp_path: Path, name: str, num_workers: int) -> None:
    make_clean_folder(tmp_path, 3, num_classes=1)
    (tmp_path / "class0" / "0001.JPEG").rename(tmp_path / "class0" / name)
    dataset = ImageFolder(str(tmp_path), recipes.evaluation(64, 56))
    assert len(list(fastload.DataLoader(dataset, num_workers=num_workers))) == 3


def test_names_that_are_not_utf8_load_and_print(tmp_path: Path) -> None:
    make_clean_folder(tmp_path, 2, num_classes=1)
    folder = os.fsencode(tmp_path / "class0")
    os.rename(folder + b"/0001.JPEG", folder + b"/caf\xe9.jpg")  # noqa: PTH104 - bytes
    dataset = ImageFolder(str(tmp_path), recipes.evaluation(64, 56))
    loader = fastload.DataLoader(dataset, num_workers=1)
    assert len(list(loader)) == 2
    os.unlink(folder + b"/caf\xe9.jpg")  # noqa: PTH108 - bytes
    with pytest.raises(fastload.SampleError) as raised:
        list(loader)
    assert os.fsencode(raised.value.path) == folder + b"/caf\xe9.jpg"
    str(raised.value).encode("utf-8")


def test_a_sample_the_fallback_thread_loses_is_an_error_of_the_loader(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = ImageFolder(str(folder), recipes.evaluation(64, 56))
    with Image.open(dataset.samples[5][0]) as image:
        image.save(dataset.samples[5][0], "PNG")
    monkeypatch.setattr(_pillow, "serve", lambda task, kept: None)
    iterator = iter(fastload.DataLoader(dataset, batch_size=4, num_workers=2))
    next(iterator)
    with pytest.raises(RuntimeError, match=r"sample 5 .*dropped the sample"):
        next(iterator)
    next(iterator)
