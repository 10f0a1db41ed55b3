"""Envelope lines with another duplicate id: what a replay publishes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from journalfs.format.core_message import DUPLICATE_ID


def with_duplicate_id(line: str, duplicate_id: str) -> str:
    """The same message with that id in place of its own, if it had one.

    A line that is only whole with the bytes of its record stays as it is.
    """
    message: dict[str, Any] = json.loads(line)
    if "message_base64" in message:
        return line
    for key in ("duplicateId", "duplicateId_base64"):
        message.pop(key, None)
    message.setdefault("properties", {})[DUPLICATE_ID] = duplicate_id
    message.get("propertyTypes", {}).pop(DUPLICATE_ID, None)
    if "amqp" in message:
        name = {"t": "string", "v": DUPLICATE_ID}
        amqp: dict[str, Any] = message["amqp"]
        pairs = [pair for pair in amqp.get("applicationProperties", ()) if pair[0]["v"] != DUPLICATE_ID]
        amqp["applicationProperties"] = [*pairs, [name, {"t": "string", "v": duplicate_id}]]
    elif message.get("protocol") == "CORE":
        message["duplicateId"] = duplicate_id
    # What is escaped in the line stays escaped: halves of characters are no text.
    return json.dumps(message, separators=(",", ":"))


def lines_with_ids(batches: Iterable[Any]) -> Iterator[Any]:
    """From record batches of `envelope` and `duplicateId` to such of lines, in a task of Spark. Of rows with
    one id it takes the first.
    """
    import pyarrow as pa  # noqa: PLC0415 - where the task runs

    seen = set[str]()
    for batch in batches:
        columns = (batch.column(name).to_pylist() for name in ("envelope", "duplicateId"))
        lines = []
        for line, own in zip(*columns, strict=True):
            if own not in seen:
                seen.add(own)
                lines.append(with_duplicate_id(line, own))
        yield pa.RecordBatch.from_arrays([pa.array(lines, pa.string())], ["envelope"])
