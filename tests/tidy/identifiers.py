"""Identifiers of errors and events, which are promised never to change, as the sources have them."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from functools import cache

from journalfs.errors import JournalfsError
from tests.tidy.sources import python_sources


@cache
def error_kinds() -> dict[str, type[JournalfsError]]:
    """By identifier, those of the whole product; of several the one from which the others are derived."""
    for name in _modules_with_errors():
        importlib.import_module(name)
    found: dict[str, type[JournalfsError]] = {}
    for kind in _kinds(JournalfsError):
        if kind.__module__.startswith(("journalfs.", "journalfs_mount.")):
            found.setdefault(kind.identifier, kind)
    return found


def _kinds(kind: type[JournalfsError]) -> Iterator[type[JournalfsError]]:
    yield kind
    # Those that share an identifier with one of journalfs.errors only carry more.
    for below in sorted(kind.__subclasses__(), key=lambda one: one.__module__ != "journalfs.errors"):
        yield from _kinds(below)


def _modules_with_errors() -> Iterator[str]:
    for source in python_sources():
        stated = r"^ +identifier\b[^=\n]*= |^class .*\bidentifier="
        if source.is_product and re.search(stated, source.text, re.MULTILINE):
            name = source.name.removesuffix(".py").replace("/", ".")
            yield f"journalfs_{name}" if name.startswith("mount.") else name


def event_identifiers() -> dict[str, str]:
    """Each word that an event is added under, and one place where it is."""
    found: dict[str, str] = {}
    for source in python_sources():
        if not source.is_product or "events.add(" not in source.text:
            continue
        for node in ast.walk(source.tree):
            if isinstance(node, ast.Call) and _adds_event(node.func):
                place = f"{source.name}:{node.lineno}"
                found[_word(node, place)] = place
    return {word: place for word, place in found.items() if word}


def _adds_event(function: ast.expr) -> bool:
    if not isinstance(function, ast.Attribute) or function.attr != "add":
        return False
    owner = function.value
    name = owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")
    return name == "events"


def _word(call: ast.Call, place: str) -> str:
    """Empty for what carries an error's own identifier."""
    first = call.args[0]
    if isinstance(first, ast.Constant) and isinstance(first.value, str):
        return first.value
    assert isinstance(first, ast.Attribute), place
    assert first.attr == "identifier", f"{place}: the word of an event is to be read in the sources"
    return ""
