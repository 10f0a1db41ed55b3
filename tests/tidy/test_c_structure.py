"""What holds the structure of the C sources: no circle of files, and one list of record types."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter

import pytest

from journalfs.format.record_types import MessageType
from tests.tidy.sources import ROOT

C_PRODUCT = ("native/src", "native/front")
DEFINED = re.compile(
    r"^(?!static|typedef|extern|return|else)[a-z_]\w*[\w \t*]*?\b(\w+)\([^;{}]*\)\s*\{", re.MULTILINE
)
OBJECT = re.compile(
    r"^(?!static|typedef|extern|return)[a-z_]\w*[\w \t*]*?\b(\w+)(?:\[[^\]]*\])?\s*=\s", re.MULTILINE
)


def stripped(text: str) -> str:
    """Return C source without comments and strings."""
    return re.sub(r'"(?:\\.|[^"\\\n])*"', '""', re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL))


def users(texts: Mapping[str, str]) -> dict[str, set[str]]:
    """Return, for each file, the other files whose functions or objects it uses."""
    code = {name: stripped(text) for name, text in texts.items()}
    owner: dict[str, str] = {}
    for name, text in code.items():
        owner |= {found: name for pattern in (DEFINED, OBJECT) for found in pattern.findall(text)}
    return {
        name: {owner[word] for word in set(re.findall(r"\w+", text)) if owner.get(word, name) != name}
        for name, text in code.items()
    }


def circle_of(graph: Mapping[str, Iterable[str]]) -> list[str]:
    """Return the files of one circle, the first of them at the end again; empty where there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_no_circle_of_c_files() -> None:
    texts = {
        path.relative_to(ROOT).as_posix(): path.read_text()
        for folder in C_PRODUCT
        for path in (ROOT / folder).rglob("*.c")
    }
    graph = users(texts)
    assert sum(map(len, graph.values())) > len(graph), "the measure sees calls"
    assert not circle_of(graph)


@pytest.mark.parametrize(
    ("second", "circle"),
    [
        ("int two(void) {\n    return one();\n}\n", True),
        ("static int one(void) {\n    return 1;\n}\nint two(void) {\n    return 2;\n}\n", True),
        ("int two(void) {\n    return 2; /* one() */\n}\n", False),
        ("int two_of = 2;\nint two(void) {\n    return two_of;\n}\n", False),
    ],
)
def test_the_measure_of_circles(second: str, *, circle: bool) -> None:
    """A static function of the same name counts as a use: it must not hide another file's."""
    first = "int one(void) {\n    return two();\n}\n"
    assert bool(circle_of(users({"first.c": first, "second.c": second}))) is circle


def test_c_and_python_number_record_types_alike() -> None:
    text = (ROOT / "native/src/journal/user_types.h").read_text()
    found = {name: int(number) for name, number in re.findall(r"TYPE_(\w+) = (\d+)", text)}
    assert found
    assert {
        name: number for name, number in found.items() if MessageType.__members__.get(name) != number
    } == {}


def test_c_sources_number_record_types_in_one_header() -> None:
    types = set(re.findall(r"TYPE_\w+", (ROOT / "native/src/journal/user_types.h").read_text()))
    again = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in (ROOT / "native/src").rglob("*.[ch]")
        if path.name != "user_types.h"
        for name in re.findall(r"\b(TYPE_\w+) = \d", path.read_text())
        if name in types
    ]
    assert not again
