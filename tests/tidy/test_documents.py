"""Documents keep their promises: errors are found by their text, links lead somewhere, commands exist."""

from __future__ import annotations

import errno
import re
from pathlib import Path

import pytest

from journalfs.advice import ADVICE
from scripts.documents import errnos
from scripts.documents.__main__ import made
from scripts.documents.rules import ANCHOR, rules
from tests.tidy.identifiers import error_kinds, event_identifiers
from tests.tidy.sources import ROOT, c_sources, python_sources

DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
TROUBLESHOOTING = ROOT / "docs" / "operate" / "troubleshooting.md"
EVENTS = ROOT / "docs" / "reference" / "events.md"


TEXTS = re.findall(r"^\| (.+?) \| .* \|$", TROUBLESHOOTING.read_text(), re.MULTILINE)
"""Texts of messages, of every row. The list of all errors is tried by tests/test_errors.py."""


def test_every_event_is_in_the_table() -> None:
    listed = set(re.findall(r"^\| `([a-z-]+)` \|", EVENTS.read_text(), re.MULTILINE))
    assert listed
    assert listed == event_identifiers().keys() - error_kinds().keys()


def test_every_quoted_text_is_in_the_sources() -> None:
    # Strings are joined across lines in the sources: what stands between the pieces is left out.
    joined = "".join(
        re.sub(r'"\s*\n\s*f?"', "", source.text) for source in python_sources() if source.is_product
    )
    quoted = [text for heading in TEXTS for text in re.findall(r"`([^`]+)`", heading) if " " in text]
    assert len(quoted) > 15
    missing = [
        text for text in quoted if text not in joined and not text.startswith(("cannot list", "cannot look"))
    ]
    assert not missing


def test_what_is_made_is_up_to_date() -> None:
    stale = [
        path.name for path, content in made().items() if not path.exists() or path.read_text() != content
    ]
    assert not stale, "run scripts/docs"


def test_each_errno_that_is_given_has_advice() -> None:
    kinds = {errno.errorcode[kind.errno] for kind in error_kinds().values()}
    assert (errnos.given() | kinds) <= ADVICE.keys()
    numbers = {rule.number for rule in rules()}
    assert {number for advice in ADVICE.values() for number in advice.rules} <= numbers


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_lead_to_headings_of_files(path: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#\s]*)(?:#([^)]*))?\)", path.read_text())
    files = [(path.parent / file if file else path, anchor) for file, anchor in links]
    missing = [(file.name, anchor) for file, anchor in files if not file.exists()]
    missing += [(file.name, anchor) for file, anchor in files if anchor and anchor not in anchors(file)]
    assert not missing


def anchors(path: Path) -> set[str]:
    """Names that GitHub and others give to the headings of a page, and those of its rules."""
    text = path.read_text()
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    rules_there = {f"s-{number}" for number in ANCHOR.findall(text)}
    return rules_there | {
        re.sub(r"[^\w -]", "", heading.lower()).strip().replace(" ", "-") for heading in headings
    }


def test_commands_of_the_readme_exist() -> None:
    text = (ROOT / "README.md").read_text()
    for script in set(re.findall(r"\bscripts/[a-z-]+", text)):
        assert (ROOT / script).is_file(), script
    assert (ROOT / ".ci" / "run").read_text().rstrip().endswith("exec scripts/test")


def test_pages_that_sources_name_exist() -> None:
    texts = [*((source.name, source.text) for source in python_sources()), *c_sources()]
    missing = [
        f"{name}: {page}"
        for name, text in texts
        for page in re.findall(r"\bdocs/[\w/.-]+\.md\b", text)
        if not (ROOT / page).is_file()
    ]
    assert not missing


def test_the_hops_of_a_write_and_a_read_are_where_the_page_says() -> None:
    text = (ROOT / "docs/inside/architecture.md").read_text()
    hops = re.findall(r"^\| `([\w.]+)`.* \| `([\w/]+\.(?:py|c))` \| .* \|$", text, re.MULTILINE)
    assert len(hops) > 20
    missing = [
        f"{file}: {word}"
        for name, file in hops
        for word in name.split(".")
        if not re.search(rf"^\s*(?:class|def|async def|jfs_status) {word}\b", (ROOT / file).read_text(), re.M)
    ]
    assert not missing


def test_modules_that_the_architecture_names_exist() -> None:
    text = (ROOT / "docs/inside/architecture.md").read_text()
    named = re.findall(
        r"`((?:engine|format|records|bodies|pages|live|change|broker|store)\.[a-z_.]+[a-z_])", text
    )
    assert len(named) > 10
    paths = [ROOT / "journalfs" / name.replace(".", "/") for name in named]
    assert not [path for path in paths if not path.with_suffix(".py").is_file()]
