"""A flush as one statement of PostgreSQL: it asks for the lease, inserts and deletes, in one way to the
server and back. Each shape of it is prepared once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import Connection, Table

from journalfs.tables.lease import Lease

_TYPES: Final = {
    "id": "int8",
    "recordtype": "int2",
    "txid": "int8",
    "userrecordtype": "int2",
    "record": "bytea",
    "txdata": "bytea",
    "seq": "int8",
}
"""Columns that a row is given; others follow from them."""

_COLUMNS: Final = (
    "id, recordtype, compactcount, txid, userrecordtype, variablesize, record, txdatasize, txdata, "
    "txchecknorecords, seq"
)
_VALUES: Final = (
    "id, recordtype, 0, txid, userrecordtype, length(record), record, length(txdata), txdata, 0, seq"
)


class OneStatement:
    def __init__(self, table: Table, lease: Lease) -> None:
        self._table, self._lease = table.name, lease

    def execute(
        self,
        connection: Connection,
        rows: Sequence[dict[str, Any]],
        deleted: Sequence[int],
        ended: Sequence[int],
    ) -> None:
        """Do all of it, in a transaction of its own; none of `rows` may be one that it deletes. Raises
        `LeaseLost`, and then nothing was done.
        """
        table, parts = self._table, [f"lease AS ({self._lease.ask_in_postgresql()})"]
        given: dict[str, Any] = {"holder": self._lease.holder}
        if rows:
            arrays = ", ".join(f"%({name})b::{kind}[]" for name, kind in _TYPES.items())
            given |= {name: [row[name] for row in rows] for name in _TYPES}
            source = f"lease, unnest({arrays}) AS one({', '.join(_TYPES)})"
            values = _VALUES.replace("id,", "one.id,", 1)
            parts.append(f"added AS (INSERT INTO {table} ({_COLUMNS}) SELECT {values} FROM {source})")
        for name, column, ids in (("gone", "id", deleted), ("ended", "txid", ended)):
            if ids:
                given[name] = list(ids)
                where = f"{column} = ANY(%({name})b::int8[]) AND {column} > 0 AND EXISTS (SELECT FROM lease)"
                parts.append(f"{name} AS (DELETE FROM {table} WHERE {where})")
        found = connection.exec_driver_sql(f"WITH {', '.join(parts)} SELECT count(*) FROM lease", given)
        if not found.scalar_one():
            raise self._lease.is_lost()
