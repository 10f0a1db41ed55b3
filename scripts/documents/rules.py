"""The rules of behaviour: paragraphs of the documents that begin with `**S-7**` or `**S-7. What holds.**`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
_BEGINNING = re.compile(r"^\*\*S-(\d+)(?:\*\*|\. )", re.MULTILINE)
_END = re.compile(r"^(?:\*\*S-\d+(?:\*\*|\. )|#)", re.MULTILINE)
_SENTENCE = re.compile(r"\*\*S-\d+\. (.+?)\*\*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. `page` is relative to `docs/`, `text` goes up to the next rule or heading."""

    number: int
    page: str
    text: str

    @property
    def sentence(self) -> str:
        """The bold sentence that is the rule; empty where the number stands alone."""
        found = _SENTENCE.match(self.text)
        return " ".join(found[1].split()) if found else ""


def rules() -> list[Rule]:
    """All of them, by number."""
    found = []
    for path in sorted(DOCS.rglob("*.md")):
        text = path.read_text()
        for match in _BEGINNING.finditer(text):
            end = _END.search(text, match.end())
            body = text[match.start() : end.start() if end else None]
            found.append(Rule(int(match[1]), path.relative_to(DOCS).as_posix(), body.strip()))
    return sorted(found, key=lambda rule: rule.number)


def page_of_rules() -> str:
    """RULES.md: each number leads to its page."""
    lines = [
        "# Rules by number",
        "",
        "Made by `scripts/docs`. A test shows each rule: `grep -rn 'rule(\"S-7\"' tests` finds it. A number",
        "is never given to another rule.",
        "",
    ]
    lines += [f"[S-{rule.number}]({rule.page})" for rule in rules()]
    return "\n".join(lines) + "\n"
