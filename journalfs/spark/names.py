"""Names of queues and addresses as one text: the option `queues`, and `--queues` and `--to` of pipelines."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

_ARRAY: Final = "["


def names_in(text: str) -> tuple[str, ...]:
    """Names with commas between them. A text that begins with `[` is a JSON array of them, in which names may
    have commas, spaces around them, and that character in front. Raises `ValueError`, also where none is in
    it: a variable of a shell that is not set is to mean nothing, rather than everything.
    """
    if not text.replace(",", " ").strip():
        raise ValueError(f"{text!r} names no queue: leave it out to mean all")
    if not text.lstrip().startswith(_ARRAY):
        return tuple(part.strip() for part in text.split(",") if part.strip())
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, list) or not found or not all(isinstance(one, str) and one for one in found):
        example = json.dumps([text.strip()], ensure_ascii=False)
        raise ValueError(f"{text!r} begins as a JSON array of names and is none; one such name is {example}")
    return tuple(found)


def names_text(names: Sequence[str]) -> str:
    """A text in which `names_in` finds just these."""
    return json.dumps(list(names))
