"""Words that make sentences hard to read, in the documents and in texts that the product shows.

`python -m scripts.documents.words` refuses the worst and lists long sentences, which are a sign and no gate.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from scripts.documents.rules import DOCS, ROOT

WORST = (
    r"\bwhoever\b",
    r"\bwhosoever\b",
    r"\bwhat(?:ever)? is \w+ is\b",
    r"^(?:Such as|Of which|Of whom)\b",
    r"(?<=\. )(?:Such as|Of which|Of whom)\b",
    r"\bthereof\b",
    r"\bhereby\b",
    r"\bsaid (?:file|queue|message|store)\b",
)
"""A sentence with one of these is turned round: the subject first."""

LONG = 30
"""Words of a sentence from which on it is listed."""

EXAMPLES = DOCS / "inside" / "style.md"
"""Has the worst words as examples."""

SHOWN = {"Refused", "Event", "WrongCall", "add_event", "refuse_with"}
"""Calls whose texts a user reads."""

HELP = frozenset({"help", "advice", "epilog", "message"})
"""Arguments of any call that a user reads."""


def texts() -> Iterator[tuple[str, str]]:
    """(place, text) of each paragraph of the documents, and of each text that the product shows."""
    for path in [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]:
        if path == EXAMPLES:
            continue
        text = re.sub(r"^```.*?^```$", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
        for paragraph in re.split(r"\n\s*\n|\n(?=[|*#-] ?)", text):
            yield path.relative_to(ROOT).as_posix(), " ".join(paragraph.split())
    for folder in ("journalfs", "mount"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield from _shown(path)


def _shown(path: Path) -> Iterator[tuple[str, str]]:
    """Texts of errors, events and help: arguments of calls, and docstrings of commands."""
    tree = ast.parse(path.read_text())
    place = path.relative_to(ROOT).as_posix()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "attr", None) or getattr(node.func, "id", "")
            helps = [
                word.value for word in node.keywords if word.arg in ("help", "advice", "epilog", "message")
            ]
            for argument in [*(node.args if name in SHOWN else ()), *helps]:
                yield f"{place}:{node.lineno}", " ".join(_words(argument).split())
        elif isinstance(node, ast.FunctionDef) and any(
            "command" in ast.unparse(d) for d in node.decorator_list
        ):
            yield f"{place}:{node.lineno}", " ".join((ast.get_docstring(node) or "").split())


def _words(node: ast.expr) -> str:
    """The constant pieces of a text, with `…` for what is put in."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(_words(part) if isinstance(part, ast.Constant) else "…" for part in node.values)
    if isinstance(node, ast.BinOp):
        return _words(node.left) + _words(node.right)
    return ""


def refused() -> list[str]:
    """Places with one of the worst words."""
    found = []
    for place, text in texts():
        for pattern in WORST:
            match = re.search(pattern, text, re.IGNORECASE)
            if match:
                found.append(
                    f"{place}: {match[0]!r} in: {text[max(0, match.start() - 40) : match.end() + 40]}"
                )
    return found


def long_sentences() -> list[str]:
    found = []
    for place, text in texts():
        if text.startswith("|"):
            continue
        for sentence in re.split(r"(?<=[.:;!?])(?:\*\*)? (?=[A-Z*`(])", text):
            count = len([word for word in sentence.split() if re.search(r"\w", word)])
            if count > LONG:
                found.append(f"{count} words, {place}: {sentence[:80]}…")
    return found


def main() -> None:
    signs = long_sentences()
    print(f"{len(signs)} sentences of more than {LONG} words (a sign, no gate):")
    for line in sorted(signs, key=lambda line: -int(line.split()[0]))[:15]:
        print(f"  {line}")
    wrong = refused()
    for line in wrong:
        print(f"refused, see docs/inside/style.md: {line}", file=sys.stderr)
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
