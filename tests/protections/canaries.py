"""The canaries: each says which line to take away, and which tests notice."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

LIST: Final = Path(__file__).with_name("canaries.toml")


@dataclass(frozen=True, slots=True)
class Canary:
    protection: str
    """As `P-3`."""
    file: str
    """Relative to the root of the project."""
    old: str
    """Text of the protecting line."""
    new: str
    """What stands in its place while the canary runs."""
    test: str
    """Files or node ids of tests, of which at least one must fail; divided by blanks."""


def canaries() -> list[Canary]:
    """Return all entries of canaries.toml."""
    return [Canary(**entry) for entry in tomllib.loads(LIST.read_text())["canary"]]
