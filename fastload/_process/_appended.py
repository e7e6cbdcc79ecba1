"""Files to which this and other programs append whole lines."""

from __future__ import annotations

import os


def append_lines(path: str, lines: bytes, *, is_first: bool) -> None:
    """Appends `lines` with one call in append mode, so several programs on one machine can share a file.

    Args:
        path: Created if it is missing.
        lines: Whole lines, each with its newline.
        is_first: Whether the caller has appended nothing yet. Then a last line without a newline, left by a run that
            was killed while it wrote, is completed first.

    Raises:
        OSError: The lines cannot be written, or only a part of them was.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        if is_first and _ends_in_the_middle(descriptor):
            lines = b"\n" + lines
        if os.write(descriptor, lines) != len(lines):
            raise OSError("the disk took only a part of the lines")
    finally:
        os.close(descriptor)


def _ends_in_the_middle(descriptor: int) -> bool:
    size = os.fstat(descriptor).st_size
    return size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
