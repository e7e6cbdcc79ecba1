"""All kinds of exceptions in the user's code: type and text as from torch's workers, and the batches after them."""

from __future__ import annotations

import builtins
import queue
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.utils.data
from both_loaders import Threads, assert_same, on_both
from user_datasets import Numbered

import fastload


class Raising(Numbered):
    """Sample 1 of 5 raises."""

    def __init__(self, make: Callable[[], BaseException]) -> None:
        super().__init__(5)
        self.make = make

    def sample(self, index: int) -> int:
        if index == 1:
            raise self.make()
        return index


class WithSlots(Exception):
    __slots__ = ("path",)

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.path = "a"


class WithMessage(Exception):
    """Its first argument is not text."""

    message = "of the class"

    def __init__(self, code: int = 1, message: str = "none") -> None:
        super().__init__(message)
        self.message = message


class WithMessageItCannotTake(Exception):
    message = "of the class"

    def __init__(self, code: int) -> None:
        super().__init__(code)


class KeyMissing(KeyError):
    pass


class Unprintable(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


class ByKeywordAlone(Exception):
    def __init__(self, *, path: str) -> None:
        super().__init__(path)


class AnotherTypeIsMade(Exception):
    def __new__(cls, *arguments: Any) -> Any:
        return OSError(*arguments)


def with_note() -> Exception:
    error = ValueError("bad")
    error.__notes__ = ["of file a.png"]  # type: ignore[attr-defined]  # as add_note() does, from Python 3.11 on
    return error


def with_cause() -> Exception:
    error = ValueError("outer")
    error.__cause__ = ZeroDivisionError("inner")
    return error


ERRORS: dict[str, Callable[[], BaseException]] = {
    "ValueError": lambda: ValueError("bad value"),
    "IndexError": lambda: IndexError("too far"),
    "without a text": AssertionError,
    "with slots": WithSlots,
    "with a message": WithMessage,
    "with a message that its constructor does not take": lambda: WithMessageItCannotTake(3),
    "a key with newlines": lambda: KeyError("two\nlines"),
    "a key that is no text": lambda: KeyError(("a", 1)),
    "a subclass of KeyError": lambda: KeyMissing("two\nlines"),
    "without a printable text": Unprintable,
    "by keyword alone": lambda: ByKeywordAlone(path="a"),
    "another type than its class": lambda: AnotherTypeIsMade(2, "x"),
    "with a note": with_note,
    "with a cause": with_cause,
    "of the system": lambda: PermissionError(13, "Permission denied", "a.png"),
    "UnicodeDecodeError": lambda: UnicodeDecodeError("utf-8", b"x", 0, 1, "bad"),
    "SyntaxError": lambda: SyntaxError("bad", ("file", 1, 2, "text")),
    "ImportError": lambda: ImportError("no module", name="module"),
    "MemoryError": MemoryError,
    "TimeoutError": TimeoutError,
    "queue.Empty": queue.Empty,
    "StopAsyncIteration": StopAsyncIteration,
    "a warning": lambda: UserWarning("as an error"),
    "of torch": lambda: torch.cuda.OutOfMemoryError("out of memory"),
}


def steps_of(loader: Any) -> list[Any]:
    """Returns each batch, or type, first and last line of the error instead."""
    iterator, steps = iter(loader), []
    while True:
        try:
            steps.append(next(iterator).tolist())
        except StopIteration:
            return steps
        except BaseException as error:  # noqa: BLE001 - what is raised is what is compared
            steps.append((type(error), *lines_of(error)))


def lines_of(error: BaseException) -> tuple[str, str]:
    try:
        lines = [str(error).replace("worker process", "worker thread")]
    except ValueError:
        return "cannot be printed", ""
    if type(error) is not KeyMissing:  # its text is one line
        lines = lines[0].splitlines() or [""]
    return lines[0].split("\\n")[0], lines[-1].split("\\n")[-2 if "\\n" in lines[-1] else -1]


@pytest.mark.parametrize("num_workers", [0, 1])
@pytest.mark.parametrize("name", ERRORS)
def test_every_kind_of_error_is_raised_as_torch_raises_it(name: str, num_workers: int) -> None:
    mine = assert_same(lambda kind: steps_of(kind(Raising(ERRORS[name]), num_workers=num_workers)))
    assert [step for step in mine if isinstance(step, list)] == [[0], [2], [3], [4]]


@pytest.mark.skipif(not hasattr(builtins, "ExceptionGroup"), reason="exception groups came with Python 3.11")
@pytest.mark.parametrize("num_workers", [0, 1])
def test_a_group_of_errors_is_what_torch_makes_of_it_with_the_group_as_cause(num_workers: int) -> None:
    def make() -> Any:
        return vars(builtins)["ExceptionGroup"]("several", [ValueError("one"), KeyError("two")])

    assert_same(lambda kind: steps_of(kind(Raising(make), num_workers=num_workers)))
    iterator = iter(fastload.DataLoader(Raising(make), num_workers=num_workers))
    next(iterator)
    try:
        next(iterator)
    except Exception as error:  # noqa: BLE001 - torch cannot make a group of a text, so it is a TypeError
        group: Any = error if num_workers == 0 else error.__cause__
    assert [str(part) for part in group.exceptions] == ["one", "'two'"]


@pytest.mark.filterwarnings("ignore:.*_MultiProcessingDataLoaderIter.__del__:pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("kind_of_error", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_what_ends_torchs_worker_is_raised_as_it_is_and_the_epoch_goes_on(kind_of_error: Any) -> None:
    """In torch the process ends, and the rest of the epoch is lost; without workers both raise the same exception."""
    alone = on_both(lambda kind: steps_of(kind(Raising(kind_of_error))))
    assert alone[0] == alone[1]
    with pytest.raises((RuntimeError, OSError, EOFError)):  # by what notices first that the process has ended
        list(torch.utils.data.DataLoader(Raising(kind_of_error), num_workers=1))
    steps = steps_of(Threads(Raising(kind_of_error), num_workers=1))
    assert [step for step in steps if isinstance(step, list)] == [[0], [2], [3], [4]]
    assert steps[1][:2] == (kind_of_error, f"Caught {kind_of_error.__name__} in DataLoader worker thread 0.")


def test_an_error_that_cannot_be_pickled_is_raised_where_torch_waits_for_ever() -> None:
    class Local(Exception):
        """A class inside a function: no other process can find it."""

    with pytest.raises(RuntimeError, match="timed out"):
        list(torch.utils.data.DataLoader(Raising(Local), num_workers=1, timeout=0.7))
    alone = on_both(lambda kind: steps_of(kind(Raising(Local))))
    assert alone[0] == alone[1]
    steps = steps_of(Threads(Raising(Local), num_workers=1, timeout=20))
    assert steps[1][0] is Local
    assert [step for step in steps if isinstance(step, list)] == [[0], [2], [3], [4]]


@pytest.mark.parametrize("num_workers", [0, 1])
@pytest.mark.parametrize("bad", [0, 4])
def test_an_error_of_collate_costs_its_batch_alone(num_workers: int, bad: int) -> None:
    def collate(samples: list[Any]) -> Any:
        if samples[0] == bad:
            raise WithMessage(3, "in collate")
        return torch.tensor(samples)

    mine = assert_same(lambda kind: steps_of(kind(list(range(6)), 2, collate_fn=collate, num_workers=num_workers)))
    assert len(mine) == 3
