"""The page that begins with what a shell prints: made from the advice for each errno."""

from __future__ import annotations

import errno
import os
import re

from journalfs.advice import ADVICE
from scripts.documents.rules import ROOT, rules, title

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
    places = {rule.number: (title(rule.page), rule.place) for rule in rules()}
    lines = [
        "# Errnos",
        "",
        "By what a shell prints. The reason is in the event: `journalfs why /mnt`.",
        "Made by `scripts/docs`; [errors](reference/errors.md) of commands have an errno, too.",
        "",
        "| printed | why | what to do | more |",
        "| --- | --- | --- | --- |",
    ]
    for name, advice in sorted(ADVICE.items(), key=lambda item: os.strerror(getattr(errno, item[0]))):
        links = ", ".join("[{}]({})".format(*places[number]) for number in advice.rules if number in places)
        printed = f"{os.strerror(getattr(errno, name))} ({name})"
        cells = [printed, advice.why, advice.do, links]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
