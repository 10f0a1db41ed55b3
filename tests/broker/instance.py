"""A real Artemis broker in a process of its own: on loopback, on a free port, over a data directory."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from tests.broker import class_data, distribution
from tests.broker.settings import BrokerSettings, JournalType, Store, acceptor, broker_xml

ACTIVE = "AMQ221007"
"""The code of the log line that says the server is active."""
COMPACTED = "Finished compacting on journal"
"""What the journal logs, at the level that `LOGGING` sets, after each compaction."""
TOLD_TO_STOP = "-- the broker is told to stop --"
"""Stands in its log where that happened."""
START_S_MAX = 90
STOP_S_MAX = 60
PORT_ATTEMPTS_MAX = 5

BOOTSTRAP = """\
<broker xmlns="http://activemq.apache.org/schema">
  <jaas-security domain="activemq"/>
  <server configuration="{etc_uri}/broker.xml"/>
</broker>
"""
MANAGEMENT = '<management-context xmlns="http://activemq.apache.org/schema"/>\n'
LOGGING = """\
rootLogger.level = INFO
rootLogger.appenderRef.console.ref = console
logger.journal.name = org.apache.activemq.artemis.core.journal.impl
logger.journal.level = DEBUG
logger.audit.name = org.apache.activemq.audit
logger.audit.level = OFF
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d %-5level [%logger] %msg%n
"""


JOURNAL_LOG: dict[JournalType, set[str]] = {
    "NIO": {"AMQ221013: Using NIO Journal"},
    "ASYNCIO": {"AMQ221012: Using AIO Journal"},
    "MAPPED": set(),
}
"""What the broker says of the journal it really uses (nothing of a mapped one): it falls back by itself."""


class BrokerError(Exception):
    """The broker did not do what was asked; the message ends with the last lines of its log."""


class Broker:
    """One broker instance: `root/etc` and `root/data`. Start and stop it as often as wanted."""

    def __init__(
        self, root: Path, *, settings: BrokerSettings | None = None, config: str | None = None
    ) -> None:
        """Lay the instance out under `root`; `root/data` may already hold a store.

        `settings` makes a broker.xml of ours; `config` is the text of one that came with a store (its
        acceptor is moved to the free port). Exactly one of them is given.
        """
        if (settings is None) == (config is None):
            raise ValueError("give either settings or config")
        self.root = root
        self.data = root / "data"
        self._settings = settings
        self._config = config
        self._process: subprocess.Popen[str] | None = None
        self._log: list[str] = []
        self._logged = threading.Condition()
        self._reader: threading.Thread | None = None
        self.port = 0

    @property
    def store(self) -> Store:
        return Store(self.data)

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def log(self) -> str:
        with self._logged:
            return "\n".join(self._log)

    def start(self, port: int | None = None) -> None:
        """Start and return once the broker is active; at `port`, or at one that is free.

        A port found free may be taken before the broker binds it: a failed bind is tried again with another.
        """
        for attempt in range(1, PORT_ATTEMPTS_MAX + 1):
            self._start_once(_free_port() if port is None else port)
            if "Address already in use" not in self.log:
                return
            self.kill()
            if attempt == PORT_ATTEMPTS_MAX:
                raise BrokerError(f"no free port after {attempt} attempts{self._log_end()}")

    def _start_once(self, port: int) -> None:
        assert not self.running
        self.port = port
        self.lay_out()
        home = distribution.distribution_home()
        # setpriv: the broker dies with the test run, however that ends.
        command = ["setpriv", "--pdeathsig", "KILL", "java", "-Xms128m", "-Xmx512m"]
        command += class_data.options(class_data.BROKER)
        command += [f"-Dartemis.home={home}", f"-Dartemis.instance={self.root}", f"-Ddata.dir={self.data}"]
        command += [f"-Dartemis.instance.etc={self.root}/etc", f"-Djava.io.tmpdir={self.root}/tmp"]
        command += [f"-Djava.library.path={home}/bin/lib/linux-x86_64"]
        command += [f"-Dlog4j2.configurationFile=file:{self.root}/etc/log4j2.properties"]
        libraries = map(str, sorted((self.root / "lib").glob("*.jar")))
        command += ["-classpath", ":".join([class_data.class_path(), *libraries]), class_data.BROKER, "run"]
        self._log = []
        self._process = subprocess.Popen(
            command,
            cwd=self.root,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read_log, args=(self._process,), daemon=True)
        self._reader.start()
        try:
            self.wait_for_log(ACTIVE, deadline_s=START_S_MAX)
        except BrokerError:
            self.kill()
            raise

    def lay_out(self) -> None:
        """Write the instance's configuration, as each start does."""
        etc = self.root / "etc"
        etc.mkdir(parents=True, exist_ok=True)
        (self.root / "tmp").mkdir(exist_ok=True)
        (etc / "bootstrap.xml").write_text(BOOTSTRAP.format(etc_uri=etc.as_uri()))
        (etc / "management.xml").write_text(MANAGEMENT)
        (etc / "log4j2.properties").write_text(LOGGING)
        if self._settings is not None:
            text = broker_xml(self._settings, self.port)
        else:
            assert self._config is not None
            text, moved = re.subn(
                r"(<acceptor name=\"\w+\">)[^<]*", rf"\g<1>{acceptor(self.port)}", self._config
            )
            assert moved == 1, "a broker.xml with exactly one acceptor is expected"
        (etc / "broker.xml").write_text(text)

    def _read_log(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            with self._logged:
                self._log.append(line.rstrip("\n"))
                self._logged.notify_all()
        with self._logged:
            self._logged.notify_all()

    def wait_for_log(self, text: str, *, deadline_s: float) -> None:
        """Return once a line with `text` was logged since the start."""
        end = time.monotonic() + deadline_s
        with self._logged:
            while not any(text in line for line in self._log):
                left_s = end - time.monotonic()
                if left_s <= 0 or not self.running:
                    why = "not within the time" if self.running else "the broker ended"
                    raise BrokerError(f"no log line with {text}: {why}{self._log_end()}")
                self._logged.wait(min(left_s, 1.0))

    def stop(self) -> None:
        """Stop cleanly, as a service manager would."""
        if self._process is None:
            return
        with self._logged:
            self._log.append(TOLD_TO_STOP)
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(STOP_S_MAX)
        except subprocess.TimeoutExpired:
            self.kill()
            raise BrokerError(f"the broker did not stop within {STOP_S_MAX} s{self._log_end()}") from None
        self._finish()

    def kill(self) -> None:
        """End it as a power cut would end the process: SIGKILL."""
        if self._process is None:
            return
        self._process.kill()
        self._process.wait(STOP_S_MAX)
        self._finish()

    def _finish(self) -> None:
        assert self._reader is not None
        assert self._process is not None
        self._reader.join(STOP_S_MAX)
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._process = None

    def _log_end(self) -> str:
        return "\n--- end of the broker's log ---\n" + "\n".join(self._log[-30:])

    def __enter__(self) -> Broker:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()


def uses(broker: Broker, journal_type: JournalType) -> bool:
    """Whether its log says that it has a journal of that type, or nothing, as of a mapped one."""
    return set(re.findall(r"AMQ2210\d\d: Using \w+ Journal", broker.log)) == JOURNAL_LOG[journal_type]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def running(root: Path, settings: BrokerSettings) -> Iterator[Broker]:
    """A started broker over a new store; killed at the end if the test did not stop it."""
    broker = Broker(root, settings=settings)
    with broker:
        yield broker
