"""Signs that a concept may be missing: folders, files, classes and functions that grew. Questions, no gate.

`python -m scripts.signs`, as `scripts/lint` does.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
FOLDERS: Final = ("journalfs", "mount", "native")
FILES_MAX, LINES_MAX, LINES_MIN = 25, 800, 40
ATTRIBUTES_MAX, METHODS_MAX, PARAMETERS_MAX, LONGEST = 15, 30, 7, 5
MADE: Final = "_native.c"

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


def main() -> None:
    paths = sources()
    trees = {path: ast.parse(path.read_text()) for path in paths if path.suffix == ".py"}
    for found in (of_files(paths), of_classes(trees), of_functions(trees)):
        for sign in found:
            print(f"  {sign}")


if __name__ == "__main__":
    main()
