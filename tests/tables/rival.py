"""Processes that own a store whenever they can, and print each text that was committed.

A text is `NAME.LIFE NUMBER`. One of the kind `log` has the lease and rows of a journal and nothing else, a
`store` publishes, a `mount` is written to. `RivalBroker.java` is a fourth.
"""

from __future__ import annotations

import gc
import itertools
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from journalfs.config.broker_xml import read_broker_xml
from journalfs.config.database import DatabaseSettings
from journalfs.engine.stage import StagedRecord
from journalfs.errors import JournalfsError
from journalfs.format.record_types import MessageType, RecordKind
from journalfs.records.tables.database import Database
from journalfs.records.tables.lease import Lease
from journalfs.records.tables.log import TableLog
from journalfs.store.write.store import WritingStore
from tests.broker.writing import make_queues, publish, write_in

PACE_S: Final = 0.01
"""Between two texts: tables are to stay small."""
BUSY_S: Final = 0.05
"""Until it is tried again."""
PAUSE: Final = threading.Event()


def say(line: str) -> None:
    """At once: others say something on the same pipe."""
    os.write(sys.stdout.fileno(), f"{line}\n".encode())


def settings_in(folder: Path) -> DatabaseSettings:
    found = read_broker_xml(folder / "broker.xml", instance=folder).database
    assert found is not None
    return found


def own_rows(folder: Path, name: str) -> None:
    database = Database(settings_in(folder))
    try:
        lease = Lease(database)
        lease.acquire()
        try:
            log = TableLog(database, database.tables.messages, lease)
            log.load()
            for number in itertools.count():
                text = f"{name} {number}"
                body, record_id = text.encode("utf-16-le"), random.getrandbits(62)
                log.commit([StagedRecord(RecordKind.ADD, record_id, 0, MessageType.DUPLICATE_ID, body)])
                say(text)
                PAUSE.wait(PACE_S)
        finally:
            lease.release()
    finally:
        database.close()


def own_store(folder: Path, name: str) -> None:
    async def work(store: WritingStore) -> None:
        if not store.addresses():
            await make_queues(store, "orders")
        for number in itertools.count():
            text = f"{name} {number}"
            try:
                await publish(store, "orders", None, "in.txt", f"{text}\n".encode())
            except (JournalfsError, OSError):
                say(f"{name} is {'read-only' if store.read_only else 'writable'}")
                raise
            say(text)
            PAUSE.wait(PACE_S)

    write_in(folder, work)


def own_mount(folder: Path, name: str) -> None:
    """By a mount, which is what is stopped and killed: this only writes to it."""
    place = Path(tempfile.mkdtemp(prefix=f"jfs-{name}-"))
    command = [sys.executable, "-m", "journalfs.cli.main", "mount", "--foreground", str(folder), str(place)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as mount:
        say(f"{name.partition('.')[0]} is {mount.pid}")
        while mount.poll() is None and not os.path.ismount(place):
            PAUSE.wait(BUSY_S)
        try:
            if mount.poll() is not None:
                raise OSError(f"it ended with {mount.returncode}")
            (place / "orders/orders").mkdir(parents=True, exist_ok=True)
            with (place / "orders/in.txt").open("ab", buffering=0) as file:
                for number in itertools.count():
                    file.write(f"{name} {number}\n".encode())
                    say(f"{name} {number}")
                    PAUSE.wait(PACE_S)
        except OSError as error:
            print(f"{name}: {error}", file=sys.stderr)
        subprocess.run(["umount", "--lazy", place], stderr=subprocess.DEVNULL, check=False)
    place.rmdir()
    if mount.returncode == -signal.SIGKILL:
        sys.exit()


OWNS: Final[dict[str, Callable[[Path, str], None]]] = {
    "log": own_rows,
    "store": own_store,
    "mount": own_mount,
}


def live(kind: str, folder: Path, name: str) -> None:
    if kind != "mount":
        say(f"{name} is {os.getpid()}")
    own = partial(OWNS[kind], folder)
    for life in itertools.count():
        try:
            own(f"{name}.{life}")
        except (JournalfsError, OSError) as error:
            print(f"{name}.{life}: {error}", file=sys.stderr)
        PAUSE.wait(BUSY_S)


def main() -> None:
    """Fork for each line `KIND FOLDER NAME AHEAD_S`."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    gc.freeze()
    for line in sys.stdin:
        kind, folder, name, os.environ["CLOCK_AHEAD_S"] = line.split()
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            sys.stdin.close()
            live(kind, Path(folder), name)


if __name__ == "__main__":
    main()
