"""Puts what `pg_dump` wrote of a broker's tables into a database of any kind."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

from sqlalchemy import LargeBinary, Table, insert

from journalfs.config.database import database_named
from journalfs.records.tables.database import Database

_COPY = re.compile(r"COPY public\.(\w+) \(([^)]*)\) FROM stdin;\n(.*?)^\\\.$", re.DOTALL | re.MULTILINE)
_OPENED = re.compile(r"lo_open\('(\d+)'")
_WRITTEN = re.compile(r"lowrite\(0, '\\x(\w*)'")
_PAGES = "page_store"


def load(dump: Path, url: str) -> None:
    text = dump.read_text()
    settings = database_named(url)
    assert settings is not None
    database, objects = Database(settings, makes=True), _objects(text)
    known = {table.name: table for table in database.tables.metadata.sorted_tables}
    with database.begin("load a dump") as connection:
        for name, columns, lines in _COPY.findall(text):
            number = name.removeprefix(_PAGES)
            table = known[name] if name in known else database.page_table(number)
            table.create(connection, checkfirst=True)
            rows = list(_rows(table, columns.split(", "), lines, objects))
            if rows:
                connection.execute(insert(table), rows)
        database.tables.metadata.create_all(connection)
    database.close()


def _objects(text: str) -> Mapping[str, bytes]:
    """Large objects, as the dump has them: pieces of each behind its being opened."""
    found: defaultdict[str, bytes] = defaultdict(bytes)
    number = ""
    for line in text.splitlines():
        if opened := _OPENED.search(line):
            number = opened[1]
        elif written := _WRITTEN.search(line):
            found[number] += bytes.fromhex(written[1])
    return found


def _rows(
    table: Table, columns: list[str], lines: str, objects: Mapping[str, bytes]
) -> Iterator[dict[str, object]]:
    for line in lines.splitlines():
        row: dict[str, object] = {}
        for name, value in zip(columns, line.split("\t"), strict=True):
            if isinstance(table.c[name].type, LargeBinary):
                is_inline = value.startswith("\\\\x")
                row[name] = bytes.fromhex(value[3:]) if is_inline else objects[value]
            elif value == "\\N":
                row[name] = None
            else:
                row[name] = value if name in ("filename", "extension") else int(value)
        yield row
