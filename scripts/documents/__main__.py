"""Writes the pages that are made from others and from the sources."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from scripts.documents.rules import DOCS, page_of_rules

MADE: dict[Path, Callable[[], str]] = {DOCS / "RULES.md": page_of_rules}


def main() -> None:
    for path, content in MADE.items():
        path.write_text(content())


if __name__ == "__main__":
    main()
