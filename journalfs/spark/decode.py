"""Messages out of their records, wherever those came from: the last step of a distributed replay."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.types import StructType

from journalfs.engine.columns import LINE, Array, lines_pointer
from journalfs.engine.inflated import inflate_bytes
from journalfs.engine.lines import LineBatch
from journalfs.limits import INFLATE_BYTES_MAX_DEFAULT
from journalfs.spark.arrow import Reading


def decode_messages(
    schema: StructType, batch_bytes: int, now_ms: int, batches: Iterable[Any]
) -> Iterator[Any]:
    """From rows of `id`, `queue`, `deliveryCount`, `scheduledMs`, `isPaged`, `source`, `body` and `large` to
    rows of the schema. A message in a page says itself when it is due, and which id it has.
    """
    reading = Reading(schema)
    for batch in batches:
        lines, own = _lines(batch, now_ms)
        keep = _attach(lines, batch.column("large"))
        queues = batch.column("queue")
        done = 0
        while done < len(lines):
            found, count = reading.read(
                lines[done:], queues.slice(done), batch_bytes, own_schedules=own[done:], now_ms=now_ms
            )
            yield found
            done += count
        del keep


def _lines(batch: Any, now_ms: int) -> tuple[Array, Array]:
    """Lines that point into the column `body`, and for which of them the message says when it is due."""
    bodies = batch.column("body")
    lines = np.zeros(len(bodies), LINE)
    _, offsets, data = bodies.buffers()
    at = np.frombuffer(offsets, "i4")[bodies.offset : bodies.offset + len(bodies) + 1].astype("i8")
    lines["payload"] = (at[:-1] + (data.address if data is not None else 0)).astype("u8")
    lines["payload_bytes"] = np.diff(at)
    lines["source"] = batch.column("source")
    lines["delivery_count"] = batch.column("deliveryCount").fill_null(0)
    due = np.asarray(batch.column("scheduledMs").fill_null(0))
    lines["scheduled_ms"] = np.where(due > now_ms, due, 0)
    paged = np.asarray(batch.column("isPaged"))
    lines["record_id"] = np.where(paged, 0, np.asarray(batch.column("id").fill_null(0)))
    return lines, paged


def _attach(lines: Array, bodies: Any) -> list[Any]:
    """Let lines point to the bodies of large messages, inflated where they were compressed."""
    places = np.flatnonzero(np.asarray(bodies.is_valid()))
    if not len(places):
        return []
    batch = LineBatch(lines_pointer(lines), len(lines), queue=None)
    for index in map(int, places):
        body = bodies[index].as_buffer()
        measure = batch.measure(index)
        if measure.compressed:
            body = inflate_bytes(body, INFLATE_BYTES_MAX_DEFAULT)
        if measure.large:
            batch.set_large(index, pa.py_buffer(body).to_pybytes() if not isinstance(body, bytes) else body)
    return [batch]
