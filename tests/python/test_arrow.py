"""`arrow()`: the same messages as their lines, for each library that takes an Arrow stream."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import duckdb
import pandas
import polars
import pyarrow as pa
import pytest

import journalfs
from journalfs.errors import WrongCall
from journalfs.python.arrow import USUAL
from tests.frozen import unpack

STORES = ("orders-basic", "amqp-exotic", "large-and-paged", "transactions")


def store_of(name: str, folder: Path) -> Path:
    unpack(name, folder)
    return next(path for path in sorted(folder.rglob("journal")) if path.is_dir()).parent


@pytest.mark.parametrize("name", STORES)
def test_columns_say_what_lines_say(name: str, tmp_path: Path) -> None:
    with journalfs.open(store_of(name, tmp_path)) as store:
        table: Any = pa.table(store.arrow())
        table.validate(full=True)
        assert tuple(table.column_names) == USUAL
        rows = {(row["queue"], row["id"]): row for row in table.to_pylist()}
        messages = [message for queue in store for message in queue]
        assert len(messages) == table.num_rows > 0
        for message in messages:
            row = rows[message.queue, message.id]
            assert (row["address"], row["type"], row["protocol"]) == (
                message.address,
                message.type,
                message.protocol,
            )
            assert (row["priority"], row["durable"]) == (message.priority, message.durable)
            assert (row["timestamp"], row["expiration"]) == (message.timestamp, message.expiration)
            assert (row["userId"], row["largeMessage"]) == (message.user_id, message.large)
            assert [key for key, _ in row["properties"]] == list(message.properties)
            if message.type == "text" and isinstance(message.body, str) and message.body.isascii():
                assert row["body"] == message.body
            if isinstance(message.body, bytes) and message.protocol == "CORE" and message.body:
                assert row["bodyBytes"] == message.body


def test_libraries_take_it(tmp_path: Path) -> None:
    with journalfs.open(store_of("orders-basic", tmp_path)) as store:
        queue = max(store.queues(), key=len)
        found = queue.arrow(columns=["id", "queue", "body", "timestamp", "properties"])
        ids = [message.id for message in queue]
        assert polars.DataFrame(found)["id"].to_list() == ids
        assert pandas.DataFrame.from_arrow(found)["id"].to_list() == ids
        selected: Any = duckdb.sql("SELECT id FROM found")
        assert selected.fetchall() == [(one,) for one in ids]
        assert pa.table(found)["queue"].unique().to_pylist() == [queue.name.partition("::")[2]]
        chosen = pa.table(store.arrow(columns=["id"], where="JMSPriority >= 0"))
        assert chosen.num_rows == sum(map(len, store.queues()))
        assert pa.table(queue.arrow(columns=["id"], where="FALSE")).num_rows == 0
        capsule = found.__arrow_c_stream__()
        del capsule
        gc.collect()
        with pytest.raises(WrongCall, match="there is no 'nope'"):
            store.arrow(columns=["nope"])
        with pytest.raises(WrongCall, match="each once"):
            store.arrow(columns=["id", "id"])
        assert repr(store.arrow(columns=["id"])) == "<journalfs.Table of id>"


def test_of_a_store_that_is_written(tmp_path: Path) -> None:
    with journalfs.open(store_of("orders-basic", tmp_path), write=True) as store:
        store.create("new::new").publish("as columns", properties={"n": 1})
        table: Any = pa.table(store["new"].arrow())
        (row,) = table.to_pylist()
        assert (row["body"], row["properties"]) == ("as columns", [("n", {"type": "long", "value": "1"})])
        kept = store.snapshot("monday")
        store["new"].remove()
        assert pa.table(kept["new"].arrow()).num_rows == 1
        assert pa.table(store["new"].arrow()).num_rows == 0
