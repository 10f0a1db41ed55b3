"""The project's own source files, read and parsed once for all the checks of this folder."""

from __future__ import annotations

import ast
import functools
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

PACKAGES = ("journalfs", "mount")
PYTHON_FOLDERS = (*PACKAGES, "tests", "native", "scripts")
C_FOLDERS = ("native/src", "native/include", "native/tests", "native/fuzz")
MADE_FILES = ("journalfs/engine/_native.c",)
"""Written by the build, not by us."""


@dataclass(frozen=True)
class Source:
    """A Python file. `name` is its path from the project's root, with `/`."""

    name: str
    text: str

    @functools.cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @property
    def is_product(self) -> bool:
        return self.name.startswith(tuple(f"{package}/" for package in PACKAGES))

    @property
    def is_test(self) -> bool:
        return self.name.startswith("tests/")


@functools.cache
def python_sources() -> tuple[Source, ...]:
    found = []
    for folder in PYTHON_FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.is_file() and _is_python(path):
                found.append(Source(path.relative_to(ROOT).as_posix(), path.read_text()))
    return tuple(found)


def _is_python(path: Path) -> bool:
    if path.suffix == ".py":
        return True
    if path.suffix or path.stat().st_size == 0:
        return False
    with path.open("rb") as file:
        first = file.readline(80)
    return first.startswith(b"#!") and b"python" in first


@functools.cache
def c_sources() -> tuple[tuple[str, str], ...]:
    """(name, text) of every C file and header."""
    found = []
    for folder in C_FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.[ch]")):
            name = path.relative_to(ROOT).as_posix()
            if name not in MADE_FILES:
                found.append((name, path.read_text()))
    return tuple(found)
