"""TOML that a stranger may have written, read within bounds."""

from __future__ import annotations

import re
import tomllib
from typing import Any, Final

from journalfs.limits import TOML_BYTES_MAX, TOML_NESTED_MAX

_PLACE: Final = re.compile(r"(.*) \(at (?:line (\d+), column \d+|end of document)\)", re.DOTALL)


class NoToml(ValueError):  # noqa: N818 - what was found
    """What is wrong, and in which line, as far as that is known."""

    def __init__(self, reason: str, line: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line = line

    def __str__(self) -> str:
        return self.reason if self.line is None else f"{self.reason} (line {self.line})"


def load_toml(raw: bytes) -> dict[str, Any]:
    """Parse TOML. Raises `NoToml`, whatever it is."""
    if len(raw) > TOML_BYTES_MAX:
        raise NoToml(f"more than {TOML_BYTES_MAX} bytes are not read")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise NoToml("is not UTF-8 text", raw.count(b"\n", 0, error.start) + 1) from error
    for number, line in enumerate(text.split("\n"), start=1):
        names = line.partition("=")[0]
        if max(names.count("."), line.count("["), line.count("{")) > TOML_NESTED_MAX:
            raise NoToml("is not TOML of settings: nested too deeply", number)
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise NoToml("is not TOML of settings: nested too deeply") from None
    except tomllib.TOMLDecodeError as error:
        found = _PLACE.fullmatch(str(error))
        if found is None:
            raise NoToml(f"is not TOML: {error}") from error
        last = max(1, len(raw.splitlines()))
        raise NoToml(f"is not TOML: {found[1]}", int(found[2]) if found[2] else last) from error
    except ValueError as error:  # a number of thousands of digits
        raise NoToml(f"is not TOML of settings: {str(error).partition(';')[0]}") from error
