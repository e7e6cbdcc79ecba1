"""Numbers as people read them."""

from __future__ import annotations

import re
from decimal import Decimal

_BYTES = ("bytes", "kB", "MB", "GB", "TB")
_SIZE = re.compile(r"(?P<number>[0-9]+(\.[0-9]+)?) ?(((?P<unit>[kmgt])(?P<binary>i)?)?b?)", re.IGNORECASE)


def in_seconds(seconds: float) -> str:
    """A time with three digits, for example "812 us", "12.3 ms" or "4.50 s"."""
    if seconds <= 0:
        return "0 s"
    # The limits lie where a number would be rounded to the next unit.
    if seconds < 999.5e-6:
        return f"{_three_digits(seconds * 1e6)} us"
    if seconds < 999.5e-3:
        return f"{_three_digits(seconds * 1e3)} ms"
    return f"{_three_digits(seconds)} s"


def in_bytes(count: float) -> str:
    """A size in powers of 1,000, for example "512 bytes" or "1.25 GB"."""
    size, unit = float(count), 0
    while size >= 999.5 and unit < len(_BYTES) - 1:
        size, unit = size / 1000, unit + 1
    return f"{count:,.0f} bytes" if unit == 0 else f"{_three_digits(size)} {_BYTES[unit]}"


def in_percent(part: float, whole: float) -> str:
    """The share of `part` in `whole`; empty where there is no whole."""
    return f"{part / whole:.1%}".replace("%", " %") if whole > 0 else ""


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """For example "1 sample" or "1,200 samples"."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def _three_digits(number: float) -> str:
    digits = 2 if number < 9.995 else 1 if number < 99.95 else 0
    return f"{number:,.{digits}f}"


def parse_bytes(text: str) -> int:
    """A size such as "512", "200G", "200 GB" or "1.5TiB", in bytes. G and GB are powers of 1,000, GiB of 1,024.

    Raises:
        ValueError: It is none.
    """
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"a size is a number and K, M, G, T, KiB, MiB, GiB or TiB, such as '200G'; got {text!r}")
    base = 1024 if found["binary"] else 1000
    power = " kmgt".index(found["unit"].lower()) if found["unit"] else 0
    return int(Decimal(found["number"]) * base**power)
