"""Errors of one sample: their types, fields, text and pickling."""

from __future__ import annotations

import copy
import errno
import os
import pickle
from pathlib import Path
from typing import Any

import pytest
from PIL import UnidentifiedImageError

from fastload._errors import FastloadError, ForkedProcessError, LoaderClosedError, SampleError, sample_error


class NeedsTwoArguments(Exception):
    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code

    def __str__(self) -> str:
        return f"[{self.code}] {self.args[0]}"


class HasReadOnlyPath(Exception):
    @property
    def path(self) -> str:
        return "theirs"


class HasSlots(Exception):
    __slots__ = ("position",)

    def __init__(self, position: int) -> None:
        self.position = position


class RefusesSubclasses(Exception):
    def __init_subclass__(cls) -> None:
        raise TypeError("final")


class BrokenText(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


class HasNew(Exception):
    def __new__(cls, code: int) -> HasNew:
        return super().__new__(cls, code)


def raised(error: BaseException) -> SampleError:
    """Returns `error` as it is after it was raised in a decoder and wrapped."""
    try:
        raise error
    except BaseException as caught:  # noqa: BLE001
        return sample_error(48213, "train/n014/x.JPEG", "decode", caught)


def test_message_names_sample_path_stage_cause_and_next_step() -> None:
    error = raised(OSError("image file is truncated (5 bytes not processed)"))
    assert str(error) == (
        "sample 48213 ('train/n014/x.JPEG'): decode: image file is truncated (5 bytes not processed). "
        "Remove or replace the file; the next batch can still be requested."
    )
    assert (error.path, error.index, error.stage, error.offset) == ("train/n014/x.JPEG", 48213, "decode", None)
    assert error.args == (str(error),)


def test_offset_detail_and_own_next_step_are_shown() -> None:
    error = sample_error(
        1, b"a", "decode", "Huffman code not in table", offset=18204, detail="restart 3", next_step="Go on."
    )
    assert str(error) == "sample 1 ('a'): decode: Huffman code not in table (at byte 18204) (restart 3). Go on."
    assert error.offset == 18204
    assert type(error) is SampleError
    assert error.cause is None
    assert error.__cause__ is None


@pytest.mark.parametrize(
    "original",
    [
        OSError("truncated"),
        UnidentifiedImageError("cannot identify"),
        FileNotFoundError(errno.ENOENT, "No such file or directory", "x"),
        KeyError("k"),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"),
        ImportError("m", name="m", path="p"),
        SyntaxError("s"),
        MemoryError(),
        NeedsTwoArguments(7, "text"),
        HasReadOnlyPath("x"),
        HasSlots(9),
        HasNew(3),
    ],
    ids=lambda e: type(e).__name__,
)
def test_error_is_caught_as_the_original_type_and_as_sample_error(original: Exception) -> None:
    error = raised(original)
    with pytest.raises(type(original)) as info:
        raise error
    assert info.value is error
    assert isinstance(error, SampleError)
    assert isinstance(error, FastloadError)
    assert error.__cause__ is original
    assert error.cause is original
    assert error.path == "train/n014/x.JPEG"
    assert str(error).startswith("sample 48213 ('train/n014/x.JPEG'): decode: ")


def test_os_errors_keep_errno_strerror_and_filename(tmp_path: Path) -> None:
    missing = tmp_path / "gone.jpg"
    try:
        missing.open("rb")
    except OSError as caught:
        error: Any = sample_error(3, str(missing), "open", caught)
    assert isinstance(error, FileNotFoundError)
    assert error.errno == errno.ENOENT
    assert error.strerror == os.strerror(errno.ENOENT)
    assert error.filename == str(missing)
    c_member: Any = vars(OSError)["errno"]
    assert c_member.__get__(error) == errno.ENOENT
    assert str(error) == (
        f"sample 3 ({str(missing)!r}): open: No such file or directory (ENOENT). "
        "Check that the file still exists and may be read, or index the folder again."
    )


def test_attributes_of_the_original_stay_readable() -> None:
    coded: Any = raised(NeedsTwoArguments(7, "text"))
    assert coded.code == 7
    assert "decode: [7] text." in str(coded)
    slotted: Any = raised(HasSlots(9))
    assert slotted.position == 9
    decoding: Any = raised(UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"))
    assert (decoding.encoding, decoding.object, decoding.reason) == ("utf-8", b"\xff", "bad")


@pytest.mark.parametrize(
    "original", [RefusesSubclasses("x"), StopIteration(3), StopAsyncIteration(), KeyboardInterrupt(), SystemExit(2)]
)
def test_types_that_cannot_or_must_not_combine_give_a_plain_sample_error(original: BaseException) -> None:
    error = raised(original)
    assert type(error) is SampleError
    assert error.__cause__ is original


def test_combined_class_is_made_once_per_type() -> None:
    assert type(raised(KeyError(1))) is type(raised(KeyError(2)))
    assert type(raised(KeyError(1))).__name__ == "SampleError[KeyError]"


def test_wrapping_a_sample_error_adds_no_second_base() -> None:
    inner = raised(KeyError(1))
    outer = sample_error(5, "y", "transform", inner)
    assert type(outer) is type(inner)
    assert outer.index == 5
    assert outer.__cause__ is inner


@pytest.mark.parametrize("name", [b"new\nline.jpg", b"bad\xff\xfe.jpg", "grün.jpg".encode(), b"\x1b[31mred.jpg"])
def test_hostile_names_print_safely_and_survive(name: bytes) -> None:
    error = sample_error(1, name, "open", OSError("what\udcff"))
    text = str(error)
    text.encode("utf-8")
    assert "\n" not in text
    assert "\x1b" not in text
    assert os.fsencode(error.path) == name


def test_broken_text_of_the_original_does_not_hide_the_sample() -> None:
    assert "decode: (BrokenText.__str__ raised ValueError)." in str(raised(BrokenText()))


def test_empty_text_of_the_original_becomes_its_class_name() -> None:
    assert ": decode: MemoryError. " in str(raised(MemoryError()))


@pytest.mark.parametrize("clone", [lambda e: pickle.loads(pickle.dumps(e)), copy.copy, copy.deepcopy])
@pytest.mark.parametrize(
    "original", [FileNotFoundError(2, "gone", "f"), KeyError("k"), UnidentifiedImageError("u"), StopIteration()]
)
def test_error_survives_pickling_and_copying(clone: Any, original: Exception) -> None:
    error = raised(original)
    again = clone(error)
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert (again.path, again.index, again.stage, again.errno) == (error.path, error.index, error.stage, error.errno)
    assert type(again.__cause__) is type(original)


def test_error_pickles_when_its_cause_does_not_unpickle() -> None:
    again = pickle.loads(pickle.dumps(raised(NeedsTwoArguments(7, "text"))))
    assert isinstance(again, NeedsTwoArguments)
    assert isinstance(again, SampleError)
    assert again.cause is None


def test_error_pickles_when_the_type_of_its_cause_does_not() -> None:
    class Local(Exception):
        pass

    again = pickle.loads(pickle.dumps(raised(Local("x"))))
    assert type(again) is SampleError
    assert "decode: x." in str(again)


def test_other_errors_are_runtime_errors_and_say_what_to_do() -> None:
    assert issubclass(LoaderClosedError, RuntimeError)
    error = pickle.loads(pickle.dumps(ForkedProcessError("DataLoader iterator", 17)))
    assert isinstance(error, RuntimeError)
    assert "created in another process (pid 17)" in str(error)
    assert "Create the loader after the fork" in str(error)
