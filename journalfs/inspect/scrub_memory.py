"""What scrubbing remembers: digests of files that nobody changes any more, and how far it came."""

from __future__ import annotations

import hashlib
import os
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from journalfs.clock import SystemClock
from journalfs.errors import SystemFailure
from journalfs.inspect.findings import Finding

DIGEST_BYTES: Final = 16

_SCHEMA: Final = """
create table if not exists file (name text primary key, mark text, size integer, digests blob, run integer);
create table if not exists run (number integer primary key, name text, stamp text, digests blob, done blob);
create table if not exists finding (line blob);
create table if not exists ended (at integer);
"""


class Done(msgspec.Struct):
    """What one look at everything came to so far."""

    files: int = 0
    bytes: int = 0
    compared: int = 0
    """Files that were read before, or that have checksums."""


@dataclass(frozen=True, slots=True)
class Remembered:
    mark: str
    """Of files of one name, what tells which of them it is."""
    size_bytes: int
    digests: bytes
    """Of each piece, `DIGEST_BYTES`."""


class Memory:
    """A file of SQLite. Its calls raise `SystemFailure`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(path, timeout=0, isolation_level="EXCLUSIVE")
            self._connection.executescript(f"pragma locking_mode = exclusive; {_SCHEMA}")
            self._connection.execute("begin exclusive")
            row = self._connection.execute("select number, name, stamp, done from run").fetchone()
        except (OSError, sqlite3.Error) as error:
            raise self._failure(error) from error
        self.resumed = row is not None
        self.run: int = row[0] if row else self._last_run() + 1
        self.after: str | None = row[1] if row else None
        """The last file that was looked at."""
        self.inside = bool(row and row[2])
        """Not to its end."""
        self.done = msgspec.json.decode(row[3], type=Done) if row else Done()

    def _failure(self, error: Exception) -> SystemFailure:
        why = "another scrub of it is at work" if "locked" in str(error) else str(error)
        advice = "--state FILE keeps it elsewhere"
        return SystemFailure(f"{self.path}: cannot keep what was scrubbed: {why}; {advice}")

    def _last_run(self) -> int:
        (number,) = self._connection.execute("select max(run) from file").fetchone()
        self._connection.execute("delete from finding")
        return number or 0

    def of(self, name: str) -> Remembered | None:
        query = "select mark, size, digests from file where name = ?"
        row = self._connection.execute(query, (name,)).fetchone()
        return Remembered(*row) if row else None

    def begun(self, name: str, stamp: str) -> bytes:
        """Digests of the pieces of a file that were read before this was ended, if it is still the same."""
        row = self._connection.execute(
            "select digests from run where name = ? and stamp = ?", (name, stamp)
        ).fetchone()
        return row[0] or b"" if row else b""

    def note(self, name: str, stamp: str, digests: bytes) -> None:
        """How far a file was read; durable."""
        self._write(
            "insert or replace into run values (?, ?, ?, ?, ?)",
            (self.run, name, stamp, digests, msgspec.json.encode(self.done)),
        )
        self._connection.commit()
        self._connection.execute("begin exclusive")

    def keep(self, name: str, remembered: Remembered) -> None:
        values = (name, remembered.mark, remembered.size_bytes, remembered.digests, self.run)
        self._write("insert or replace into file values (?, ?, ?, ?, ?)", values)

    def still_there(self, name: str) -> None:
        self._write("update file set run = ? where name = ?", (self.run, name))

    def found(self, finding: Finding) -> None:
        self._write("insert into finding values (?)", (msgspec.json.encode(finding),))

    def findings(self) -> list[Finding]:
        rows = self._connection.execute("select line from finding")
        return [msgspec.json.decode(line, type=Finding) for (line,) in rows]

    def ended(self) -> None:
        """Everything was looked at: the next time begins from the start."""
        self._write("delete from file where run < ?", (self.run,))
        self._write("delete from run", ())
        self._write("delete from finding", ())
        self._write("delete from ended", ())
        self._write("insert into ended values (?)", (SystemClock().now_ms(),))
        self._connection.commit()

    def close(self) -> None:
        self._connection.close()

    def _write(self, statement: str, values: tuple[object, ...]) -> None:
        try:
            self._connection.execute(statement, values)
        except sqlite3.Error as error:
            raise self._failure(error) from error


def ended_ms(path: Path) -> int | None:
    """When the last whole scrub that a memory is of ended, in milliseconds since 1970. None: none did, or one
    is at work.
    """
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=0)) as known:
            row = known.execute("select at from ended").fetchone()
    except sqlite3.Error:
        return None
    return row[0] if row else None


def memory_of(target: str) -> Path:
    """Where what was scrubbed of a store or a place of backups is remembered, unless somebody says."""
    import platformdirs  # noqa: PLC0415 - seldom needed

    key = hashlib.sha256(os.fsencode(target)).hexdigest()[:32]
    return Path(platformdirs.user_state_dir("journalfs")) / "scrub" / f"{key}.sqlite"


def digest_of(piece: bytes) -> bytes:
    return hashlib.blake2b(piece, digest_size=DIGEST_BYTES).digest()
