"""Rivals for one store that are killed, stopped for longer than a lease lasts, and have wrong clocks."""

from __future__ import annotations

import itertools
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from journalfs.tables.database import Database
from tests.tables.rival import settings_in

ROUNDS = 1_000
QUICK_ROUNDS = 4
ROUND_S_MAX = 120
STOPPED_S = 1.0
SKEWS = (0.5, 1.0, 3.0)

CONFIG = """<configuration><core><store><database-store>
<jdbc-connection-url>jdbc:{url}</jdbc-connection-url><jdbc-network-timeout>2000</jdbc-network-timeout>
<jdbc-lock-renew-period>100</jdbc-lock-renew-period><jdbc-lock-expiration>600</jdbc-lock-expiration>
<jdbc-lock-acquisition-timeout>300</jdbc-lock-acquisition-timeout>
</database-store></store></core></configuration>"""


class Rivals:
    """Two processes, and what they were told."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self.folder, self.chance = folder, chance
        self.told: list[str] = []
        self._more = threading.Condition()
        self.processes = [self._start(), self._start()]

    def _start(self) -> subprocess.Popen[str]:
        skew = str(self.chance.choice(SKEWS))
        command = [sys.executable, "-m", "tests.tables.rival", str(self.folder), skew]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        threading.Thread(target=self._listen, args=(process,), daemon=True).start()
        return process

    def _listen(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            with self._more:
                self.told.append(line.strip())
                self._more.notify_all()

    def goes_on(self, deadline_s: float = ROUND_S_MAX, *, without: str | None = None) -> bool:
        """Until somebody, other than one holder, has written."""
        with self._more:
            seen = len(self.told)
            return self._more.wait_for(
                lambda: any(line.partition(" ")[0] != without for line in self.told[seen:]), deadline_s
            )

    def owner(self) -> str:
        with self._more:
            return self.told[-1].partition(" ")[0]

    def round(self) -> None:
        at = self.chance.randrange(2)
        process, owner = self.processes[at], self.owner()
        if self.chance.random() < 0.5:
            process.kill()
            process.wait()
            self.processes[at] = self._start()
        else:
            both = self.processes if self.chance.random() < 0.2 else [process]
            for one in both:
                one.send_signal(signal.SIGSTOP)
            # Past the lease, and until somebody else has the store; unless it was stopped within a commit.
            self.goes_on(STOPPED_S, without=owner)
            for one in both:
                one.send_signal(signal.SIGCONT)
        assert self.goes_on(), f"nobody wrote in {ROUND_S_MAX} s"

    def end(self) -> None:
        for one in self.processes:
            one.kill()
            one.wait()


@pytest.mark.rule("S-223")
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    ("kind", "rounds"),
    [
        ("sqlite", QUICK_ROUNDS),
        *(pytest.param(kind, ROUNDS, marks=pytest.mark.long) for kind in ("sqlite", "postgresql", "mysql")),
    ],
)
def test_never_two_owners(
    empty_database: Callable[[str], str], tmp_path: Path, kind: str, rounds: int
) -> None:
    url = empty_database(kind)
    place = url.replace("artemis@", "").replace("root@", "")
    user = {"postgresql": "?user=artemis", "mysql": "?user=root"}.get(kind, "")
    (tmp_path / "broker.xml").write_text(CONFIG.format(url=place + user))
    database = Database(settings_in(tmp_path))
    with database.begin("make the tables") as connection:
        database.tables.metadata.create_all(connection)
    rivals = Rivals(tmp_path, random.Random(1))
    try:
        assert rivals.goes_on()
        for _ in range(rounds):
            rivals.round()
    finally:
        rivals.end()
    c = database.tables.messages.c
    with database.reading("count") as connection:
        rows = connection.execute(database.tables.messages.select().order_by(c.seq)).all()
    database.close()
    written = [bytes(row.record).decode() for row in rows]
    assert [int(row.seq) for row in rows] == list(range(1, len(rows) + 1)), "two wrote one number"
    holders = [one for one, _ in itertools.groupby(line.partition(" ")[0] for line in written)]
    assert len(holders) == len(set(holders)), "one wrote behind another that had taken the store"
    assert set(rivals.told) <= set(written)
    assert len(written) - len(rivals.told) <= rounds + 2, "more than what was under way was not told"
    print(f"{kind}: {rounds} rounds, {len(holders)} owners, {len(written)} rows")
