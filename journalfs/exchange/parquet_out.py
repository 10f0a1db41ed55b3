"""Messages as rows of a Parquet file, without Spark."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, BinaryIO, Final

from journalfs.exchange.importing import parquet_module
from journalfs.message.envelope import decode_envelope

ROWS_AT_ONCE: Final = 8192
_PLAIN: Final = (
    "queue", "address", "id", "userId", "protocol", "type", "durable", "priority", "timestamp", "expiration",
    "scheduledTime", "deliveryCount", "groupId",
)  # fmt: skip


def _schema() -> Any:
    import pyarrow as pa  # noqa: PLC0415 - few need it

    text, time = pa.string(), pa.timestamp("ms", tz="UTC")
    kinds = {
        "id": pa.int64(),
        "durable": pa.bool_(),
        "priority": pa.int8(),
        "timestamp": time,
        "expiration": time,
        "scheduledTime": time,
        "deliveryCount": pa.int32(),
    }
    fields = [pa.field(name, kinds.get(name, text)) for name in _PLAIN]
    fields += [
        pa.field("properties", pa.map_(text, text)),
        pa.field("body", text),
        pa.field("body_bytes", pa.binary()),
        pa.field("envelope", text, nullable=False),
    ]
    return pa.schema(fields)


class ParquetWriter:
    """Writes envelope lines as rows, a few thousand at a time. `envelope` is the line itself, from which
    `import` makes the message again; the other columns are what of it is asked for.
    """

    def __init__(self, out: BinaryIO) -> None:
        pq = parquet_module()
        self._schema = _schema()
        self._writer = pq.ParquetWriter(out, self._schema, compression="zstd")
        self._rows: list[dict[str, object]] = []

    def lines(self, lines: Iterable[bytes]) -> None:
        for line in lines:
            self._rows.append(_row(line))
            if len(self._rows) >= ROWS_AT_ONCE:
                self._flush()

    def _flush(self) -> None:
        import pyarrow as pa  # noqa: PLC0415 - few need it

        if self._rows:
            self._writer.write_batch(pa.RecordBatch.from_pylist(self._rows, schema=self._schema))
            self._rows = []

    def close(self) -> None:
        self._flush()
        self._writer.close()


def _row(line: bytes) -> dict[str, object]:
    import base64  # noqa: PLC0415 - few need it

    envelope = decode_envelope(line)
    row: dict[str, object] = {name: _whole(envelope.get(name)) for name in _PLAIN}
    for name in ("timestamp", "expiration", "scheduledTime"):
        row[name] = row[name] or None
    properties = envelope.get("properties")
    if isinstance(properties, dict):
        row["properties"] = [
            (_whole(name), None if value is None else _text(value)) for name, value in properties.items()
        ]
    body = envelope.get("body")
    row["body"] = None if body is None else _text(body)
    packed = envelope.get("body_base64")
    row["body_bytes"] = base64.b64decode(packed) if isinstance(packed, str) else None
    row["envelope"] = line.rstrip(b"\n").decode("utf-8", "replace")
    return row


def _whole(value: object) -> object:
    """A text with U+FFFD for halves of characters, which the envelope alone keeps."""
    if not isinstance(value, str) or value.isascii():
        return value
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _text(value: object) -> object:
    import json  # noqa: PLC0415 - as below

    import msgspec  # noqa: PLC0415 - few need it

    if isinstance(value, str):
        return _whole(value)
    try:
        return msgspec.json.encode(value).decode()
    except UnicodeEncodeError:
        return json.dumps(value)
