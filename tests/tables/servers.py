"""Database servers of a test session: unprivileged, on a unix socket in a scratch folder."""

from __future__ import annotations

import glob
import os
import pwd
import shutil
import signal
import socket as socketlib
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

START_S_MAX = 60
UNPRIVILEGED = "nobody"


@dataclass(slots=True)
class Server:
    """One that is running. `url` names a database of it, which `make` makes."""

    folder: Path
    socket: Path
    port: int
    """On loopback: Java drivers know no sockets of files."""
    process: subprocess.Popen[bytes]
    make: Callable[[str], str]
    start: Callable[[], subprocess.Popen[bytes]]

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        self.process.wait()

    def signal(self, number: signal.Signals) -> None:
        """Send one to the server and all that it started."""
        for one in self.processes():
            with suppress(ProcessLookupError):
                os.kill(one, number)

    def processes(self) -> list[int]:
        """The server, and then all that it started."""
        parents = {}
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):
                parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
        found = [self.process.pid]
        for one in found:
            found += [pid for pid, parent in parents.items() if parent == one]
        return found

    def owner(self) -> tuple[int, int]:
        found = self.folder.stat()
        return found.st_uid, found.st_gid

    def restart(self) -> None:
        self.process = self.start()


def found(program: str, *folders: str) -> str | None:
    places = [path for folder in folders for path in sorted(glob.glob(folder), reverse=True)]
    return shutil.which(program, path=os.pathsep.join([*places, os.environ["PATH"], "/usr/sbin"]))


def free_port() -> int:
    with socketlib.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def as_nobody(command: Sequence[str]) -> list[str]:
    """Servers refuse to run as root."""
    if os.geteuid():
        return list(command)
    return ["setpriv", "--reuid", UNPRIVILEGED, "--regid", "nogroup", "--clear-groups", *command]


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder that such a server owns; its path is short enough for a socket."""
    folder = Path(tempfile.mkdtemp(prefix="jfs-db-", dir="/tmp"))
    if not os.geteuid():
        owner = pwd.getpwnam(UNPRIVILEGED)
        os.chown(folder, owner.pw_uid, owner.pw_gid)
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run(command: Sequence[str], **more: object) -> None:
    done = subprocess.run(list(command), capture_output=True, check=False, cwd="/", **more)  # type: ignore[call-overload]
    assert done.returncode == 0, f"{command}: {done.stdout.decode()} {done.stderr.decode()}"


def sql(port: int, database: str, text: str, **more: object) -> None:
    """Tell a PostgreSQL of ours something."""
    place = ["-h", "127.0.0.1", "-p", str(port), "-U", "artemis", "-d", database]
    run(["psql", "-q", "-v", "ON_ERROR_STOP=1", *place, *(["-c", text] if text else [])], **more)


def wait_for(socket: Path, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_S_MAX
    while not socket.exists():
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.02)


def wait_until_it_answers(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    """A PostgreSQL that starts has a socket before it takes anybody."""
    deadline = time.monotonic() + START_S_MAX
    asking = ["psql", "-q", "-h", "127.0.0.1", "-p", str(port), "-U", "artemis", "-d", "postgres", "-c", ""]
    while subprocess.run(asking, capture_output=True, check=False, cwd="/").returncode:
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.02)


@contextmanager
def postgresql(*, durable: bool = False) -> Iterator[Server]:
    """Not `durable`: only as far as processes end; machines do not in tests."""
    initdb = found("initdb", "/usr/lib/postgresql/*/bin")
    postgres = found("postgres", "/usr/lib/postgresql/*/bin")
    assert initdb is not None, "no PostgreSQL (Debian: postgresql)"
    assert postgres is not None
    with scratch() as folder:
        run(
            as_nobody(
                [initdb, "-D", f"{folder}/data", "-U", "artemis", "-A", "trust", "-E", "UTF8", "--no-sync"]
            )
        )
        port = free_port()
        log, socket = folder / "log", folder / f".s.PGSQL.{port}"

        def start() -> subprocess.Popen[bytes]:
            command = [
                postgres,
                "-D",
                f"{folder}/data",
                "-k",
                str(folder),
                "-h",
                "127.0.0.1",
                "-p",
                str(port),
                "-c",
                f"fsync={'on' if durable else 'off'}",
                "-c",
                "max_connections=200",
            ]
            with log.open("ab") as output:
                process = subprocess.Popen(as_nobody(command), stdout=output, stderr=output, cwd="/")
            wait_for(socket, process, log)
            wait_until_it_answers(port, process, log)
            return process

        def make(name: str) -> str:
            sql(port, "postgres", f"CREATE DATABASE {name}")
            return f"postgresql://artemis@127.0.0.1:{port}/{name}"

        server = Server(folder, socket, port, start(), make, start)
        try:
            yield server
        finally:
            server.kill()


@contextmanager
def mariadb() -> Iterator[Server]:
    install = found("mariadb-install-db")
    daemon = found("mariadbd")
    assert install is not None, "no MariaDB (Debian: mariadb-server)"
    assert daemon is not None
    with scratch() as folder:
        options = [f"--datadir={folder}/data", f"--tmpdir={folder}", "--no-defaults"]
        (command,) = (
            [
                install,
                "--no-defaults",
                f"--datadir={folder}/data",
                "--auth-root-authentication-method=normal",
            ],
        )
        # It makes temporary files by itself, where the user of this session has them unless told.
        run(as_nobody([*command, "--skip-test-db"]), env={**os.environ, "TMPDIR": str(folder)})
        port = free_port()
        log, socket = folder / "log", folder / "socket"

        def start() -> subprocess.Popen[bytes]:
            command = [daemon, options[1], options[0], f"--socket={socket}", "--bind-address=127.0.0.1"]
            command.append(f"--port={port}")
            command += [
                f"--tmpdir={folder}",
                f"--pid-file={folder}/pid",
                "--innodb-flush-log-at-trx-commit=2",
                "--max-allowed-packet=256M",
            ]
            with log.open("ab") as output:
                process = subprocess.Popen(as_nobody(command), stdout=output, stderr=output, cwd="/")
            wait_for(socket, process, log)
            return process

        def make(name: str) -> str:
            run(["mariadb", f"--socket={socket}", "-u", "root", "-e", f"CREATE DATABASE {name}"])
            return f"mysql://root@127.0.0.1:{port}/{name}"

        server = Server(folder, socket, port, start(), make, start)
        try:
            yield server
        finally:
            server.kill()
