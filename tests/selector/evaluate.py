"""Our side of a comparison: the same question that is put to the broker, answered by `journalfs.selector`."""

from __future__ import annotations

from collections.abc import Mapping

from journalfs.errors import SelectorError
from journalfs.selector import compile_selector
from journalfs.selector.compiler import Compiler
from journalfs.selector.failure import EvaluationFailed
from journalfs.selector.grammar import parse

Properties = Mapping[str, tuple[str, str]]
"""Name -> (type, text)."""


def envelope_of(properties: Properties) -> dict[str, object]:
    """The part of an envelope that carries these properties."""
    values: dict[str, object] = {}
    types: dict[str, str] = {}
    for name, (kind, text) in properties.items():
        if kind not in ("string", "boolean"):
            types[name] = kind
        if kind == "boolean":
            values[name] = text == "true"
        elif kind in ("byte", "short", "int", "long", "timestamp"):
            values[name] = int(text)
        elif kind in ("float", "double") and text not in ("NaN", "Infinity", "-Infinity"):
            values[name] = float(text)
        else:
            values[name] = text
    return {"protocol": "CORE", "properties": values, "propertyTypes": types}


def evaluate(selector: str, properties: Properties) -> tuple[str, bool] | None:
    """(`true` `false` `unknown` or `fails`, accepted); None when the selector is refused."""
    envelope = envelope_of(properties)
    try:
        compiled = compile_selector(selector, stored=True)
        condition = Compiler(parse(selector), stored=True, only_true=False)
    except SelectorError:
        return None
    try:
        value = condition.judge(envelope)
        word = "unknown" if value is None else str(value).lower()
    except EvaluationFailed:
        word = "fails"
    return word, compiled.accepts(envelope)
