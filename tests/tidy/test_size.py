"""Functions fit a screen. The length of a file is a sign that `scripts/lint` prints, and no gate."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.tidy.sources import c_sources, python_sources

FUNCTION_LINES_MAX = 70


def test_python_functions_fit_a_screen() -> None:
    long = [
        f"{source.name}:{node.lineno} {node.name} has {lines} lines"
        for source in python_sources()
        for node in ast.walk(source.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (lines := (node.end_lineno or 0) - node.lineno + 1) > FUNCTION_LINES_MAX
    ]
    assert not long, "\n".join(long)


def test_c_functions_fit_a_screen() -> None:
    long = [
        f"{name}:{line} {function} has {lines} lines"
        for name, text in c_sources()
        for function, line, lines in c_functions(text)
        if lines > FUNCTION_LINES_MAX
    ]
    assert not long, "\n".join(long)


FUNCTION = re.compile(r"^(?!struct|union|enum|typedef)[A-Za-z_][\w \t*]*?\b(\w+)\(")


def c_functions(text: str) -> Iterator[tuple[str, int, int]]:
    """(name, first line, lines) of each function whose body ends with a `}` in the first column."""
    name, start, opened = "", 0, False
    for number, line in enumerate(text.splitlines(), 1):
        match = FUNCTION.match(line)
        if match and not opened:
            name, start = match[1], number
        if name and not opened:
            opened = line.rstrip().endswith("{")
            if line.rstrip().endswith(";"):
                name = ""
        if opened and line.startswith("}"):
            yield name, start, number - start + 1
            name, opened = "", False


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("int one(void) {\n    return 1;\n}\n", [("one", 1, 3)]),
        ("int declared(void);\nstatic int\nno(void);\n", []),
        (
            "static int two(int a,\n               int b) {\n  if (a) {\n  }\n  return b;\n}\n",
            [("two", 1, 6)],
        ),
        ("static int three(int a)\n{\n  return a;\n}\n", [("three", 1, 4)]),
        (
            "static const char *const names[] = {\n  0,\n};\nstatic const char *five(int a) {\n}\n",
            [("five", 4, 2)],
        ),
        ("typedef struct {\n  int a;\n} thing;\nvoid four(void) {\n}\n", [("four", 4, 2)]),
    ],
)
def test_the_measure_of_c_functions(text: str, found: list[tuple[str, int, int]]) -> None:
    assert list(c_functions(text)) == found
