"""The questions of docs/questions.toml: a search finds their pages, the pages answer, and commands work."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from lunr import get_default_builder
from lunr.index import Index
from lunr.query import Query
from lunr.stemmer import stemmer
from lunr.stop_word_filter import stop_word_filter

from tests.frozen import PristineStores
from tests.recipes.desk import Desk, desk
from tests.tidy.sources import ROOT

DOCS = ROOT / "docs"
FOUND_AMONG = 3
WORDS = re.compile(r"[\w.]*\w")
PLACES = {
    "STORE": "/var/lib/artemis/data",
    "QUEUE": "/mnt/orders/orders",
    "ADDRESS": "/mnt/orders",
    "OTHER": "/mnt/claims/claims",
}
"""What stands for the words in capitals of a command."""


@dataclass(frozen=True, slots=True)
class Question:
    ask: str
    page: str
    """Below docs/."""
    heading: str = ""
    """The section that answers; empty: the page as a whole."""
    answer: str = ""
    """Words of the page that answer."""
    command: str = ""
    """A command that answers; it is typed."""


QUESTIONS = [Question(**one) for one in tomllib.loads((DOCS / "questions.toml").read_text())["question"]]


def build_site(place: Path) -> Path:
    """Build the site into a folder, as strictly as scripts/docs builds it."""
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "mkdocs",
            "build",
            "-q",
            "-f",
            ROOT / "scripts/documents/mkdocs.yml",
            "-d",
            place,
        ],
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return place


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_site(tmp_path_factory.mktemp("site"))


@pytest.fixture(scope="module")
def index(site: Path) -> tuple[Index, Mapping[str, Any]]:
    """The site's own index, with the boosts and the tokenizer of the theme."""
    content = json.loads((site / "search/search_index.json").read_text())
    documents = {one["location"]: one for one in content["docs"]}
    builder = get_default_builder()
    builder.pipeline.remove(stemmer)
    builder.b(0)
    builder.ref("location")
    for name in ("title", "text"):
        builder.field(name, boost=content["config"]["fields"][name]["boost"])
    for one in documents.values():
        builder.add(one, {"boost": one.get("boost", 1)})
    return builder.build(), documents


def keywords(ask: str) -> list[str]:
    """What is typed into the search: the words that mean something."""
    return [word for word in WORDS.findall(ask.lower()) if stop_word_filter(word)]


def pages(index: Index, ask: str) -> list[str]:
    """Pages in the order of the theme: each word may begin a longer one, a section with more of the words and
    a whole page count more, and a page counts as its best section.
    """
    words = keywords(ask)
    query = Query(index.fields)
    for word in words:
        query.term(word, wildcard=Query.WILDCARD_TRAILING, use_pipeline=False)
    scores: dict[str, float] = defaultdict(float)
    for match in index.query(query):
        page, _, section = match["ref"].partition("#")
        matched = sum(any(one.startswith(word) for one in match["match_data"].metadata) for word in words)
        scores[page] = max(scores[page], match["score"] * (1 + ((not section) + matched / len(words)) ** 2))
    return sorted(scores, key=scores.__getitem__, reverse=True)


def test_there_are_a_hundred() -> None:
    assert len(QUESTIONS) >= 100
    assert len({question.ask for question in QUESTIONS}) == len(QUESTIONS)


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.ask)
def test_the_search_finds_the_page(question: Question, index: tuple[Index, Mapping[str, Any]]) -> None:
    wanted = re.sub(r"(README)?\.md$", lambda found: "index.html" if found[1] else ".html", question.page)
    first = pages(index[0], question.ask)[:FOUND_AMONG]
    assert wanted in first, f"found are {first}"


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.ask)
def test_the_page_answers(question: Question) -> None:
    text = (DOCS / question.page).read_text()
    if question.heading:
        headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
        assert question.heading in headings, f"{question.page} has {headings}"
    assert question.answer in " ".join(text.split()) or question.answer in text


@pytest.fixture(scope="module")
def at(stores: PristineStores, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    with desk(stores["orders-basic"], stores["kaha-5.16.7-killed"], tmp_path_factory.mktemp("desk")) as made:
        made.shell("journalfs mount /var/lib/artemis/data /mnt")
        yield made
        made.shell("journalfs umount /mnt")


@pytest.mark.mount
@pytest.mark.parametrize(
    "question", [one for one in QUESTIONS if one.command], ids=lambda question: question.ask
)
def test_the_command_does_it(question: Question, at: Desk) -> None:
    command = re.sub(r"\b(STORE|QUEUE|ADDRESS|OTHER)\b", lambda word: PLACES[word[1]], question.command)
    at.shell(command, options="-u")
