"""Owns a store's tables whenever it can, and prints each row that was committed: FOLDER SKEW.

SKEW is how many times as fast the clock of this process goes, which nobody must notice.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import sys
import time
from pathlib import Path

from journalfs.config.broker_xml import read_broker_xml
from journalfs.config.database import DatabaseSettings
from journalfs.engine.stage import StagedRecord
from journalfs.errors import JournalfsError
from journalfs.format.record_types import MessageType, RecordKind
from journalfs.tables.database import Database
from journalfs.tables.lease import Lease
from journalfs.tables.log import TableLog


def settings_in(folder: Path) -> DatabaseSettings:
    found = read_broker_xml(folder / "broker.xml", instance=folder).database
    assert found is not None
    return found


def own(database: Database) -> None:
    """For as long as it can be."""
    lease = Lease(database)
    lease.acquire()
    try:
        log = TableLog(database, database.tables.messages, lease)
        log.load()
        for number in itertools.count():
            body = f"{lease.holder} {number}"
            record_id = random.getrandbits(62)
            log.commit([StagedRecord(RecordKind.ADD, record_id, 0, MessageType.DUPLICATE_ID, body.encode())])
            print(body, flush=True)
    finally:
        lease.release()


def main(folder: Path, skew: float) -> None:
    real, began = time.monotonic, time.monotonic()
    time.monotonic = lambda: began + (real() - began) * skew
    wall = time.time
    time.time = lambda: wall() * skew
    while True:
        database = Database(settings_in(folder))
        with contextlib.suppress(JournalfsError):
            own(database)
        database.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]))
