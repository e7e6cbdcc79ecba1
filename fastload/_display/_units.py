"""Numbers in a form that people read easily."""

from __future__ import annotations

import re

_BYTES = ("bytes", "kB", "MB", "GB", "TB")


def in_seconds(seconds: float) -> str:
    """Returns a time with three digits, for example "812 us", "12.3 ms" or "4.50 s"."""
    if seconds <= 0:
        return "0 s"
    # Each limit is the number from which rounding gives the next unit.
    if seconds < 999.5e-6:
        return f"{_three_digits(seconds * 1e6)} us"
    if seconds < 999.5e-3:
        return f"{_three_digits(seconds * 1e3)} ms"
    return f"{_three_digits(seconds)} s"


def in_bytes(count: float) -> str:
    """Returns a size in powers of 1,000, for example "512 bytes" or "1.25 GB"."""
    size, unit = float(count), 0
    while size >= 999.5 and unit < len(_BYTES) - 1:
        size, unit = size / 1000, unit + 1
    return f"{count:,.0f} bytes" if unit == 0 else f"{_three_digits(size)} {_BYTES[unit]}"


_SIZE = re.compile(r"\s*(\d+(?:\.\d*)?)\s*(?:([kmgtp])(i?))?b?\s*", re.IGNORECASE)


def bytes_of(size: int | str) -> int:
    """Returns the number of bytes that `size` means: an int, or a text such as "200G", "1.5TiB" or "64 MB".

    G is 10 ** 9 bytes and Gi 2 ** 30; k, M, T and P likewise. Raises ValueError if it is not a size above 0.
    """
    count = 0
    if isinstance(size, str) and (found := _SIZE.fullmatch(size)) is not None:
        power = " kmgtp".index((found[2] or " ").lower())
        count = int(float(found[1]) * (1024 if found[3] else 1000) ** power)
    elif isinstance(size, int) and not isinstance(size, bool):
        count = size
    if count <= 0:
        raise ValueError(
            f"max_bytes must be a number of bytes above 0 or a size such as '200G' or '1.5TiB', got {size!r}"
        )
    return count


def in_percent(part: float, whole: float) -> str:
    """Returns the share of `part` in `whole` in percent; "" if `whole` is 0."""
    return f"{part / whole:.1%}".replace("%", " %") if whole > 0 else ""


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Returns a count with its noun, for example "1 sample" or "1,200 samples"."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def _three_digits(number: float) -> str:
    digits = 2 if number < 9.995 else 1 if number < 99.95 else 0
    return f"{number:,.{digits}f}"
