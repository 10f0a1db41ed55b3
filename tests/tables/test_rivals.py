"""Rivals for one store that are killed, stopped for longer than a lease lasts, and have wrong clocks."""

from __future__ import annotations

import itertools
import os
import random
import re
import signal
import subprocess
import sys
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from journalfs.records.tables.database import Database
from tests.broker import distribution
from tests.broker.distribution import jdbc_driver
from tests.tables.rival import settings_in

HERE = Path(__file__).parent
ROUNDS_QUICK, ROUNDS_OF_A_PIECE = 4, 50
PIECES = {
    ("log", "log"): {"sqlite": 4, "postgresql": 4, "mysql": 2},
    ("store", "store"): {"sqlite": 2, "postgresql": 3, "mysql": 1},
    ("mount", "mount"): {"postgresql": 1, "sqlite": 1},
    ("store", "broker"): {"postgresql": 4},
}
"""Of 50 rounds, each on a database of its own, so that a run can go on where it stopped: 1,100 rounds."""

ROUND_S_MAX = 120
STOPPED_S = 4.0
AHEAD_S = (-3600, 0, 0, 7200)
"""By how much a rival's clock is wrong: far more than `jdbc-allowed-time-diff`. SQLite has the clock of who
uses it, and one machine has one clock.
"""
HITS_THE_OWNER = 0.8
BROKERS_KILLED = 0.15
"""What is left of a broker's bad rounds stops it: one that is killed takes seconds to start."""

LOOKED_AT_AGAIN = 1000
"""Rows."""

TEXT = re.compile(r"(r\d+\.\d+) (\d+)")
CONFIG = """<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core">
<security-enabled>false</security-enabled><persistence-enabled>true</persistence-enabled>
<store><database-store>
<jdbc-driver-class-name>{driver}</jdbc-driver-class-name>
<jdbc-connection-url>jdbc:{url}</jdbc-connection-url>
<bindings-table-name>BINDINGS</bindings-table-name><message-table-name>MESSAGES</message-table-name>
<large-message-table-name>LARGE_MESSAGES</large-message-table-name>
<page-store-table-name>PAGE_STORE</page-store-table-name>
<node-manager-store-table-name>NODE_MANAGER_STORE</node-manager-store-table-name>
<jdbc-network-timeout>2000</jdbc-network-timeout>
<jdbc-lock-renew-period>{renew_ms}</jdbc-lock-renew-period>
<jdbc-lock-expiration>{lease_ms}</jdbc-lock-expiration>
<jdbc-lock-acquisition-timeout>{waits_ms}</jdbc-lock-acquisition-timeout>
</database-store></store>
<ha-policy><shared-store><primary><failover-on-shutdown>true</failover-on-shutdown></primary></shared-store></ha-policy>
<max-disk-usage>100</max-disk-usage><critical-analyzer>false</critical-analyzer>
<acceptors><acceptor name="vm">vm://0</acceptor></acceptors>
<addresses><address name="orders"><anycast><queue name="orders"/></anycast></address></addresses>
</core></configuration>"""
DRIVERS = {"postgresql": "org.postgresql.Driver", "mysql": "org.mariadb.jdbc.Driver", "sqlite": "none"}


def configure(folder: Path, kind: str, url: str, lease_ms: int = 500, waits_ms: int = -1) -> None:
    place = url.replace("artemis@", "").replace("root@", "")
    user = {"postgresql": "?user=artemis", "mysql": "?user=root"}.get(kind, "")
    times = {"lease_ms": lease_ms, "renew_ms": lease_ms // 6, "waits_ms": waits_ms}
    (folder / "broker.xml").write_text(CONFIG.format(driver=DRIVERS[kind], url=place + user, **times))


@cache
def wrong_clock(folder: Path) -> Path:
    library = folder / "clock.so"
    command = ["cc", "-shared", "-fPIC", "-O1", "-o", str(library), str(HERE / "clock.c"), "-ldl"]
    subprocess.run(command, check=True)
    return library


class Rivals:
    """Two processes, and what they were told."""

    def __init__(
        self, folder: Path, kinds: tuple[str, str], chance: random.Random, ahead_s: Sequence[int] = AHEAD_S
    ) -> None:
        self.folder, self.kinds, self.chance, self._ahead_s = folder, kinds, chance, ahead_s
        self.written: list[str] = []
        self.told: set[str] = set()
        """Less what a broker said after it was stopped: of a message it may have committed the half, which
        the next owner then took away.
        """
        self._stopped: set[str] = set()
        self.ends: list[str] = []
        """What they said of stores that failed them."""
        self.brokers: set[str] = set()
        self._preloaded = {"LD_PRELOAD": str(wrong_clock(folder))}
        self._numbers = itertools.count()
        self._more = threading.Condition()
        self._processes: list[subprocess.Popen[str]] = []
        self._pids: dict[str, int] = {}
        self._forks = self._run([sys.executable, "-m", "tests.tables.rival"], stdin=subprocess.PIPE)
        self.names = [self._start(0), self._start(1)]

    def _run(self, command: list[str], ahead_s: int = 0, **more: Any) -> subprocess.Popen[str]:
        env = {**os.environ, **self._preloaded, "CLOCK_AHEAD_S": str(ahead_s)}
        errors = (self.folder / f"errors-{len(self._processes)}").open("w")
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, text=True, env=env, cwd=HERE.parents[1], **more
        )
        self._processes.append(process)
        threading.Thread(target=self._listen, args=(process,), daemon=True).start()
        return process

    def _start(self, at: int) -> str:
        kind, name, ahead_s = self.kinds[at], f"r{next(self._numbers)}", self.chance.choice(self._ahead_s)
        if kind == "broker":
            self.brokers.add(name)
            classes = f"{distribution.class_path(HERE / 'java')}:{jdbc_driver('postgresql')}"
            options = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
            options += [f"-Djava.io.tmpdir={self.folder}", "-cp", classes]
            config = str(self.folder / "broker.xml")
            self._pids[name] = self._run(["java", *options, "RivalBroker", config, name], ahead_s).pid
            return name
        assert self._forks.stdin is not None
        self._forks.stdin.write(f"{kind} {self.folder} {name} {ahead_s}\n")
        self._forks.stdin.flush()
        with self._more:
            assert self._more.wait_for(lambda: name in self._pids, ROUND_S_MAX), "it did not begin"
        return name

    def _listen(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in map(str.strip, process.stdout):
            begun = re.fullmatch(r"(r\d+) is (\d+)", line)
            with self._more:
                if begun:
                    self._pids[begun[1]] = int(begun[2])
                elif TEXT.fullmatch(line):
                    self.written.append(line)
                    self.told |= {line} if owner_of(line) not in self._stopped else set()
                else:
                    self.ends.append(line)
                self._more.notify_all()

    def _signal(self, at: int, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):  # between two mounts of one rival
            os.kill(self._pids[self.names[at]], number)

    def goes_on(self, deadline_s: float = ROUND_S_MAX, *, without: str | None = None) -> bool:
        """Until somebody, other than one owner, has written."""
        with self._more:
            seen = len(self.written)
            return self._more.wait_for(
                lambda: any(owner_of(line) != without for line in self.written[seen:]), deadline_s
            )

    def owner(self) -> str:
        with self._more:
            return owner_of(self.written[-1])

    def round(self) -> None:
        owner = self.owner()
        # Mostly whoever has the store.
        has_it = int(owner.startswith(f"{self.names[1]}."))
        at = has_it if self.chance.random() < HITS_THE_OWNER else 1 - has_it
        if self.chance.random() < (BROKERS_KILLED if self.kinds[at] == "broker" else 0.5):
            self._signal(at, signal.SIGKILL)
            self.names[at] = self._start(at)
        else:
            both = (0, 1) if self.chance.random() < 0.2 else (at,)
            for one in both:
                self._signal(one, signal.SIGSTOP)
            if owner.partition(".")[0] in self.brokers:
                self._stopped.add(owner)
            # Past the lease, and until somebody else has the store; unless it was stopped within a commit.
            self.goes_on(STOPPED_S, without=owner)
            for one in both:
                self._signal(one, signal.SIGCONT)
        assert self.goes_on(), f"nobody wrote in {ROUND_S_MAX} s"

    def end(self) -> None:
        for name in self.names:
            with suppress(ProcessLookupError):
                os.kill(self._pids[name], signal.SIGKILL)
        for process in self._processes:
            process.kill()
            process.wait()


def owner_of(text: str) -> str:
    return text.partition(" ")[0]


class Ledger:
    """What is in the table, in the order of its sequence, held against what was told."""

    def __init__(self, database: Database, rivals: Rivals) -> None:
        self.database, self.rivals = database, rivals
        self._by_sequence: dict[int, list[str]] = defaultdict(list)

    def look(self) -> None:
        """All that was told before is there, once; nobody wrote behind the next owner."""
        with self.rivals._more:
            told = set(self.rivals.told)
        table, known = self.database.tables.messages, self._by_sequence
        # A broker commits numbers out of order.
        seen = max(known, default=0) - LOOKED_AT_AGAIN
        for number in [one for one in known if one > seen]:
            del known[number]
        with self.database.reading("look at the table") as connection:
            for seq, record in connection.execute(
                select(table.c.seq, table.c.record).where(table.c.seq > seen)
            ):
                known[int(seq)] += filter(None, [text_in(bytes(record or b""))])
        double = [text for text, count in Counter(self.texts).items() if count > 1]
        assert not double, f"twice there: {double[:5]}"
        lost = told - set(self.texts)
        assert not lost, f"told and not there: {sorted(lost)[:5]}"
        assert not self.behind(), f"one wrote behind another that had taken the store: {self.behind()[:5]}"

    @property
    def texts(self) -> list[str]:
        return [text for _, texts in sorted(self._by_sequence.items()) for text in texts]

    def turns(self) -> tuple[list[str], int]:
        """Who owned the store, one after the other, and how often a broker wrote behind its own turn: it asks
        for no lease when it writes, and one that was stopped for longer writes once more.
        """
        owners, late = [""], 0
        for owner, _ in itertools.groupby(map(owner_of, self.texts)):
            is_broker = owner.partition(".")[0] in self.rivals.brokers
            if is_broker and owner in owners:
                late += owner != owners[-1]
            elif owner != owners[-1]:
                owners.append(owner)
        return owners[1:], late

    def behind(self) -> list[str]:
        return [owner for owner, count in Counter(self.turns()[0]).items() if count > 1]


def text_in(record: bytes) -> str | None:
    for start in (0, 1):
        found = TEXT.search(record[start:].decode("utf-16-le", "replace"))
        if found:
            return found[0]
    return None


@dataclass(frozen=True)
class Case:
    kinds: tuple[str, str]
    database: str
    piece: int
    rounds: int = ROUNDS_OF_A_PIECE

    def __str__(self) -> str:
        return f"{'-'.join(self.kinds)}-{self.database}-piece{self.piece}"


def pieces() -> list[object]:
    every = [
        Case(kinds, database, piece)
        for kinds, databases in PIECES.items()
        for database, count in databases.items()
        for piece in range(1, count + 1)
    ]
    marks = {"broker": [pytest.mark.long, pytest.mark.broker]}
    return [
        pytest.param(Case(("log", "log"), "sqlite", 0, ROUNDS_QUICK), id="quick"),
        *(
            pytest.param(case, id=str(case), marks=marks.get(case.kinds[1], [pytest.mark.long]))
            for case in every
        ),
    ]


@pytest.mark.rule("S-223")
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("case", pieces())
def test_never_two_owners(empty_database: Callable[[str], str], tmp_path: Path, case: Case) -> None:
    lease_ms = 500 if "log" in case.kinds else 1500  # a store has to be opened in it, or renewed meanwhile
    # Beginning a mount anew takes longer than waiting.
    waits_ms = 10_000 if "mount" in case.kinds else -1
    configure(tmp_path, case.database, empty_database(case.database), lease_ms, waits_ms)
    database = Database(settings_in(tmp_path))
    if "log" in case.kinds:
        with database.begin("make the tables") as connection:
            database.tables.metadata.create_all(connection)
    ahead_s = (0,) if case.database == "sqlite" else AHEAD_S
    rivals = Rivals(tmp_path, case.kinds, random.Random(str(case)), ahead_s)
    ledger = Ledger(database, rivals)
    try:
        assert rivals.goes_on()
        for _ in range(case.rounds):
            rivals.round()
            ledger.look()
    finally:
        rivals.end()
    ledger.look()
    database.close()
    untold = len(ledger.texts) - len(rivals.written)
    assert untold <= 2 * case.rounds + 2, "more than what was under way was not told"
    assert not any("writable" in line for line in rivals.ends)
    owners, late = ledger.turns()
    print(
        f"{case}: {case.rounds} rounds, {len(owners)} owners, {len(ledger.texts)} texts, {late} late brokers"
    )
