"""Journal files that are gone, of which no index tells: what their absence and the others' records say."""

from __future__ import annotations

import json
import random
import shutil
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from journalfs.errors import EXIT_DAMAGED
from journalfs.records.files.file_gaps import DeletedFiles, Range, merged, missing_ids, told
from journalfs.store import open_store
from journalfs.store.snapshot_folder import SNAPSHOTS
from tests.cli.running import journalfs, objects
from tests.frozen import FILE_STORES, PristineStores
from tests.mounting import mounted_for_writing
from tests.store.appending import JournalAppender
from tests.store.conftest import QUEUE_A, QUEUE_B, LittleStore
from tests.writing.conftest import shell


@dataclass
class Headed:
    file_id: int
    compacted: bool = False
    header_damaged: bool = False


@pytest.mark.rule("S-177")
@pytest.mark.parametrize(
    ("files", "missing"),
    [
        ([(1, 1), (2, 2), (4, 4)], [(3, 3)]),
        ([(2, 2), (3, 3)], [(1, 1)]),
        ([(1, 1), (9, 9)], [(2, 8)]),
        # Used again, which its name tells: it may have had any of them.
        ([(1, 9), (2, 2)], []),
        ([(2, 9), (10, 10)], [(1, 1)]),
        ([(1, 3), (7, 8)], [(4, 6)]),
        # Compaction gave it an earlier one.
        ([(5, 1), (9, 9)], [(2, 4)]),
        ([], []),
    ],
)
def test_what_explains_that_an_id_is_missing(files: list[Range], missing: list[Range]) -> None:
    known = [(number, Headed(file_id)) for number, file_id in files]
    assert missing_ids(known, -1) == missing
    assert missing_ids(known, len(files) + 2) == missing
    # A broker deletes what it has too many of; one more is deleted when it closes the journal.
    assert missing_ids(known, len(files) + 1) == []
    assert missing_ids(known, -1, missing) == []


def test_who_may_have_had_any_id() -> None:
    assert missing_ids([(1, Headed(1)), (2, Headed(2, compacted=True)), (9, Headed(9))], -1) == []
    assert missing_ids([(1, Headed(1)), (2, Headed(0, header_damaged=True)), (9, Headed(9))], -1) == []


def test_what_was_deleted_is_noted_in_few_ranges(tmp_path: Path) -> None:
    noted = DeletedFiles(tmp_path, "journal")
    assert noted.ranges() == []
    noted.note([(1, 3), (5, 5)])
    noted.note([(4, 4)])
    assert DeletedFiles(tmp_path, "journal").ranges() == [(1, 5)]
    assert DeletedFiles(tmp_path, "bindings").ranges() == []
    noted.note((number * 10, number * 10) for number in range(1, 400))
    assert len(noted.ranges()) == 256
    assert merged([*noted.ranges(), (1, 5)]) == noted.ranges()
    (tmp_path / "journalfs/deleted-journal-files.json").write_text("no json")
    assert noted.ranges() == []
    assert [told(3, 3), told(3, 5)] == ["3", "3-5"]


@pytest.mark.rule("S-177")
@pytest.mark.parametrize("gone", [1, 2, 3])
def test_a_file_that_is_gone_may_have_had_messages(little_store: LittleStore, gone: int) -> None:
    for number in (1, 2, 3, 4):
        name = f"activemq-data-{number}.amq"
        file = JournalAppender.create(little_store.journal.path.with_name(name), number)
        file.send(1000 + number, QUEUE_A)
    sound = little_store.root.with_name("sound")
    shutil.copytree(little_store.root, sound)
    (little_store.root / f"journal/activemq-data-{gone}.amq").unlink()
    checked = journalfs("check", little_store.root)
    assert checked.returncode == EXIT_DAMAGED
    assert f"no file has id {gone}, " in checked.stdout
    assert f"no damage, no journal file {gone}" in checked.stderr
    (said,) = map(json.loads, journalfs("check", "--json", little_store.root).stdout.splitlines())
    assert (said["kind"], said["standing"], said["certain"]) == ("missing-id", "missing", False)
    assert f"no file has id {gone}, " in said["reason"]
    with closing(little_store.open(index=False)) as store:
        assert store.status()["missingJournalFiles"] == [str(gone)]
    (whole,) = objects("check", "--json", sound)
    assert whole.pop("notLookedAt")
    assert whole == {"kind": "sound", "messages": 4, "damage": 0}
    assert "compact --discard-damage" in said["do"]
    done = journalfs("compact", "--discard-damage", little_store.root)
    assert done.returncode == 0
    assert f"missing-id\t{said['reason']}" in done.stderr
    assert "discarded: 1 place of damage, with an unknown number of messages" in done.stderr
    (left,) = objects("check", "--json", little_store.root)
    assert left["kind"] == "sound"


@pytest.mark.rule("S-178")
def test_what_refers_to_messages_that_nobody_has_is_counted(little_store: LittleStore) -> None:
    journal = little_store.journal
    journal.send(1000, QUEUE_A)
    for number in range(2, 5):
        journal.redeliver(number, QUEUE_A, 1)
    journal.schedule(2, QUEUE_B, 1)
    # Of a message that was consumed nothing else need be there.
    journal.acknowledge(7, QUEUE_B, tx_id=1)
    journal.redeliver(8, 99, 1)
    with closing(little_store.open(index=False)) as store:
        counts = {"queue 99": 1, "work::work.a": 3, "work::work.b": 1}
        assert store.status()["unknownReferences"] == counts
    checked = journalfs("check", little_store.root)
    assert checked.returncode == 5
    told = "5 references to messages that no record has (1 of queue 99, 3 of work::work.a, 1 of work::work.b)"
    assert told in checked.stderr
    assert "a delivery count or schedule in work::work.b of message 2, " in checked.stdout


@pytest.mark.rule("S-177")
@pytest.mark.parametrize("name", FILE_STORES)
def test_brokers_leave_no_such_gaps(name: str, stores: PristineStores) -> None:
    with closing(open_store(stores[name], index=False)) as store:
        assert store.status()["missingJournalFiles"] == []
        assert store.status()["unknownReferences"] == {}


@pytest.mark.rule("S-177")
@pytest.mark.parametrize("pool_files", [pytest.param(-1, marks=pytest.mark.long), 3])
def test_nor_does_what_journalfs_does(tmp_path: Path, pool_files: int) -> None:
    """However often files are freed, used again, deleted and compacted."""
    store, mnt = tmp_path / "store", tmp_path / "mnt"
    settings = {"journal-file-size": "40K", "journal-min-files": 2, "journal-pool-files": pool_files}
    given = [f"--set={name}={value}" for name, value in settings.items()]
    assert journalfs("create", "--journal-type", "NIO", *given, store).returncode == 0
    chance = random.Random(1)
    for turn in range(3):
        with mounted_for_writing(store, mnt) as mount:
            for _ in range(4):
                shell(f"mkdir -p work/work; seq 1000 1{chance.randrange(400)} > work/work/in.txt", mount.path)
                if chance.random() < 0.7:
                    shell("rm -f work/work/part-* work/work/_tail*", mount.path)
            # Neither has the files that hold nothing.
            shell(f"mkdir .journalfs/snapshots/{turn}", mount.path)
            assert journalfs("backup", mount.path, tmp_path / "backups").returncode == 0
        copies = [store / SNAPSHOTS / str(turn), tmp_path / f"restored-{turn}"]
        assert journalfs("restore", tmp_path / "backups", copies[1]).returncode == 0
        if turn == 1:
            assert journalfs("compact", "--shrink", store).returncode == 0
        for one in (store, *copies):
            with closing(open_store(one, index=False)) as opened:
                assert opened.status()["missingJournalFiles"] == []
