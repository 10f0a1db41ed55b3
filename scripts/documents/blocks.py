"""Fenced blocks of the documents: what is in them, and what they say that they are."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

_TAB = re.compile(r'^=== "([^"]+)"\n\n    ```(\w+)\n(.*?)^    ```$', re.MULTILINE | re.DOTALL)
_BLOCK = re.compile(r"^```([^\n`]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Block:
    """`kind` is the first word behind the fence (`sh`, `python`), `note` the rest (`root`, a file name)."""

    kind: str
    note: str
    text: str
    line: int


def in_tabs(path: Path) -> list[tuple[str, Block]]:
    """(name of the tab, its block), of the tabs that show the same in several ways."""
    found = []
    text = path.read_text()
    for match in _TAB.finditer(text):
        kind, content = match[2], textwrap.dedent(match[3])
        found.append((match[1], Block(kind, "", content, text.count("\n", 0, match.start()) + 1)))
    return found


def blocks(path: Path) -> list[Block]:
    text = path.read_text()
    found = []
    for match in _BLOCK.finditer(text):
        kind, _, note = match[1].strip().partition(" ")
        found.append(Block(kind, note, match[2], text.count("\n", 0, match.start()) + 1))
    return found
