"""Who may write: the node manager's table, used as a broker with a shared store uses it.

A lease runs out by the database's clock. Who flushes asks for it within the same transaction, under the row's
lock: a process that was stopped for long cannot commit any more, and nobody takes the lease while it does.
A broker without an HA policy never looks at this table.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any, Final

from sqlalchemy import BigInteger, Connection, insert, literal_column, select, update

from journalfs.clock import SystemClock
from journalfs.config.database import DERBY
from journalfs.errors import JournalfsError, StoreBusy
from journalfs.records.tables.database import Database
from journalfs.records.tables.holder import is_dead, new_holder
from journalfs.records.tables.schema import BACKUP_ROW, NODE_ROW, PRIMARY_ROW, STATE_ROW

log = logging.getLogger(__name__)

STARTING: Final = "F"
ACTIVE: Final = "L"
STOPPED: Final = "P"
"""States as a broker writes them."""

ASK_AGAIN_S_MAX: Final = 2.0

_NOW_MS: Final = {
    "postgresql": "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)",
    "mysql": "CAST(UNIX_TIMESTAMP(NOW(6)) * 1000 AS SIGNED)",
    "mariadb": "CAST(UNIX_TIMESTAMP(NOW(6)) * 1000 AS SIGNED)",
    "sqlite": "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)",
    "mssql": "DATEDIFF_BIG(MILLISECOND, '1970-01-01', SYSUTCDATETIME())",
    "ibm_db_sa": "(DAYS(CURRENT TIMESTAMP - CURRENT TIMEZONE) - DAYS('1970-01-01')) * 86400000"
    " + MIDNIGHT_SECONDS(CURRENT TIMESTAMP - CURRENT TIMEZONE) * 1000",
    DERBY: "{fn TIMESTAMPDIFF(SQL_TSI_FRAC_SECOND, TIMESTAMP('1970-01-01 00:00:00'), CURRENT_TIMESTAMP)}"
    " / 1000000",
    "oracle": "ROUND((CAST(SYS_EXTRACT_UTC(SYSTIMESTAMP) AS DATE) - DATE '1970-01-01') * 86400000)",
}


class LeaseLost(JournalfsError):  # noqa: N818 - named as the others
    """The store may have another owner by now: nothing is written any more."""

    identifier = "lease-lost"


class Lease:
    """Use `guard` from the thread that writes; renewing has a thread of its own."""

    def __init__(
        self,
        database: Database,
        *,
        lost: Callable[[str], None] = lambda _: None,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        """`lost` is told, in any thread, why there is no lease any more."""
        self.database = database
        self.holder: Final = new_holder()
        self.lost = lost
        self._pause = pause
        self._nodes = database.tables.nodes
        self._now: Any = literal_column(_NOW_MS[database.dialect], BigInteger)
        """Milliseconds since 1970, by the database's clock."""
        self._ends = threading.Event()
        self._renewing: threading.Thread | None = None
        self.was_away = False
        """The database did not answer since the lease was renewed: then it is taken up again where it ran
        out, as long as nobody has taken it.
        """

    # ---- taking and letting go ----

    def acquire(self) -> None:
        """Take the store, waiting at most `jdbc-lock-acquisition-timeout` (below 0: not at all, since nobody
        waits for ever at a prompt). Raises `StoreBusy` and `SystemFailure`.
        """
        settings = self.database.settings
        left_s = max(settings.lock_acquisition_timeout_ms, 0) / 1000
        with self.database.begin("look for the table of leases") as connection:
            self._prepare(connection)
            self._compare_clocks(connection)
        while not self._taken():
            if left_s <= 0:
                raise StoreBusy(settings.shown, self._owner())
            wait_s = min(settings.lock_renew_period_ms / 1000, ASK_AGAIN_S_MAX, left_s)
            self._pause(wait_s)
            left_s -= wait_s
        self._renewing = threading.Thread(target=self._renew_on, name="lease", daemon=True)
        self._renewing.start()

    def _prepare(self, connection: Connection) -> None:
        self._nodes.create(connection, checkfirst=True)
        there = set(connection.execute(select(self._nodes.c.id)).scalars())
        for row in (STATE_ROW, PRIMARY_ROW, BACKUP_ROW, NODE_ROW):
            if row not in there:
                connection.execute(insert(self._nodes).values(id=row))
        if self.node_id(connection) is None:
            self.name_node(connection, str(uuid.uuid4()))

    def _compare_clocks(self, connection: Connection) -> None:
        """Only the database's time counts for the lease; whoever reads logs of both is told."""
        asked = select(self._now).select_from(self._nodes).where(self._nodes.c.id == PRIMARY_ROW)
        differs_ms = int(connection.execute(asked).scalar_one()) - SystemClock().now_ms()
        if abs(differs_ms) > self.database.settings.allowed_time_diff_ms:
            shown = self.database.settings.shown
            log.warning("%s: the database's clock differs from this machine's by %d ms", shown, differs_ms)

    def _taken(self) -> bool:
        nodes = self._nodes.c
        free = (nodes.holder_id.is_(None)) | (nodes.holder_expiration_time < self._now)
        with self.database.begin("take the lease") as connection:
            holder = connection.execute(select(nodes.holder_id).where(nodes.id == PRIMARY_ROW)).scalar()
            if holder is not None and is_dead(holder):
                log.warning("%s: its holder %s is dead", self.database.settings.shown, holder)
                free |= nodes.holder_id == holder
            found = connection.execute(
                update(self._nodes)
                .where(nodes.id == PRIMARY_ROW, free)
                .values(holder_id=self.holder, holder_expiration_time=self._expiration())
            )
            if found.rowcount != 1:
                return False
            self._set(connection, STATE_ROW, state=STARTING)
        return True

    def node_id(self, connection: Connection) -> str | None:
        """Which store this is, as brokers know it."""
        nodes = self._nodes.c
        found = connection.execute(select(nodes.node_id).where(nodes.id == NODE_ROW)).scalar()
        return None if found is None else str(found)

    def name_node(self, connection: Connection, node_id: str) -> None:
        self._set(connection, NODE_ROW, node_id=node_id)

    def _owner(self) -> str:
        with self.database.begin("ask who has the lease") as connection:
            nodes = self._nodes.c
            row = connection.execute(
                select(nodes.holder_id, nodes.holder_expiration_time - self._now).where(
                    nodes.id == PRIMARY_ROW
                )
            ).one()
        return f"holder {row[0]} of table {self._nodes.name}, for another {max(int(row[1] or 0), 0)} ms"

    def activated(self) -> None:
        with self.database.begin("say that the store is active") as connection:
            self.guard(connection)
            self._set(connection, STATE_ROW, state=ACTIVE)

    def release(self) -> None:
        """Stop cleanly. Raises `SystemFailure`; the lease runs out even so."""
        self._ends.set()
        if self._renewing is not None:
            self._renewing.join()
        with self.database.begin("let go of the lease") as connection:
            mine = self._nodes.c.holder_id == self.holder
            found = connection.execute(
                update(self._nodes)
                .where(self._nodes.c.id == PRIMARY_ROW, mine)
                .values(holder_id=None, holder_expiration_time=None)
            )
            if found.rowcount == 1:
                self._set(connection, STATE_ROW, state=STOPPED)

    # ---- holding ----

    def guard(self, connection: Connection) -> None:
        """Nobody else has the store until this transaction ends, or `LeaseLost` is raised."""
        nodes = self._nodes.c
        found = connection.execute(
            select(nodes.id)
            .where(
                nodes.id == PRIMARY_ROW,
                nodes.holder_id == self.holder,
                nodes.holder_expiration_time > self._now,
            )
            .with_for_update()
        ).first()
        if found is None and not (self.was_away and self._renewed(connection)):
            raise self.is_lost()

    def is_lost(self) -> LeaseLost:
        return LeaseLost(
            f"{self.database.settings.shown}: the lease ran out, and the store may have another owner"
        )

    def asked(self, holder: str) -> str:
        """What `guard` asks, as a statement or a part of one, which has `holder` so: a row, or none."""
        dialect = self.database.dialect
        return (
            f"SELECT id FROM {self._nodes.name} WHERE id = {PRIMARY_ROW} AND holder_id = {holder} "
            f"AND holder_expiration_time > {_NOW_MS[dialect]}{'' if dialect == 'sqlite' else ' FOR UPDATE'}"
        )

    def renew(self) -> bool:
        """False where the lease is another's, or ran out."""
        with self.database.begin("renew the lease") as connection:
            renewed = self._renewed(connection)
        self.was_away &= not renewed
        return renewed

    def _renewed(self, connection: Connection) -> bool:
        nodes = self._nodes.c
        mine = (nodes.id == PRIMARY_ROW) & (nodes.holder_id == self.holder)
        if not self.was_away:
            mine &= nodes.holder_expiration_time > self._now
        found = connection.execute(
            update(self._nodes).where(mine).values(holder_expiration_time=self._expiration())
        )
        return found.rowcount == 1

    def _renew_on(self) -> None:
        while not self._ends.wait(self.database.settings.lock_renew_period_ms / 1000):
            if not self.look():
                return

    def look(self) -> bool:
        """Renew the lease. False where it is lost, which `lost` is told."""
        try:
            if not self.renew():
                self.lost("the lease is another's by now, or ran out")
                return False
        except JournalfsError as error:
            # Without the database nobody takes the lease either: it is asked again.
            log.warning("%s", error)
            self.was_away = True
        return True

    # ---- inside ----

    def _expiration(self) -> Any:
        return self._now + self.database.settings.lock_expiration_ms

    def _set(self, connection: Connection, row: int, **values: object) -> None:
        connection.execute(update(self._nodes).where(self._nodes.c.id == row).values(**values))
