"""LIKE patterns as regular expressions that take no exponential time."""

from __future__ import annotations

import re
from collections.abc import Callable

ANY = object()
"""Any number of characters."""
ONE = object()
"""Any one character."""


def compile_like(pattern: str, escape: str | None) -> Callable[[str], bool]:
    """A function that tells whether a whole string matches `pattern`.

    `%` is any run of characters, `_` one character (a pair of surrogates counts as one). The escape character
    counts only before `%`, `_` or itself; elsewhere it stands for itself, as in the broker. Raises
    `ValueError` where the broker refuses the pattern.
    """
    matches = re.compile(_expression(split_pattern(pattern, escape)), re.DOTALL).fullmatch
    return lambda text: matches(text) is not None


def _expression(parts: list[object]) -> str:
    """A regular expression that never backtracks into a run it has passed.

    The leftmost place of what follows a `%` is always good enough, except for the last run, which ends the
    string: so all but the last are atomic groups, and no pattern takes exponential time.
    """
    runs: list[str] = [""]
    for part in parts:
        if part is ANY:
            runs.append("")
        else:
            runs[-1] += "." if part is ONE else re.escape(str(part))
    middle = "".join(f"(?>.*?{run})" for run in runs[1:-1])
    return runs[0] + middle + (f".*?{runs[-1]}" if len(runs) > 1 else "")


def split_pattern(pattern: str, escape: str | None) -> list[object]:
    """Literal runs, `ANY` and `ONE`; a run of `ANY` is one. Raises `ValueError` as `compile_like` does."""
    parts: list[object] = []
    literal: list[str] = []

    def flush() -> None:
        if literal:
            parts.append("".join(literal))
            literal.clear()

    place = 0
    while place < len(pattern):
        char = pattern[place]
        following = pattern[place + 1 : place + 2]
        if char == escape and following and following in ("_", "%", escape):
            literal.append(_escaped(following))
            place += 2
            continue
        if char == "%":
            flush()
            if not parts or parts[-1] is not ANY:
                parts.append(ANY)
        elif char == "_":
            flush()
            parts.append(ONE)
        else:
            literal.append(char)
        place += 1
    flush()
    return parts


def _escaped(char: str) -> str:
    """The literal that an escaped character stands for.

    The broker writes it as a two-digit hexadecimal escape, whatever its code, so an escape character beyond
    Latin-1 that escapes itself stands for something odd there; a stored filter must mean the same here.
    """
    digits = f"{ord(char):x}"
    if len(digits) == 1:
        raise ValueError("an ESCAPE character below U+0010 cannot escape itself")
    return chr(int(digits[:2], 16)) + digits[2:]
