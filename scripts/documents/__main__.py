"""Writes what is made from sources and other pages; makes anchors of the numbers that pages for users say."""

from __future__ import annotations

from pathlib import Path

from journalfs.cli.completion import SHELLS, script
from scripts.documents import errnos, manual
from scripts.documents.rules import BY_NUMBER, DOCS, numbers_as_anchors, page_of_rules

COMPLETIONS = {"bash": "journalfs", "zsh": "_journalfs", "fish": "journalfs.fish"}
"""The name that each shell looks for."""

MAN = DOCS / "man"


def made() -> dict[Path, str]:
    """Path -> content, of each file that nobody writes by hand."""
    return (
        {BY_NUMBER: page_of_rules(), DOCS / "errnos.md": errnos.page()}
        | {MAN / name: text for name, text in manual.pages().items()}
        | {DOCS / "completions" / COMPLETIONS[shell]: script(shell) for shell in SHELLS}
    )


def main() -> None:
    for path, text in numbers_as_anchors().items():
        path.write_text(text)
    files = made()
    for path in MAN.glob("*"):
        if path not in files:
            path.unlink()
    for path, content in files.items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(content)


if __name__ == "__main__":
    main()
