"""Asks the broker's own classes what the selectors of `cases.py` mean and writes it down in `recorded/`.

Run as `python -m tests.selector.record` after changing the cases; the tests then need no Java.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from tests.frozen import PristineStores
from tests.selector.cases import FILTERS, JMS_FILTERS, ROW, SELECTORS, STORES
from tests.selector.messages import stored_messages
from tests.selector.oracle import Oracle

FOLDER = Path(__file__).parent / "recorded"


def answers_on_row(oracle: Oracle) -> dict[str, Any]:
    """Selector -> [value, accepted], or null where it is refused."""
    return {selector: oracle.evaluate(selector, ROW) for selector in SELECTORS}


def answers_on_stores(oracle: Oracle, stores: PristineStores) -> dict[str, Any]:
    """Store -> {"core" or "jms": {filter: a digit for each message, or null}}."""
    answers: dict[str, Any] = {}
    for name in STORES:
        oracle.keep([message.payload for message in stored_messages(stores[name])])
        answers[name] = {
            kind: {text: oracle.filter(text, jms=kind == "jms") for text in texts}
            for kind, texts in (("core", FILTERS), ("jms", JMS_FILTERS))
        }
    return answers


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch, Oracle() as oracle:
        _write("row.json", answers_on_row(oracle))
        _write("stores.json", answers_on_stores(oracle, PristineStores(Path(scratch))))


def _write(name: str, answers: dict[str, Any]) -> None:
    text = json.dumps(answers, ensure_ascii=False, indent=1)
    (FOLDER / name).write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
