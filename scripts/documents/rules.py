"""The rules of behaviour: paragraphs of the documents that begin with `<a id="s-7"></a>**What holds.**`.

The number is an anchor and no text: a page says what holds, and RULES.md has all of them by number.
"""

from __future__ import annotations

import os.path
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
BY_NUMBER = DOCS / "RULES.md"
FOR_DEVELOPERS = ("inside/", "format/", "RULES.md")
"""Pages that name rules by their numbers."""

ANCHOR = re.compile(r'<a id="s-(\d+)"></a>')
_BEGINNING = re.compile(rf"^{ANCHOR.pattern}", re.MULTILINE)
_END = re.compile(rf"^(?:{ANCHOR.pattern}|#)", re.MULTILINE)
_SENTENCE = re.compile(rf"{ANCHOR.pattern}\*\*(.+?)\*\*", re.DOTALL)
_LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)")

# As rules and references to them are written: `numbers_as_anchors` puts them into the form above.
_WRITTEN = re.compile(r"^\*\*S-(\d+)\. ", re.MULTILINE)
_NAMED = re.compile(r"\[?\b(S-\d+)\b(?:\]\([^)]*\))?")


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. `page` is relative to `docs/`, `text` goes up to the next rule or heading."""

    number: int
    page: str
    text: str

    @property
    def sentence(self) -> str:
        """The bold sentence that is the rule; empty where there is none."""
        found = _SENTENCE.match(self.text)
        return " ".join(found[2].split()) if found else ""

    @property
    def place(self) -> str:
        return f"{self.page}#s-{self.number}"


def rules() -> list[Rule]:
    """All of them, by number."""
    found = []
    for path in pages():
        text = path.read_text()
        for match in _BEGINNING.finditer(text):
            end = _END.search(text, match.end())
            body = text[match.start() : end.start() if end else None]
            found.append(Rule(int(match[1]), path.relative_to(DOCS).as_posix(), body.strip()))
    return sorted(found, key=lambda rule: rule.number)


def pages() -> list[Path]:
    """All pages but the one that is made of the others."""
    return [path for path in sorted(DOCS.rglob("*.md")) if path != BY_NUMBER]


def title(page: str) -> str:
    """The heading of a page of docs/."""
    first = (DOCS / page).read_text().partition("\n")[0]
    return first.removeprefix("# ")


def page_of_rules() -> str:
    """RULES.md: each number, its sentence, and the paragraph that goes on from there."""
    lines = [
        "# Rules by number",
        "",
        "Made by `scripts/docs` of the pages that the rules stand on. A test shows each rule:",
        "`grep -rn 'rule(\"S-7\"' tests` finds it. A number is never given to another rule.",
        "",
    ]
    for rule in rules():
        sentence = _LINK.sub(_from_docs(rule.page), rule.sentence)
        where = f"[{title(rule.page)}]({rule.place})"
        lines.append(f'* <a id="s-{rule.number}"></a>**S-{rule.number}** {sentence} {where}')
    return "\n".join(lines) + "\n"


def _from_docs(page: str) -> Callable[[re.Match[str]], str]:
    """Make links of a page those of a page in docs/ itself."""
    folder = os.path.dirname(page)
    return lambda link: f"]({os.path.normpath(os.path.join(folder, link[1]))}"


def numbers_as_anchors() -> dict[Path, str]:
    """Path -> text, of pages for users that say a number: `**S-7. It holds.**` becomes an anchor, and `(S-7)`
    or a link of that name becomes a link to that paragraph.
    """
    texts = {path: path.read_text() for path in pages()}
    anchored = {path: _WRITTEN.sub(r'<a id="s-\1"></a>**', text) for path, text in texts.items()}
    stands = {
        number: path.relative_to(DOCS).as_posix()
        for path, text in anchored.items()
        for number in ANCHOR.findall(text)
    }
    changed = {}
    for path, text in anchored.items():
        page = path.relative_to(DOCS).as_posix()
        shown = text if page.startswith(FOR_DEVELOPERS) else _without_numbers(text, page, stands)
        if shown != texts[path]:
            changed[path] = shown
    return changed


def _without_numbers(text: str, page: str, stands: dict[str, str]) -> str:
    def link(found: re.Match[str]) -> str:
        number = found[1].removeprefix("S-")
        there = stands.get(number)
        if there is None:
            return found[0]  # a test says so
        if there == page:
            above = text.find(f'<a id="s-{number}">') < found.start()
            return f"[{'above' if above else 'below'}](#s-{number})"
        to = os.path.relpath(there, os.path.dirname(page) or ".")
        return f"[more]({to}#s-{number})"

    return _NAMED.sub(link, text)
