"""Signs that a concept may be missing: folders, files, classes and functions that grew. Questions, no gate.

`python -m scripts.signs`, as `scripts/lint` does.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
FOLDERS: Final = ("journalfs", "mount", "native")
FILES_MAX, LINES_MAX, LINES_MIN = 25, 800, 40
ATTRIBUTES_MAX, METHODS_MAX, PARAMETERS_MAX, LONGEST = 15, 30, 7, 5
MADE: Final = "_native.c"

CORE: Final = (
    *("journalfs/engine/", "journalfs/records/files/", "journalfs/live/", "journalfs/views/"),
    *("journalfs/change/", "journalfs/broker/publish/", "mount/kernel/", "mount/nodes/", "mount/front/"),
    *("native/src/state/", "native/src/journal/", "native/src/publish/", "native/src/io/", "native/front/"),
)
"""The folders that must be held in one head."""

RIDDLE: Final = re.compile(
    r"(?:^|[.:;] )(?:(?:Of|From|In|By|For|To|With|As|Where|If|When|Until|Whether|So|But|And|How) )?"
    r"(?:who|what|whoever|whatever|those|they|nobody|somebody|others|such)\b"
    r"|^(?:It|Its|Their|The same)\b|\b(?:whoever|whatever|anew)\b",
    re.IGNORECASE,
)
"""A sentence whose subject has no name. A sentence that avoids these words can still be a riddle."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


def sources() -> list[Path]:
    found = (path for folder in FOLDERS for path in (ROOT / folder).rglob("*.*"))
    return sorted(path for path in found if path.suffix in {".py", ".c", ".h"} and path.name != MADE)


def of_files(paths: list[Path]) -> Iterator[str]:
    for path in paths:
        lines = path.read_text().count("\n")
        if lines > LINES_MAX or (lines < LINES_MIN and path.name != "__init__.py"):
            yield f"{lines} lines: {path.relative_to(ROOT)}"
    for folder, count in sorted(Counter(path.parent for path in paths).items()):
        if count > FILES_MAX:
            yield f"{count} files: {folder.relative_to(ROOT)}"


def of_classes(trees: dict[Path, ast.Module]) -> Iterator[str]:
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if not isinstance(node, ast.ClassDef):
                continue
            where = f"{node.name} in {path.relative_to(ROOT)}"
            methods = {one.name: one for one in node.body if isinstance(one, Function)}
            inits = [one for name, one in methods.items() if name == "__init__"]
            parameters = sum(len(one.args.args) + len(one.args.kwonlyargs) - 1 for one in inits)
            for count, most, what in (
                (len(attributes(node)), ATTRIBUTES_MAX, "attributes"),
                (len(methods), METHODS_MAX, "methods"),
                (parameters, PARAMETERS_MAX, "parameters of its constructor"),
            ):
                if count > most:
                    yield f"{count} {what}: {where}"


def attributes(node: ast.ClassDef) -> set[str]:
    """Those of its objects: set on `self`, or fields that are declared."""
    found = {one.target.id for one in node.body if _is_field(one)}
    for one in ast.walk(node):
        if isinstance(one, ast.Attribute) and isinstance(one.ctx, ast.Store):
            found |= {one.attr} if ast.unparse(one.value) == "self" else set()
    return found


def _is_field(node: ast.stmt) -> bool:
    is_field = isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    return is_field and "ClassVar" not in ast.unparse(node.annotation)


def of_functions(trees: dict[Path, ast.Module]) -> Iterator[str]:
    found = [
        ((one.end_lineno or 0) - one.lineno + 1, f"{one.name} in {path.relative_to(ROOT)}")
        for path, tree in trees.items()
        for one in ast.walk(tree)
        if isinstance(one, Function)
    ]
    yield from (f"{lines} lines: {where}" for lines, where in sorted(found, reverse=True)[:LONGEST])


def docstrings(tree: ast.Module) -> Iterator[str]:
    """Texts below modules, classes, functions and fields, each on one line."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        for one in body if isinstance(body, list) else []:
            is_text = isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant)
            if is_text and isinstance(one.value.value, str):
                yield " ".join(one.value.value.split())


def of_texts(paths: list[Path], trees: dict[Path, ast.Module]) -> Iterator[str]:
    core = {path for path in paths if path.relative_to(ROOT).as_posix().startswith(CORE)}
    yield f"{sum(path.read_text().count(chr(10)) for path in core)} lines of the core"
    told = {path: list(docstrings(tree)) for path, tree in trees.items()}
    riddles = {path: sum(bool(RIDDLE.search(text)) for text in texts) for path, texts in told.items()}
    of_core = sum(count for path, count in riddles.items() if path in core)
    all_texts = sum(map(len, told.values()))
    yield f"{sum(riddles.values())} of {all_texts} docstrings riddle, {of_core} of them in the core"
    c_texts = (path.read_text() for path in paths if path.suffix == ".c")
    checked = Counter(word for text in c_texts for word in re.findall(r"\bJFS_(?:ASSERT|HOLDS)\(", text))
    yield f"{checked['JFS_ASSERT(']} assertions in C, {checked['JFS_HOLDS(']} conditions in whole checks"


def main() -> None:
    paths = sources()
    trees = {path: ast.parse(path.read_text()) for path in paths if path.suffix == ".py"}
    for found in (of_texts(paths, trees), of_files(paths), of_classes(trees), of_functions(trees)):
        for sign in found:
            print(f"  {sign}")


if __name__ == "__main__":
    main()
