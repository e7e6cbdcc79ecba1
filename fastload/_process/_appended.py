"""Files to which whole lines are appended, by this and other programs."""

from __future__ import annotations

import os


def append_lines(path: str, lines: bytes, *, is_first: bool) -> None:
    """Appends `lines` by one call in append mode, so that several programs of one machine can share a file.

    Args:
        path: Made where it is missing.
        lines: Whole ones, each with its end.
        is_first: Nothing was appended yet by who asks: a file that ends in the middle of a line, of a run that was
            killed while it wrote, gets its end first.

    Raises:
        OSError: They cannot be written, or not all of them.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        if is_first and _ends_in_the_middle(descriptor):
            lines = b"\n" + lines
        if os.write(descriptor, lines) != len(lines):
            raise OSError("the disk took only a part of a line")
    finally:
        os.close(descriptor)


def _ends_in_the_middle(descriptor: int) -> bool:
    size = os.fstat(descriptor).st_size
    return size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
