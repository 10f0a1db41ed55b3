"""Whole stores in the states that defects of the broker's own journal classes leave: mounted for reading and
for writing, and then loaded by these classes again. `tests/journal/test_defects.py` has the defects.
"""

from __future__ import annotations

import json
import shutil
import struct
from pathlib import Path

import pytest

from journalfs.records.files.compaction import encode_control_file
from tests.differential import encode
from tests.differential.encode_messages import text_message
from tests.faults.places import bodies, named, write
from tests.journal.real_classes import SETTINGS, real_classes, run_real_classes
from tests.kinds import first_is_quick
from tests.mounting import MountedStore, journalfs, mounted, mounted_for_writing
from tests.reference.journal import ADD, COMMIT, DELETE, PREPARE, ROLLBACK, UPDATE, UPDATE_TX
from tests.store.appending import ACK, ADD_REF, MESSAGE
from tests.store.conftest import QUEUE_A, LittleStore, little_store

__all__ = ["little_store"]

pytestmark = pytest.mark.broker

REFERENCE = struct.pack(">q", QUEUE_A)
LONG = 15_000
"""Characters of a text that takes half of a journal file."""


class DefectStore:
    """A store with the queue `work.a`; its journal is what the test lays there."""

    def __init__(self, little: LittleStore, mountpoint: Path) -> None:
        self.root = little.root
        self.journal = little.root / "journal"
        self._mountpoint = mountpoint
        (self.journal / "activemq-data-1.amq").unlink()
        size = SETTINGS.file_size_bytes
        (self.root / "journalfs.toml").write_text(f'journal-type = "NIO"\njournal-file-size = {size}\n')

    def lay(self, number: int, *records: bytes, file_id: int | None = None) -> Path:
        path = self.journal / f"activemq-data-{number}.amq"
        content = encode.journal_file(file_id or number, records, size=SETTINGS.file_size_bytes)
        path.write_bytes(content)
        return path

    def contents(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in self.journal.glob("*.amq*")}

    def shows_and_goes_on(self, expected: list[str], damage: dict[str, str] | None = None) -> None:
        """Both kinds of mount show these bodies and this damage (kind -> file), and reading changes nothing.
        Then it is written to and compacted, and the real classes find in it what the mount did.
        """
        before = self.contents()
        with mounted(self.root, self._mountpoint) as mount:
            assert found(mount) == (expected, damage or {})
        assert self.contents() == before
        with mounted_for_writing(self.root, self._mountpoint) as mount:
            assert named(mount, "index-unusable") == []
            assert found(mount) == (expected, damage or {})
            queue = mount.queue("work", "work.a")
            write(queue.path / "in.txt", b"since\n")
            lines = queue.lines()
            assert [line["body"] for line in lines] == [*expected, "since"]
        done = journalfs("compact", self.root)
        assert done.returncode == 0, done.stderr
        assert messages_in(real_classes(self.journal, "NIO")) == {line["id"] for line in lines}


@pytest.fixture
def store(little_store: LittleStore, tmp_path: Path) -> DefectStore:
    return DefectStore(little_store, tmp_path / "mnt")


def found(mount: MountedStore) -> tuple[list[str], dict[str, str]]:
    folder = mount.path / ".journalfs" / "damaged"
    listed = [json.loads(path.read_bytes()) for path in folder.glob("*.json")]
    return bodies(mount.queue("work", "work.a")), {one["kind"]: one["file"] for one in listed}


def message(file_id: int, message_id: int, text: str, *, compact_count: int = 0) -> bytes:
    """A message that the queue has."""
    return encode.record(
        ADD,
        file_id,
        record_id=message_id,
        user_type=MESSAGE,
        body=text_message(message_id, text),
        compact_count=compact_count,
    ) + encode.record(
        UPDATE,
        file_id,
        record_id=message_id,
        user_type=ADD_REF,
        body=REFERENCE,
        compact_count=compact_count,
    )


def copied(folder: Path, to: Path) -> Path:
    return Path(shutil.copytree(folder, to, ignore=shutil.ignore_patterns("server*")))


def messages_in(lines: list[str]) -> set[int]:
    """Ids of the messages that the real classes printed."""
    words = [line.split() for line in lines]
    return {int(word[1]) for word in words if word[0] == "record" and word[2] == str(MESSAGE)}


@pytest.mark.long
def test_a_crash_at_the_end_of_a_compaction(store: DefectStore, tmp_path: Path) -> None:
    """A file that the control file calls old was used again, and has what was synced since."""
    store.lay(7, message(1, 1001, "compacted", compact_count=1), file_id=1)
    store.lay(6, message(6, 1002, "during"))
    store.lay(1, message(9, 1003, "synced since"), file_id=9)
    control = encode_control_file(["activemq-data-1.amq"], ["activemq-data-7.amq.cmp"])
    (store.journal / "journal-rename-control.ctr").write_bytes(control)
    assert messages_in(real_classes(copied(store.journal, tmp_path / "theirs"), "NIO")) == {1001, 1002}
    store.shows_and_goes_on(["compacted", "during", "synced since"])


@pytest.mark.long
def test_equal_ids_after_a_compaction(store: DefectStore) -> None:
    """The real classes gave the last output the id of the file that is current; then a message was taken."""
    store.lay(1, message(1, 1001, "a" * LONG, compact_count=2), message(1, 1002, "b" * LONG))
    store.lay(2, message(2, 1003, "c" * (LONG + LONG - 500)))
    store.lay(3, message(3, 1004, "d" * (LONG + LONG - 500)))
    real_classes(store.journal, "NIO", "compact", f"update 1004 {ACK} {REFERENCE.hex()}")
    ids = [int.from_bytes(content[8:16]) for content in store.contents().values()]
    assert len(set(ids)) < len(ids)
    expected = ["a" * LONG, "b" * LONG, "c" * (LONG + LONG - 500)]
    store.shows_and_goes_on(sorted(expected))


@pytest.mark.long
def test_files_that_wait_to_be_copied(store: DefectStore, tmp_path: Path) -> None:
    store.lay(1, message(1, 1001, "waits")).rename(store.journal / "activemq-data-1.amq.bkp")
    store.lay(2, message(2, 1002, "current"))
    assert messages_in(real_classes(copied(store.journal, tmp_path / "theirs"), "NIO")) == {1002}
    store.shows_and_goes_on(["waits", "current"])


def test_a_transaction_that_lost_a_part(store: DefectStore) -> None:
    """Nothing in the files of a broker says so: what is left is what the broker would deliver."""
    store.lay(1, message(1, 1001, "before"))
    store.lay(2, message(2, 1003, "what is left"), encode.record(COMMIT, 2, tx_id=9, count=0))
    store.shows_and_goes_on(["before", "what is left"])


def test_a_record_inside_a_damaged_one(store: DefectStore, tmp_path: Path) -> None:
    """Whoever sent the message wrote the other into its body."""
    inner = message(1, 1666, "forged")
    outer = bytearray(
        encode.record(ADD, 1, record_id=1001, user_type=MESSAGE, body=b"...." + inner + b"....")
    )
    outer[-1] ^= 1
    store.lay(1, bytes(outer), message(1, 1002, "whole"))
    assert messages_in(real_classes(copied(store.journal, tmp_path / "theirs"), "NIO")) == {1002, 1666}
    file = "journal/activemq-data-1.amq"
    store.shows_and_goes_on(["forged", "whole"], {"garbage": file, "doubtful-record": file})


@pytest.mark.long
def test_a_deleted_message_that_a_compaction_brought_back(store: DefectStore) -> None:
    """Before the real classes compact, it is gone; afterwards nothing in the journal says that it was."""
    update = encode.record(UPDATE_TX, 1, tx_id=9, record_id=1001, user_type=ADD_REF, body=REFERENCE)
    add = encode.record(ADD, 1, record_id=1001, user_type=MESSAGE, body=text_message(1001, "deleted"))
    commit = encode.record(COMMIT, 1, tx_id=9, count=1)
    store.lay(1, add, update, encode.record(DELETE, 1, record_id=1001), commit, message(1, 1002, "kept"))
    store.shows_and_goes_on(["kept"])


@pytest.mark.long
def test_a_deleted_message_that_was_brought_back(store: DefectStore) -> None:
    update = encode.record(UPDATE_TX, 1, tx_id=9, record_id=1001, user_type=ADD_REF, body=REFERENCE)
    add = encode.record(ADD, 1, record_id=1001, user_type=MESSAGE, body=text_message(1001, "deleted"))
    commit = encode.record(COMMIT, 1, tx_id=9, count=1)
    store.lay(1, add, update, encode.record(DELETE, 1, record_id=1001), commit, message(1, 1002, "kept"))
    assert messages_in(real_classes(store.journal, "NIO", "compact")) == {1002}
    assert messages_in(real_classes(store.journal, "NIO")) == {1001, 1002}
    store.shows_and_goes_on(["deleted", "kept"])


@pytest.mark.parametrize("end", first_is_quick(ROLLBACK, COMMIT), ids=["rollback", "commit"])
def test_a_prepared_transaction_whose_records_are_lost(store: DefectStore, tmp_path: Path, end: int) -> None:
    """A broker does not start on it, and does after a mount has compacted."""
    prepare = encode.record(PREPARE, 1, tx_id=9, count=1, body=b"xid")
    ended = encode.record(end, 1, tx_id=9)
    store.lay(1, message(1, 1001, "before"), prepare, ended, message(1, 1002, "after"))
    assert run_real_classes(copied(store.journal, tmp_path / "theirs"), "NIO").returncode != 0
    store.shows_and_goes_on(["before", "after"], {"incomplete-transaction": "journal/activemq-data-1.amq"})


@pytest.mark.long
def test_a_file_that_never_got_a_header(store: DefectStore, tmp_path: Path) -> None:
    store.lay(1, message(1, 1001, "there"))
    (store.journal / "activemq-data-2.amq").write_bytes(bytes(SETTINGS.file_size_bytes))
    assert run_real_classes(copied(store.journal, tmp_path / "theirs"), "NIO").returncode != 0
    store.shows_and_goes_on(["there"])
