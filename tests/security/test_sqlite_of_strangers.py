"""SQLite files that a stranger wrote: a schema is code, and a column holds values of any type and length."""

from __future__ import annotations

import json
import resource
import shutil
import sqlite3
import subprocess
import time
from pathlib import Path

import pytest

from journalfs.errors import EXIT_NOT_A_STORE, EXIT_SYSTEM
from tests.mounting import COMMAND_S_MAX, JOURNALFS, journalfs

MEMORY_BYTES = 1 << 30
QUICK_S = 30
ENDLESS = (
    "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x AS id, 11 AS recordtype, "
    "0 AS txid, 31 AS userrecordtype, 5 AS variablesize, x'00' AS record, NULL AS txdata, x AS seq FROM n"
)
GIGABYTES = (
    "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT 100) SELECT x AS id, "
    "11 AS recordtype, 0 AS txid, 31 AS userrecordtype, 5 AS variablesize, zeroblob(900000000) AS record, "
    "NULL AS txdata, x AS seq FROM n"
)
PLAIN = "id INTEGER, recordtype INTEGER, txid INTEGER, userrecordtype INTEGER, variablesize INTEGER"


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with two messages."""
    path = tmp_path_factory.mktemp("database") / "sound.db"
    lines = path.with_name("in.jsonl")
    lines.write_text("".join(json.dumps({"queue": "in", "body": body}) + "\n" for body in ("one", "two")))
    assert journalfs("create", f"sqlite:///{path}").returncode == 0
    assert journalfs("import", lines, f"sqlite:///{path}").returncode == 0
    return path


HOSTILE = {
    "endless view": (f"DROP TABLE messages; CREATE VIEW messages AS {ENDLESS}", "is a view"),
    "view of gigabytes": (f"DROP TABLE messages; CREATE VIEW messages AS {GIGABYTES}", "is a view"),
    "view of bindings": (f"DROP TABLE bindings; CREATE VIEW Bindings AS {ENDLESS}", "is a view"),
    "view of pages": (
        "INSERT INTO page_store(filename, extension, data) "
        "VALUES('directory.txt', 'txt', x'0000000A00390039');"
        f"CREATE VIEW page_store99 AS {ENDLESS}",
        "is a view",
    ),
    "trigger": (
        "CREATE TABLE witness(x); CREATE TRIGGER t AFTER INSERT ON messages BEGIN "
        "INSERT INTO witness VALUES(1); END",
        "has the trigger t",
    ),
    "generated": (
        "ALTER TABLE messages ADD COLUMN more AS (zeroblob(900000000))",
        "has the generated column more",
    ),
    "virtual": (
        f"DROP TABLE messages; CREATE VIRTUAL TABLE messages USING fts5({PLAIN.replace(' INTEGER', '')})",
        "is a virtual table",
    ),
    "expression": (
        "CREATE INDEX slow ON messages(hex(zeroblob(100)))",
        "has an index of an expression (slow)",
    ),
}


QUICK = {"endless view", "trigger"}


def marks(name: str) -> list[pytest.MarkDecorator]:
    return [] if name in QUICK else [pytest.mark.long]


def run(*command: str | Path) -> tuple[int, str]:
    """A command with little memory, which must end soon; its exit code, and what it said."""
    began = time.monotonic()
    done = subprocess.run(
        [JOURNALFS, *command],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=COMMAND_S_MAX,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES)),
    )
    assert time.monotonic() - began < QUICK_S
    assert "Traceback" not in done.stderr
    return done.returncode, done.stderr


@pytest.mark.rule("S-357")
@pytest.mark.parametrize("name", [pytest.param(name, marks=marks(name)) for name in HOSTILE])
def test_tables_that_compute_are_refused(sound: Path, tmp_path: Path, name: str) -> None:
    script, reason = HOSTILE[name]
    path = tmp_path / "hostile.db"
    shutil.copy(sound, path)
    with sqlite3.connect(path) as database:
        try:
            database.executescript(script)
        except sqlite3.OperationalError as error:
            if "no such module" in str(error):
                pytest.skip(f"{error}")
            raise
    database.close()
    lines = sound.with_name("in.jsonl")
    (tmp_path / "mnt").mkdir()
    url = f"sqlite:///{path}"
    for command in (("ls", url), ("import", lines, url), ("mount", url, tmp_path / "mnt")):
        code, said = run(*command)
        assert (code, reason in said) == (EXIT_NOT_A_STORE, True), (command, code, said)
    if name == "trigger":
        with sqlite3.connect(path) as database:
            assert database.execute("SELECT count(*) FROM witness").fetchone() == (0,)


@pytest.mark.rule("S-357")
def test_views_of_others_in_the_file_are_nobodys_concern(sound: Path, tmp_path: Path) -> None:
    path = tmp_path / "shared.db"
    shutil.copy(sound, path)
    with sqlite3.connect(path) as database:
        database.executescript("CREATE TABLE accounts(x); CREATE VIEW sums AS SELECT sum(x) FROM accounts")
    database.close()
    assert journalfs("cat", f"sqlite:///{path}").stdout.count('"body"') == 2


@pytest.mark.rule("S-357")
def test_values_of_other_types_and_lengths_are_damage(sound: Path, tmp_path: Path) -> None:
    """Their lengths are asked for before they are read."""
    path = tmp_path / "odd.db"
    shutil.copy(sound, path)
    with sqlite3.connect(path) as database:
        (seq,) = database.execute("SELECT max(seq) FROM messages").fetchone()
        put = (
            "INSERT INTO messages(id, recordtype, txid, userrecordtype, variablesize, record, txdata, seq) "
            "VALUES(?, ?, 0, 31, 5, ?, NULL, ?)"
        )
        long = b"\0" * (300 << 20)
        for number, (record_id, kind, record) in enumerate(
            [(900_001, 11, long), ("x" * (300 << 20), 11, b"\0"), (900_003, "y" * 1000, b"\0")], 1
        ):
            database.execute(put, (record_id, kind, record, seq + number))
    database.close()
    code, said = run("ls", f"sqlite:///{path}")
    assert code == 0, said
    checked = journalfs("check", "--json", f"sqlite:///{path}")
    found = [json.loads(line) for line in checked.stdout.splitlines()]
    reasons = " ".join(one.get("reason", "") for one in found)
    assert "record is no content" in reasons
    assert "id is no number" in reasons
    assert "recordtype is no number" in reasons
    assert journalfs("cat", f"sqlite:///{path}").stdout.count('"body"') == 2


@pytest.mark.rule("S-357")
def test_a_view_that_comes_later_is_refused(sound: Path, tmp_path: Path) -> None:
    from journalfs.config.database import database_named  # noqa: PLC0415
    from journalfs.errors import SystemFailure  # noqa: PLC0415
    from journalfs.records.tables.database import Database  # noqa: PLC0415

    path = tmp_path / "later.db"
    shutil.copy(sound, path)
    settings = database_named(f"sqlite:///{path}")
    assert settings is not None
    database = Database(settings)
    try:
        with database.reading("read the store") as connection:
            assert len(connection.execute(database.tables.messages.select()).all()) > 0
        with sqlite3.connect(path) as other:
            other.executescript(f"DROP TABLE messages; CREATE VIEW messages AS {ENDLESS}")
        other.close()
        with pytest.raises(SystemFailure) as refused, database.reading("read the store") as connection:
            connection.execute(database.tables.messages.select()).all()
        assert refused.value.exit_code == EXIT_SYSTEM
        # A statement that does not end is ended, whatever it is of: this one takes a million million steps.
        many = "(SELECT 1 FROM bindings LIMIT 2)"
        joined = " CROSS JOIN ".join([many] * 36)
        with pytest.raises(SystemFailure) as endless, database.reading("count") as connection:
            connection.exec_driver_sql(f"SELECT count(*) FROM {joined}").all()
        assert "more steps than this file can need" in str(endless.value)
    finally:
        database.close()
