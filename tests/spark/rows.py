"""Compares rows of `format("journalfs")` with the envelope lines of the same messages."""

from __future__ import annotations

import base64
import datetime
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pyspark.sql.types import StructType

from journalfs.spark.options import Options
from journalfs.spark.source import BatchReader
from journalfs.store import open_store

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)

SAME = (
    "id",
    "address",
    "type",
    "protocol",
    "userId",
    "groupId",
    "duplicateId",
    "damage",
    "durable",
    "priority",
)
TIMES = {"timestamp": "timestamp", "expiration": "expiration", "scheduledTime": "scheduledTime"}


def lines_of(store: Path) -> list[tuple[dict[str, Any], bytes]]:
    """Every envelope line of a store, decoded and as it is."""
    opened = open_store(store, index=False)
    found = []
    for queue in opened.queues():
        source = queue.open_all()
        content = bytes(source.read(0, source.size_bytes))
        found += [(json.loads(line), line) for line in content.split(b"\n")[:-1]]
        source.close()
    opened.close()
    return found


def read_without_spark(store: Path, schema: StructType, **options: Any) -> list[dict[str, Any]]:
    """The rows that the tasks of a job would give, without a JVM."""
    reader = BatchReader(Options(path=str(store), index=False, **options), schema)
    return list(rows_of(reader))


def rows_of(reader: BatchReader) -> Iterator[dict[str, Any]]:
    for partition in reader.partitions():
        for batch in reader.read(partition):
            batch.validate(full=True)
            yield from batch.to_pylist()


def check_row(row: Mapping[str, Any], line: Mapping[str, Any]) -> None:
    """What a row says of a message is what its line says. Lone surrogates, which no column can hold, are
    replaced.
    """
    for name in SAME:
        assert row[name] == plain(line.get(name)), (name, line)
    for name in TIMES:
        assert row[name] == time_of(line.get(name)), (name, line)
    assert row["queue"] == plain(line["queue"])
    assert row["deliveryCount"] == line.get("deliveryCount", 0)
    assert row["largeMessage"] == line.get("largeMessage", False)
    check_properties(dict(row["properties"]), line)
    check_body(row, line)


def plain(text: Any) -> Any:
    """Text as a column holds it."""
    if not isinstance(text, str):
        return text
    joined = text.encode("utf-16-le", "surrogatepass")
    return joined.decode("utf-16-le", "replace")


def time_of(ms: int | None) -> datetime.datetime | None:
    return EPOCH + datetime.timedelta(milliseconds=ms) if ms else None


def check_properties(properties: Mapping[str, Any], line: Mapping[str, Any]) -> None:
    said = line.get("properties", {})
    types = line.get("propertyTypes", {})
    assert properties.keys() == set(map(plain, said))
    for name, value in said.items():
        found = properties[plain(name)]
        if name in types:
            assert found["type"] == types[name]
        if value is None:
            assert found["value"] is None
        elif isinstance(value, bool):
            assert found == {"type": "boolean", "value": str(value).lower()}
        elif isinstance(value, str):
            assert found["value"] == plain(value)
        else:
            assert json.loads(found["value"]) == value


def check_body(row: Mapping[str, Any], line: Mapping[str, Any]) -> None:
    if "body_base64" in line:
        assert row["bodyBytes"] == base64.b64decode(line["body_base64"])
        assert row["body"] is None
        return
    assert row["bodyBytes"] is None or line["protocol"] == "AMQP"
    body = line.get("body")
    if isinstance(body, str):
        assert row["body"] == plain(body)
    elif body is not None:
        assert json.loads(row["body"]) == body
    elif "body" in line:
        assert row["body"] is None
