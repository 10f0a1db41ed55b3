"""The tables that are made are those that the broker's own provider of SQL makes, in every dialect."""

from __future__ import annotations

import re
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest
from sqlalchemy import Table
from sqlalchemy.dialects import mssql, mysql, oracle, postgresql
from sqlalchemy.engine.default import DefaultDialect
from sqlalchemy.engine.interfaces import Dialect
from sqlalchemy.schema import CreateTable

from journalfs.config.database import DatabaseSettings
from journalfs.records.tables.java import DerbyDialect
from journalfs.records.tables.schema import tables_of
from tests.broker.distribution import class_path

pytestmark = pytest.mark.broker

HERE = Path(__file__).parent / "java"
SAME = {"INT": "INTEGER", "NUMERIC": "NUMBER", "BIGSERIAL": "BIGINT"}


class Db2(DefaultDialect):
    """As far as types go: the driver is not here."""

    name = "ibm_db_sa"
    supports_identity_columns = True


DIALECTS: dict[str, Dialect] = {
    "MSSQL": mssql.dialect(),  # type: ignore[no-untyped-call]
    "ORACLE": oracle.dialect(),  # type: ignore[no-untyped-call]
    "POSTGRESQL": postgresql.dialect(),  # type: ignore[no-untyped-call]
    "MYSQL": mysql.dialect(),
    "DB2": Db2(),
    "DERBY": DerbyDialect(),
}


@pytest.fixture(scope="module")
def theirs() -> dict[str, dict[str, str]]:
    """Dialect -> what is made -> CREATE TABLE."""
    program = "Statements"
    done = subprocess.run(
        ["java", "-cp", class_path(HERE), program], capture_output=True, text=True, check=True, timeout=120
    )
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for line in done.stdout.splitlines():
        dialect, made, statement = line.split("\t")
        if statement.startswith("CREATE TABLE"):
            found[dialect][made] = statement
    return found


def columns(statement: str) -> dict[str, str]:
    """Column -> type, and the key; what databases take for the same is the same."""
    inside = statement[statement.index("(") + 1 : statement.rindex(")")]
    found = {}
    for one in re.split(r",(?![^(]*\))", inside):
        text = " ".join(one.upper().split())
        if text.startswith("PRIMARY KEY"):
            found["key"] = text.replace(" ", "").removeprefix("PRIMARYKEY")
            continue
        name, kind = text.split(" ", 1)
        kind = (
            re.sub(r" (NOT )?NULL\b(?! AS)", "", kind).replace("VARCHAR2", "VARCHAR").replace(" CHAR)", ")")
        )
        counts = any(word in text for word in ("IDENTITY", "AUTO_INCREMENT", "BIGSERIAL"))
        kind = re.sub(r" (GENERATED|IDENTITY|AUTO_INCREMENT).*", "", kind)
        word = re.match(r"\w+", kind)
        assert word is not None
        found[name] = SAME.get(word[0], word[0]) + kind[word.end() :] + (" counts" if counts else "")
    return found


@pytest.mark.rule("S-221")
@pytest.mark.parametrize("name", DIALECTS)
def test_tables_are_made_as_a_broker_makes_them(name: str, theirs: dict[str, dict[str, str]]) -> None:
    dialect = DIALECTS[name]
    tables = tables_of(DatabaseSettings(url=f"{dialect.name}://"))
    ours: dict[str, Table] = {
        "MESSAGE_JOURNAL": tables.messages,
        "LARGE_MESSAGE": tables.large,
        "NODE_MANAGER": tables.nodes,
    }
    for made, table in ours.items():
        statement = str(CreateTable(table).compile(dialect=dialect))
        assert columns(statement) == columns(theirs[name][made]), (made, statement)
