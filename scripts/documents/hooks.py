"""Hooks of MkDocs: README.md is a page of the site, and links to folders lead to their first pages."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

from mkdocs.structure.files import File, Files

ROOT: Final = Path(__file__).parents[2]
ABOUT: Final = "about.md"
"""README.md, as a page: the documents have a README of their own."""

BEHIND: Final = 0.3
"""By this the search multiplies the score of pages that few users look for."""

RULES: Final = "RULES.md"
FAR_BEHIND: Final = 0.02
"""The same of the page with a sentence of every subject: it has the words of any question."""

_FOLDER: Final = re.compile(r"\]\(((?!https?:)[\w./-]*?)(format|recipes)/\)")
_ELSEWHERE: Final = re.compile(r"\[([^\]]+)\]\((?!docs/|https?:|#)[^)]+\)")
_FIRST_PAGE: Final = {"format": "journal-file.md", "recipes": "local-queue.md"}
"""Where a link to a folder leads: a site has no page for a folder."""


def folders_as_pages(markdown: str) -> str:
    """Return the text with links to folders leading to their first pages."""
    return _FOLDER.sub(lambda found: f"]({found[1]}{found[2]}/{_FIRST_PAGE[found[2]]})", markdown)


def about(readme: str) -> str:
    """Return README.md as it stands in docs/: without links to files that are elsewhere."""
    return _ELSEWHERE.sub(r"\1", folders_as_pages(readme)).replace("](docs/", "](")


def on_files(files: Files, config: Any) -> Files:
    """Add README.md as a page."""
    text = about((ROOT / "README.md").read_text(encoding="utf-8"))
    files.append(File.generated(config, ABOUT, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: object) -> str:
    """Lead links to README.md to its page, and rank pages about the inside of journalfs behind the others."""
    if page.file.src_uri.startswith(("inside/", "format/", ABOUT, RULES)):
        page.meta.setdefault("search", {})["boost"] = FAR_BEHIND if page.file.src_uri == RULES else BEHIND
    to_docs = "../" * page.file.src_uri.count("/")
    return folders_as_pages(markdown.replace(f"]({to_docs}../README.md", f"]({to_docs}{ABOUT}"))
