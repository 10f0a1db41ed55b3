"""What brokers note on the copy of a message: where it was before, and when it expired.

They are properties of core messages, `_AMQ_ORIG_QUEUE`, and annotations of AMQP ones, `x-opt-ORIG-QUEUE`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.types import StringType, StructField, StructType

from journalfs.format.core_message import PROPERTY_PREFIX, annotation_of
from journalfs.spark.decode import decode_messages
from journalfs.spark.options import DEFAULT_BATCH_BYTES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PROTOCOL: Final = StructField("protocol", StringType())
ENVELOPE: Final = StructType([StructField("envelope", StringType())])


def decoded_with_notes(payloads: DataFrame, schema: StructType, now_ms: int) -> DataFrame:
    """`decode_messages`, with notes of AMQP messages in the columns that are named after the properties. Of
    these messages, and of them alone, the whole line is read.
    """
    return payloads.mapInArrow(partial(_read, schema, now_ms), schema)


def _read(schema: StructType, now_ms: int, batches: Iterable[Any]) -> Iterator[Any]:
    import pyarrow.compute as pc  # noqa: PLC0415 - where Spark runs it

    wanted = [name for name in schema.names if name.startswith(PROPERTY_PREFIX)]
    with_protocol = StructType([*schema.fields, PROTOCOL])
    for batch in batches:
        done = 0
        for found in decode_messages(with_protocol, DEFAULT_BATCH_BYTES, now_ms, [batch]):
            is_amqp = pc.fill_null(pc.equal(found.column(PROTOCOL.name), "AMQP"), False)
            rows = batch.slice(done, len(found)).filter(is_amqp)
            done += len(found)
            yield _noted(found.select(schema.names), is_amqp, list(_annotations(rows, now_ms)), wanted)


def _annotations(rows: Any, now_ms: int) -> Iterator[dict[str, Any]]:
    if not len(rows):
        return
    for lines in decode_messages(ENVELOPE, DEFAULT_BATCH_BYTES, now_ms, [rows]):
        for line in lines.column("envelope").to_pylist():
            pairs = json.loads(line).get("amqp", {}).get("messageAnnotations", ())
            yield {name["v"]: value.get("v") for name, value in pairs}


def _noted(found: Any, is_amqp: Any, annotations: list[dict[str, Any]], wanted: list[str]) -> Any:
    import pyarrow as pa  # noqa: PLC0415 - as above

    if not annotations:
        return found
    columns = dict(zip(found.schema.names, found.columns, strict=True))
    places = [place for place, amqp in enumerate(is_amqp.to_pylist()) if amqp]
    for name in wanted:
        values = columns[name].to_pylist()
        for place, notes in zip(places, annotations, strict=True):
            values[place] = notes.get(annotation_of(name), values[place])
        columns[name] = pa.array(values, columns[name].type)
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=found.schema)
