"""The derived store of one in a database: made anew each time. Rows say cheaply that nothing became of them,
and not that all that became of them is in what was derived and then written.
"""

from __future__ import annotations

import errno
import os
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Final

from sqlalchemy import inspect, select

from journalfs import door
from journalfs.config.database import DatabaseSettings
from journalfs.config.files import CONFIGURED_BY
from journalfs.errors import NotAStore, SystemFailure
from journalfs.format.server_lock import SERVER_LOCK_NAME
from journalfs.records.description import DATABASE
from journalfs.records.older.derived import DerivedStore
from journalfs.records.older.deriving import deriving, keep, make_derived
from journalfs.records.tables.beside import Beside
from journalfs.records.tables.database import Database
from journalfs.records.tables.following import RewrittenError
from journalfs.records.tables.reading import TablesReading
from journalfs.records.tables.schema import STATE_ROW


class DerivedTables:
    """What was derived from the tables, at `place`. This process holds it. `close` it."""

    def __init__(self, settings: DatabaseSettings, base: Path | None = None) -> None:
        """Raises `NotAStore`, `SystemFailure`, `DependencyMissing`."""
        if settings.dialect == "sqlite" and not all(map(door.exists, settings.files)):
            raise NotAStore(settings.shown, "there is no such file")  # which looking would make
        self._database = Database(settings)
        self._rewritten: str | None = None
        self._beside = Beside(self._database, lambda _: None)
        try:
            with deriving(settings.shown, base) as folder:
                identity = uuid.uuid4().hex
                self.place: Final = folder / identity
                self._reading = derive_into(self._database, self.place, identity)
                self._note_state()
                keep(self.place)
            self._beside.look_for_sessions()
        finally:
            self._database.close()

    def _note_state(self) -> None:
        """Note how the tables' last owner left them where stores in files have it: what the journal counts of
        pages is true after a clean stop. Nothing is noted where the user may not look.
        """
        nodes = self._database.tables.nodes
        try:
            with self._database.reading("look how the store was left") as connection:
                if not inspect(connection).has_table(nodes.name):
                    return
                state = connection.execute(select(nodes.c.state).where(nodes.c.id == STATE_ROW)).scalar()
        except SystemFailure:
            return
        if state:
            door.write(self.place / "journal" / SERVER_LOCK_NAME, str(state)[:1].encode())

    @property
    def has_broker(self) -> bool:
        return bool(self._beside.sessions)

    def look(self) -> None:
        """Take over what became of the tables since. Use from one thread at a time. Raises `SystemFailure`,
        and the next look goes on where this one came to.
        """
        if self._rewritten is None:
            try:
                self._reading.look()
                self._beside.look_now_and_then()
            except RewrittenError as error:
                self._rewritten = str(error)
        if self._rewritten is not None:
            shown = self._database.settings.shown
            raise SystemFailure(f"{shown}: {self._rewritten}; mount it again", system_errno=errno.EIO)

    def close(self) -> None:
        self._database.close()


def derive_into(
    database: Database,
    place: Path,
    identity: str,
    read: Callable[[Database, DerivedStore], TablesReading] = TablesReading,
) -> TablesReading:
    """A derived store at `place`, with the settings that the configuration has for addresses."""
    readings: list[TablesReading] = []

    def fill(out: DerivedStore) -> None:
        readings.append(read(database, out))

    settings = database.settings
    found = f"the tables of a JDBC store ({database.dialect})"
    make_derived(
        place, fill, lambda _: None, kind=DATABASE, found=found, source=settings.shown, identity=identity
    )
    if settings.config is not None:
        files = (os.fsencode(one) for one in (settings.config, settings.own) if one is not None)
        door.write(place / CONFIGURED_BY, b"\0".join(files))
    return readings[0]
