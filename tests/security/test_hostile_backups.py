"""Places of backups, and drafts of transactions, that a stranger wrote."""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from journalfs.backup import Backups
from journalfs.backup.keeping import Keep
from journalfs.backup.manifest import (
    FORMAT,
    PIECE_BYTES,
    BackedUpFile,
    Manifest,
    encode,
    hash_of,
    object_name,
)
from journalfs.errors import Damaged, SystemFailure
from journalfs.inspect.scrub import Scrub
from journalfs.inspect.scrub_memory import Memory
from journalfs.records.files.file_gaps import NOTED, DeletedFiles
from journalfs.store.write.drafts import HOLDS, STAGED, DraftFolder
from tests.mounting import journalfs, mounted_for_writing
from tests.security.strangers import ODD
from tests.writing.conftest import new_store

FILE = {
    "path": "journal/activemq-data-1.amq",
    "size_bytes": 10,
    "content_bytes": 10,
    "mtime_ns": 1,
    "inode": 1,
    "pieces": [None],
}
PIECE = b"a piece"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    place = tmp_path / "place"
    (place / "backups").mkdir(parents=True)
    piece = place / object_name(hash_of(PIECE))
    piece.parent.mkdir(parents=True)
    piece.write_bytes(PIECE)
    return place


def describe(place: Path, **file: Any) -> Backups:
    made = BackedUpFile(**{**FILE, **file})
    manifest = Manifest(FORMAT, "one", 1, "/store", "closed", PIECE_BYTES, [made])
    (place / "backups/one.json").write_bytes(encode(manifest))
    return Backups.at(str(place))


@pytest.mark.rule("S-158")
@pytest.mark.parametrize(
    "file",
    [
        *({"path": path} for path in ("../evil", "/etc/evil", "journal/../../evil", "journal/a\0b", "")),
        *(
            {"path": path}
            for path in (".", "journal", "journal/", "journal//a", "broker.xml", "journalfs/index")
        ),
        {"size_bytes": 1 << 63},
        {"size_bytes": -1},
        {"size_bytes": 9},
        {"content_bytes": -1, "pieces": []},
        {"content_bytes": PIECE_BYTES + 1, "size_bytes": 2 * PIECE_BYTES},
        *({"pieces": [piece]} for piece in ("../../fifo", "", "a\0b", "ab" * 500, "A" * 64)),
    ],
)
def test_a_description_that_cannot_be(place: Path, tmp_path: Path, file: dict[str, Any]) -> None:
    backups = describe(place, **file)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(Damaged):
        backups.restore(tmp_path / "new")
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.rule("S-158")
def test_a_file_that_would_fill_the_disk(place: Path, tmp_path: Path) -> None:
    with pytest.raises(SystemFailure, match="it takes 4611686018427387904 bytes"):
        describe(place, size_bytes=1 << 62).restore(tmp_path / "new")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["place"]


@pytest.mark.rule("S-142")
def test_a_place_of_links_leads_nowhere(place: Path, tmp_path: Path) -> None:
    homes = tmp_path / "homes"
    homes.mkdir()
    (homes / "kept").write_bytes(PIECE)
    backups = describe(place)
    (place / "objects").rename(tmp_path / "objects")
    (place / "objects").symlink_to(homes)
    for call in (
        lambda: backups.prune(Keep(1)),
        lambda: backups.place.write(object_name(hash_of(b"x")), b"x"),
    ):
        with pytest.raises(SystemFailure, match="not a file of the store"):
            call()
    (place / "backups/one.json").unlink()
    (place / "backups/one.json").symlink_to(homes / "kept")
    with pytest.raises(SystemFailure, match="a link"):
        backups.manifest()
    assert [(one.name, one.read_bytes()) for one in homes.iterdir()] == [("kept", PIECE)]


@pytest.mark.rule("S-143")
@pytest.mark.parametrize("kind", ["pipe", "socket"])
def test_a_place_holds_nobody_up(place: Path, tmp_path: Path, kind: str) -> None:
    backups = describe(place, pieces=[hash_of(PIECE)])
    piece = place / object_name(hash_of(PIECE))
    piece.unlink()
    ODD[kind](piece)
    memory = Memory(tmp_path / "scrubbed")
    calls: tuple[Callable[[], object], ...] = (
        lambda: backups.restore(tmp_path / "new"),
        lambda: Scrub(memory).backups(backups),
    )
    for call in calls:
        with pytest.raises(SystemFailure, match="not a file of the store"):
            call()
    memory.close()


@pytest.mark.rule("S-158")
def test_a_piece_takes_the_memory_of_one(place: Path, tmp_path: Path) -> None:
    backups = describe(place, pieces=[hash_of(PIECE)])
    os.truncate(place / object_name(hash_of(PIECE)), 1 << 40)
    tracemalloc.start()
    try:
        with pytest.raises(Damaged, match="not what was written; nothing was restored of it"):
            backups.restore(tmp_path / "new")
        assert tracemalloc.get_traced_memory()[1] < 16 * PIECE_BYTES
    finally:
        tracemalloc.stop()


# ---- drafts of transactions, and other notes ----

BEGUN = b'{"what":"begun","transaction":"%b","name":"one","begun_ms":5}\n' % (b"ab" * 16)
NESTED = b"[" * 100_000 + b"]" * 100_000
DRAFTS = {
    "empty": b"",
    "a line": b"\n",
    "nested": b'{"what":"begun","more":%b}\n' % NESTED,
    "a long number": BEGUN.replace(b"5", b"9" * 30),
    "before all time": BEGUN.replace(b"5", b"-5"),
    "another name": BEGUN.replace(b"one", b"two"),
    "no name": BEGUN.replace(b"one", b"%ff"),
    "a way out": BEGUN.replace(b"ab" * 16, b"../../x"),
    "an id that none is": BEGUN + b'{"what":"hold","source":["a","b"],"ids":[9223372036854775808]}\n',
}


@pytest.mark.rule("S-158")
@pytest.mark.parametrize("kind", DRAFTS)
def test_a_draft_that_says_what_cannot_be(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "one"
    (folder / STAGED).mkdir(parents=True)
    (folder / HOLDS).write_bytes(BEGUN)
    assert DraftFolder.read(folder, 5, sync=False).name == "one"
    (folder / HOLDS).write_bytes(DRAFTS[kind])
    with pytest.raises(ValueError):
        DraftFolder.read(folder, 5, sync=False)


@pytest.mark.rule("S-158")
def test_a_mount_with_drafts_of_a_stranger(tmp_path: Path) -> None:
    root = new_store(tmp_path / "store")
    for number, content in enumerate(DRAFTS.values()):
        folder = root / f"journalfs/staging/transactions/{number}"
        (folder / STAGED).mkdir(parents=True)
        (folder / HOLDS).write_bytes(content)
    huge = root / "journalfs/staging/transactions/huge"
    (huge / STAGED).mkdir(parents=True)
    (huge / HOLDS).touch()
    os.truncate(huge / HOLDS, 1 << 40)
    with mounted_for_writing(root, tmp_path / "mnt") as mount:
        said = [one for one in mount.events() if one["event"] == "transaction"]
        assert len(said) == len(DRAFTS) + 1
        assert (huge / HOLDS).exists()


@pytest.mark.rule("S-158")
@pytest.mark.parametrize(
    "content", [b'{"\xff":[]}', b'{"journal":%b}' % NESTED, b'{"journal":[[1,%b]]}' % (b"9" * 30)]
)
def test_a_note_of_deleted_files(tmp_path: Path, content: bytes) -> None:
    (tmp_path / NOTED).parent.mkdir()
    (tmp_path / NOTED).write_bytes(content)
    deleted = DeletedFiles(tmp_path, "journal")
    assert deleted.ranges() == []
    deleted.note([(1, 2)])
    assert deleted.ranges() == [(1, 2)]


@pytest.mark.rule("S-143")
def test_a_file_of_holes_takes_no_time(tmp_path: Path) -> None:
    store = new_store(tmp_path / "store")
    (store / "large-messages").mkdir(exist_ok=True)
    body = store / "large-messages/77.msg"
    body.touch()
    os.truncate(body, 1 << 38)  # which takes minutes to read
    for command in (("backup", store, tmp_path / "place"), ("scrub", "--state", tmp_path / "state", store)):
        done = journalfs(*command)
        assert done.returncode == 0, done.stderr
