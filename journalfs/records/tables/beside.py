"""Notices who else uses the tables of a store that this process writes to.

A lease keeps out other mounts, and brokers that share a store. A broker without `ha-policy` takes no lease
and asks for none: it is seen by its sessions, as far as the server shows them, and by rows that this process
did not write. Neither can keep it out. `OwnedTables` calls this; it never changes a row.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

from sqlalchemy import Connection, func, select
from sqlalchemy.exc import SQLAlchemyError

from journalfs.errors import JournalfsError, StoreShared
from journalfs.records.tables.database import OURS, Database
from journalfs.records.tables.log import TableLog, highest_number

log = logging.getLogger(__name__)

LOOK_S: Final = 1.0
"""Between two looks."""
SHARE: Final = 20
"""A look that takes long is followed by so many times its length without one."""

_TOOLS: Final = "^(psql|pg_|pgadmin|dbeaver|datagrip|tableplus|idea|beekeeper)"
"""Programs by which people look at a database, as they call themselves."""

_SESSIONS: Final = {
    # What anybody may see of another's session is its user and what its program calls itself, which the
    # driver of Java does for programs that do not.
    "postgresql": "SELECT usename, application_name, CAST(client_addr AS TEXT) FROM pg_stat_activity "
    "WHERE datname = current_database() AND pid <> pg_backend_pid() AND usename IS NOT NULL "
    f"AND application_name <> '' AND application_name NOT LIKE '{OURS}%%' "
    f"AND lower(application_name) !~ '{_TOOLS}' AND pid NOT IN (SELECT pid FROM pg_stat_replication)",
    # Nothing says what the program is: sessions of journalfs hold a lock that is called after them.
    "mysql": "SELECT user, 'MySQL', host FROM information_schema.processlist "
    "WHERE db = DATABASE() AND id <> CONNECTION_ID() AND command NOT IN ('Binlog Dump', 'Daemon') "
    f"AND user <> 'system user' AND IS_USED_LOCK(CONCAT('{OURS}.', id)) IS NULL",
    "mssql": "SELECT login_name, program_name, host_name FROM sys.dm_exec_sessions "
    "WHERE database_id = DB_ID() AND session_id <> @@SPID AND program_name LIKE '%%JDBC%%'",
    "oracle": "SELECT username, program, machine FROM v$session WHERE program LIKE '%%JDBC%%' "
    "AND sid <> SYS_CONTEXT('USERENV', 'SID') "
    "AND schemaname = SYS_CONTEXT('USERENV', 'CURRENT_SCHEMA')",
    "ibm_db_sa": "SELECT SESSION_AUTH_ID, APPLICATION_NAME, CLIENT_HOSTNAME "
    "FROM TABLE(MON_GET_CONNECTION(NULL, -1)) WHERE APPLICATION_NAME LIKE 'db2jcc%%'",
}
_SESSIONS["mariadb"] = _SESSIONS["mysql"]
"""Sessions that are connected as a broker's are: user, program, machine. SQLite's and Derby's databases in
files are of one machine or process.
"""

FORCE: Final = "if none of them is a broker on these tables, --force (of a mount: -o force)"


class Beside:
    """`refuse` before anything is written; then `start`, and `stop` at the end."""

    def __init__(self, database: Database, told: Callable[[str], None]) -> None:
        """`told` hears, in a thread, why nothing may be written any more."""
        self._database, self._told = database, told
        self._logs: Sequence[TableLog] = ()
        self._doubled: list[int] = []
        self._ends = threading.Event()
        self._thread: threading.Thread | None = None
        self._looked_s = 0.0
        self.sessions: tuple[str, ...] = ()
        """Others that are connected as a broker is, when that was looked for last."""

    def refuse(self) -> None:
        """Raise `StoreBusy` where others are connected as a broker is."""
        self.look_for_sessions()
        if self.sessions:
            some = f"{', '.join(self.sessions[:3])}{' and others' * (len(self.sessions) > 3)}"
            raise StoreShared(
                self._database.settings.shown,
                f"whoever is connected to this database as {some}",
                "a broker without ha-policy takes no lease, and would deliver again what is taken here: stop "
                f"it, or look on with --read-only; {FORCE}",
            )

    def look_now_and_then(self) -> None:
        """Look for sessions where that was not done in the last second."""
        if time.monotonic() - self._looked_s >= LOOK_S:
            self.look_for_sessions()

    def look_for_sessions(self) -> None:
        """Bring `sessions` up to date."""
        self._looked_s = time.monotonic()
        asked = _SESSIONS.get(self._database.dialect)
        if asked is None:
            return
        try:
            with self._database.engine.connect() as connection:
                rows = connection.exec_driver_sql(asked).all()
        except SQLAlchemyError as error:
            failure = self._database.failure(error, "see who else is connected")
            if not self._ends.is_set() and self._thread is None:
                log.warning("%s: a broker on these tables would not be noticed by its sessions", failure)
            return
        found = (f"{user} ({program or 'unnamed'}, {host or 'this machine'})" for user, program, host in rows)
        self.sessions = tuple(sorted(set(found)))

    def start(self, logs: Sequence[TableLog]) -> None:
        """Look on from now on. `logs` are what this process writes by."""
        self._logs = logs
        with self._database.reading("count the journals' rows") as connection:
            self._doubled = [_doubled(connection, one) for one in logs[1:]]
        self._thread = threading.Thread(target=self._look_on, name="beside", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._ends.set()
        if self._thread is not None:
            self._thread.join()

    def _look_on(self) -> None:
        wait_s = LOOK_S
        while not self._ends.wait(wait_s):
            began_s = time.monotonic()
            before = self.sessions
            self.look_for_sessions()
            if self.sessions and not before:
                shown, who = self._database.settings.shown, ", ".join(self.sessions)
                log.warning("%s: connected as a broker is: %s; it may deliver what is taken here", shown, who)
            try:
                reason = self.foreign_rows()
            except JournalfsError as error:  # the database is away: whoever writes meets that
                log.info("%s", error)
                reason = None
            if reason is not None:
                self._told(reason)
                return
            wait_s = max(LOOK_S, SHARE * (time.monotonic() - began_s))

    def foreign_rows(self) -> str | None:
        """Return which table has rows that this process did not write; None: it saw none."""
        shown = self._database.settings.shown
        messages, *small = self._logs
        with self._database.reading("look for rows of others") as connection:
            highest = highest_number(connection, messages.table.c.id)
            # Read behind the question: a number is given before its row is committed.
            names = [messages.table.name] if highest > messages.highest_id else []
            for one, doubled in zip(small, self._doubled, strict=True):
                last = connection.execute(select(func.max(one.table.c.seq))).scalar()
                if int(last or 0) > one.last_seq or _doubled(connection, one) > doubled:
                    names.append(one.table.name)
        if not names:
            return None
        return (
            f"{shown}: table {names[0]} has rows that this process did not write: a broker runs on these "
            "tables and takes no lease"
        )


def _doubled(connection: Connection, one: TableLog) -> int:
    """Return how many rows have a number that another row has: two counted from the same on."""
    seq = one.table.c.seq
    found = connection.execute(select(func.count(seq), func.count(func.distinct(seq)))).one()
    return int(found[0]) - int(found[1])
