"""The page that begins with what a shell prints: made from the errors and advice for each errno."""

from __future__ import annotations

import errno
import os
import re
from collections import defaultdict

from journalfs.advice import ADVICE
from scripts.documents.rules import DOCS, ROOT, rules

INNER = frozenset({"EPIPE", "ECONNABORTED"})
"""Met by the product and not given to callers."""


def given() -> set[str]:
    """Errnos that product sources name."""
    found: set[str] = set()
    for folder in ("mount", "journalfs"):
        for path in (ROOT / folder).rglob("*.py"):
            found |= set(re.findall(r"\berrno\.(E[A-Z]+)", path.read_text()))
    return found - INNER


def page() -> str:
    """errnos.md."""
    pages = {rule.number: rule.page for rule in rules()}
    errors = (DOCS / "reference" / "errors.md").read_text()
    kinds = re.findall(r"^\| `([a-z-]+)` \| \d+ \| (E[A-Z]+) \|", errors, re.MULTILINE)
    by_errno: dict[str, list[str]] = defaultdict(list)
    for identifier, name in kinds:
        by_errno[name].append(f"`{identifier}`")
    lines = [
        "# Errnos",
        "",
        "By what a shell prints. The reason is in the event: `tail -n 1 /mnt/.journalfs/events.jsonl`.",
        "Made by `scripts/docs`; the words of [errors](reference/errors.md) stand in messages of commands.",
        "",
        "| printed | errno | why | what to do | rules | errors |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for name, advice in sorted(ADVICE.items(), key=lambda item: os.strerror(getattr(errno, item[0]))):
        links = ", ".join(f"[S-{number}]({pages[number]})" for number in advice.rules if number in pages)
        cells = [
            os.strerror(getattr(errno, name)),
            name,
            advice.why,
            advice.do,
            links,
            ", ".join(by_errno[name]),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
