"""Numbers, times and sizes as the screen has them: short, and of one width as far as may be."""

from __future__ import annotations

from typing import Final

_SIZES: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_KIB: Final = 1024
_AGES: Final = ((86_400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s"))


def size(size_bytes: int) -> str:
    """
    >>> size(0), size(1536), size(5 << 30)
    ('0 B', '1.5 KiB', '5.0 GiB')
    """
    value, index = float(size_bytes), 0
    while value >= _KIB and index < len(_SIZES) - 1:
        value, index = value / _KIB, index + 1
    return f"{value:.1f} {_SIZES[index]}" if index else f"{size_bytes} B"


def age(age_ms: int) -> str:
    """The two largest units.

    >>> age(59_000), age(125_000), age(90_000_000), age(-5)
    ('59s', '2m 5s', '1d 1h', '0s')
    """
    seconds = max(0, age_ms) // 1000
    for unit, name, smaller, smaller_name in _AGES:
        if seconds >= unit:
            return f"{seconds // unit}{name} {seconds % unit // smaller}{smaller_name}"
    return f"{seconds}s"


def rate(per_s: float | None) -> str:
    """
    >>> rate(None), rate(0.0), rate(0.25), rate(1234.5)
    ('-', '0', '0.25', '1,234')
    """
    if per_s is None:
        return "-"
    return f"{per_s:.2g}" if per_s < 10 else f"{per_s:,.0f}"
