"""Protections have numbers: at their lines, at their tests, in their page, and each has a canary."""

from __future__ import annotations

import re
from collections import defaultdict
from itertools import chain

from tests.protections.canaries import canaries
from tests.tidy.sources import ROOT

PAGE = ROOT / "docs" / "inside" / "protections.md"
AT_A_LINE = re.compile(r"(?:#|//|/\*) (P-\d+):")
AT_A_TEST = re.compile(r'@pytest\.mark\.protects\(((?:"P-\d+"(?:, )?)+)\)')
NUMBER = re.compile(r"P-\d+")
REACH_LINES = 12
"""A protecting line stands at most so far below its number."""


def of_page() -> set[str]:
    return set(re.findall(r"^\| (P-\d+) \|", PAGE.read_text(), re.MULTILINE))


def of_lines() -> dict[str, set[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for folder in ("journalfs", "mount", "native"):
        for path in chain((ROOT / folder).rglob("*.py"), (ROOT / folder).rglob("*.[ch]")):
            for number in AT_A_LINE.findall(path.read_text()):
                found[number].add(path.relative_to(ROOT).as_posix())
    return found


def of_tests() -> set[str]:
    texts = (path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    return {number for text in texts for marks in AT_A_TEST.findall(text) for number in NUMBER.findall(marks)}


def test_each_protection_has_lines_tests_and_canaries() -> None:
    page = of_page()
    assert page
    assert of_lines().keys() == page
    assert of_tests() == page
    assert {canary.protection for canary in canaries()} == page


def test_the_page_names_the_files_of_each_protection() -> None:
    text = PAGE.read_text()
    missing = [
        f"{number}: {file}"
        for number, files in of_lines().items()
        for file in files
        if file not in text.partition(f"| {number} |")[2].partition("\n")[0]
    ]
    assert not missing, "\n".join(missing)


def test_each_canary_finds_its_line_below_its_number() -> None:
    for canary in canaries():
        text = (ROOT / canary.file).read_text()
        assert text.count(canary.old) == 1, f"{canary.file}: {canary.old!r}"
        before = text.partition(canary.old)[0].splitlines()[-REACH_LINES:]
        numbers = {number for line in before for number in AT_A_LINE.findall(line)}
        assert canary.protection in numbers, f"{canary.file}: no {canary.protection} above {canary.old!r}"
