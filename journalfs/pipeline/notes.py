"""What brokers note on the copy of a message: where it was before, and when it expired.

They are properties of core messages, `_AMQ_ORIG_QUEUE`, and annotations of AMQP ones, `x-opt-ORIG-QUEUE`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.types import StringType, StructField, StructType

from journalfs.format.core_message import PROPERTY_PREFIX, annotation_of
from journalfs.spark.decode import decode_messages
from journalfs.spark.options import DEFAULT_BATCH_BYTES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PROTOCOL: Final = StructField("protocol", StringType())
_LINE: Final = "envelope"
ENVELOPE: Final = StructType([StructField(_LINE, StringType())])


def notes_of_lines(schema: StructType) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """Return what makes batches of AMQP messages, with their lines as `envelope`, into batches of the schema,
    with their notes in the columns that are named after the properties.
    """
    return partial(_of_lines, schema.names)


def decoded_with_notes(payloads: DataFrame, schema: StructType, now_ms: int) -> DataFrame:
    """`decode_messages`, with the notes of AMQP messages. Of these, and of them alone, the whole line is
    read.
    """
    return payloads.mapInArrow(partial(_read, schema, now_ms), schema)


def _of_lines(names: list[str], batches: Iterable[Any]) -> Iterator[Any]:
    for batch in batches:
        lines = batch.column(_LINE).to_pylist()
        yield _noted(batch.select(names), range(len(lines)), lines)


def _read(schema: StructType, now_ms: int, batches: Iterable[Any]) -> Iterator[Any]:
    import pyarrow.compute as pc  # noqa: PLC0415 - where Spark runs it

    with_protocol = StructType([*schema.fields, PROTOCOL])
    for batch in batches:
        done = 0
        for found in decode_messages(with_protocol, DEFAULT_BATCH_BYTES, now_ms, [batch]):
            is_amqp = pc.fill_null(pc.equal(found.column(PROTOCOL.name), "AMQP"), False)
            rows = batch.slice(done, len(found)).filter(is_amqp)
            done += len(found)
            places = [place for place, amqp in enumerate(is_amqp.to_pylist()) if amqp]
            yield _noted(found.select(schema.names), places, list(_lines(rows, now_ms)))


def _lines(rows: Any, now_ms: int) -> Iterator[str]:
    if len(rows):
        for found in decode_messages(ENVELOPE, DEFAULT_BATCH_BYTES, now_ms, [rows]):
            yield from found.column(_LINE).to_pylist()


def _noted(found: Any, places: Sequence[int], lines: Sequence[str]) -> Any:
    """Rows with the notes that lines have, each for the row at its place."""
    import pyarrow as pa  # noqa: PLC0415 - as above

    if not lines:
        return found
    annotations = [_annotations(line) for line in lines]
    columns = dict(zip(found.schema.names, found.columns, strict=True))
    for name in filter(lambda one: one.startswith(PROPERTY_PREFIX), found.schema.names):
        kind, values = columns[name].type, columns[name].to_pylist()
        for place, notes in zip(places, annotations, strict=True):
            note = notes.get(annotation_of(name))
            fitting = _number(note) if pa.types.is_integer(kind) else _text(note)
            values[place] = values[place] if fitting is None else fitting
        columns[name] = pa.array(values, kind)
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=found.schema)


def _annotations(line: str) -> dict[str, Any]:
    pairs = json.loads(line).get("amqp", {}).get("messageAnnotations", ())
    return {name["v"]: value.get("v") for name, value in pairs}


def _number(note: Any) -> int | None:
    """A whole number of 64 bits, or a text that is one."""
    try:
        number = int(note)
    except (TypeError, ValueError):
        return None
    return number if -(2**63) <= number < 2**63 else None


def _text(note: Any) -> str | None:
    return note if isinstance(note, str) else None
