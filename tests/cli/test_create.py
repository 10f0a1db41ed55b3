"""`journalfs create`: what it makes, what it refuses, and that nothing is left where it fails."""

from __future__ import annotations

import errno
import os
import re
import tomllib
from pathlib import Path

import pytest

from journalfs.clock import FakeClock
from journalfs.config.layout import locate_store
from journalfs.engine.disk import DiskBackend
from journalfs.errors import SystemFailure
from journalfs.format.server_lock import NodeState, decode_server_lock
from journalfs.records.files.pool import FilePool
from journalfs.store import open_store
from journalfs.store.creating import create_store
from journalfs.store.locks import lock_holder
from tests.cli.running import journalfs, objects
from tests.config.test_broker_xml import read
from tests.reference.journal import read_folder


def sizes(folder: Path) -> list[int]:
    return sorted(path.stat().st_size for path in folder.iterdir() if path.suffix in (".amq", ".bindings"))


def test_a_new_store(tmp_path: Path) -> None:
    store = tmp_path / "some" / "store"
    done = journalfs("create", store, "--bare", "--journal-type", "NIO", "--set", "journal-file-size=64K")
    assert done.returncode == 0, done.stderr
    said = re.fullmatch(r"(.+): an empty store, NIO, journal files of 65536 bytes, node (\S+)\n", done.stdout)
    assert said is not None
    assert said[1] == str(store)
    assert sorted(os.listdir(store)) == ["bindings", "journal", "journalfs.toml", "large-messages", "paging"]
    assert (store / "journalfs.toml").read_text() == 'journal-type = "NIO"\njournal-file-size = 65536\n'
    assert sizes(store / "journal") == [65_536] * 2
    assert sizes(store / "bindings") == [1_048_576] * 2
    lock = decode_server_lock((store / "journal" / "server.lock").read_bytes())
    assert (lock.state, str(lock.node_id)) == (NodeState.NEVER_STARTED, said[2])
    assert lock_holder(store / "journal") is None


@pytest.mark.parametrize("journal_type", ["NIO", "ASYNCIO", "MAPPED"])
def test_it_can_be_opened_and_is_empty(tmp_path: Path, journal_type: str) -> None:
    store = tmp_path / "store"
    assert journalfs("create", "--bare", store, "--journal-type", journal_type).returncode == 0
    opened = open_store(store, clock=FakeClock(), index=False)
    assert not opened.addresses()
    opened.close()
    assert locate_store(store).journal_dir == store / "journal"
    assert sizes(store / "journal") == [10_485_760] * 2
    assert not (store / "journal" / ".aio-test").exists()


def test_its_only_record_says_where_ids_begin(tmp_path: Path) -> None:
    """No id is 0, which a broker would hand out first on a store without such a record."""
    assert journalfs("create", "--bare", tmp_path).returncode == 0
    counters = [line for line in objects("print", tmp_path) if line["kind"] == "ADD"]
    assert counters[-1]["userTypeName"] == "ID_COUNTER"
    assert counters[-1]["value"] >= counters[-1]["id"] > 0
    assert not [record for file in read_folder(tmp_path / "journal") for record in file.scan.records]


def queues(store: Path) -> dict[str, str]:
    return {line["queue"]: line["routingType"] for line in objects("ls", "--json", store) if "queue" in line}


@pytest.mark.rule("S-166")
def test_what_fails_or_expires_has_a_place(tmp_path: Path) -> None:
    """As `artemis create` sets it up."""
    settings = ("--set", "orders.#:max-delivery-attempts=3", "--set", "#:redelivery-delay=5")
    assert journalfs("create", *settings, tmp_path).returncode == 0
    assert queues(tmp_path) == {"DLQ": "ANYCAST", "ExpiryQueue": "ANYCAST"}
    said = tomllib.loads((tmp_path / "journalfs.toml").read_text())["address-settings"]
    everywhere = {"dead-letter-address": "DLQ", "expiry-address": "ExpiryQueue", "redelivery-delay": 5}
    assert said == {"orders.#": {"max-delivery-attempts": 3}, "#": everywhere}


@pytest.mark.rule("S-166")
def test_elsewhere_if_it_is_said(tmp_path: Path) -> None:
    chosen = ("--set", "#:dead-letter-address=failed", "--set", "#:expiry-address=")
    assert journalfs("create", *chosen, tmp_path / "store").returncode == 0
    assert queues(tmp_path / "store") == {"failed": "ANYCAST"}
    setting = '<address-setting match="#"><dead-letter-address>x</dead-letter-address></address-setting>'
    (tmp_path / "instance").mkdir()
    read(tmp_path / "instance", f"<address-settings>{setting}</address-settings>")
    assert journalfs("create", tmp_path / "instance").returncode == 0
    assert queues(tmp_path / "instance") == {"x": "ANYCAST"}, "a broker that starts makes it as well"


def test_an_empty_directory_becomes_a_store(tmp_path: Path) -> None:
    (tmp_path / "lost+found").mkdir()
    assert journalfs("create", "--bare", tmp_path).returncode == 0
    assert not (tmp_path / "journalfs.toml").exists(), "there is nothing to be said in it"


def test_settings_that_are_there_already_count(tmp_path: Path) -> None:
    (tmp_path / "journalfs.toml").write_text('journal-file-size = 2048\njournal-type = "NIO"\n')
    assert journalfs("create", tmp_path).returncode == 0
    assert sizes(tmp_path / "journal") == [2048] * 2
    assert (tmp_path / "journalfs.toml").read_text().startswith("journal-file-size = 2048")


def test_in_a_broker_instance(tmp_path: Path) -> None:
    read(
        tmp_path,
        "<journal-file-size>4K</journal-file-size><journal-type>NIO</journal-type>"
        "<journal-directory>data/fast</journal-directory>"
        "<node-manager-lock-directory>locks</node-manager-lock-directory>",
    )
    assert journalfs("create", tmp_path).returncode == 0
    assert sizes(tmp_path / "data" / "fast") == [4096] * 2
    assert sorted(os.listdir(tmp_path / "locks")) == ["server.lock", "serverlock.1"]
    assert (tmp_path / "data" / "largemessages").is_dir()
    assert objects("status", tmp_path, "--json")[0]["messages"] == 0


@pytest.mark.parametrize(
    ("arguments", "code", "reason"),
    [
        (["--set", "journal-fil-size=1M"], 1, "there is no setting 'journal-fil-size'; did you mean"),
        (["--set", "journal-file-size=1"], 1, "journal-file-size: 1 is below 1024"),
        (["--set", "journal-type=NIO", "--journal-type", "MAPPED"], 1, "journal-type: it is given twice"),
        (["--set", "journal-device-block-size=1000"], 6, "1000 is no size of a block"),
        (["--set", "persistence-enabled=false"], 6, "persistence-enabled is false"),
        (["--set", "journal-directory=/proc/nothing"], 2, "/proc/nothing: cannot make the directory"),
    ],
)
def test_refusals_leave_nothing(tmp_path: Path, arguments: list[str], code: int, reason: str) -> None:
    done = journalfs("create", tmp_path / "new" / "store", *arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert reason in done.stderr
    assert os.listdir(tmp_path) == []


def test_what_is_there_stays(tmp_path: Path) -> None:
    (tmp_path / "journal").mkdir()
    (tmp_path / "journal" / "notes").touch()
    done = journalfs("create", tmp_path)
    assert (done.returncode, "the directory is not empty: it holds 'journal'" in done.stderr) == (1, True)
    assert os.listdir(tmp_path / "journal") == ["notes"]


def test_a_store_is_not_made_twice(tmp_path: Path) -> None:
    assert journalfs("create", tmp_path).returncode == 0
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    done = journalfs("create", tmp_path)
    assert (done.returncode, "there is a store already" in done.stderr) == (1, True)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_settings_of_a_brokers_store_are_not_overruled(tmp_path: Path) -> None:
    read(tmp_path, "")
    done = journalfs("create", tmp_path, "--journal-type", "NIO")
    assert done.returncode == 1
    assert "the store belongs to this configuration; change the settings there" in done.stderr
    assert os.listdir(tmp_path) == ["etc"]


def test_settings_are_not_written_twice(tmp_path: Path) -> None:
    (tmp_path / "journalfs.toml").write_text("")
    done = journalfs("create", tmp_path, "--journal-type", "NIO")
    assert (done.returncode, "journalfs.toml: is there already" in done.stderr) == (1, True)
    assert os.listdir(tmp_path) == ["journalfs.toml"]


def test_a_file_is_no_place(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = journalfs("create", tmp_path / "file")
    assert (done.returncode, "file: a store is a directory, and this is none" in done.stderr) == (1, True)


@pytest.mark.parametrize("before", [[], ["journal"], ["journal", "locks"]])
def test_a_full_disk_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: list[str]
) -> None:
    """The second file of the message journal has no room."""
    made: list[int] = []
    create = FilePool.create

    def limited(self: FilePool, file_id: int) -> object:
        made.append(file_id)
        if len(made) == 4:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "activemq-data-2.amq")
        return create(self, file_id)  # type: ignore[arg-type]

    monkeypatch.setattr(FilePool, "create", limited)
    read(tmp_path, "<node-manager-lock-directory>data/locks</node-manager-lock-directory>")
    for name in before:
        (tmp_path / "data" / name).mkdir(parents=True)
        (tmp_path / "data" / name / "mine").touch()
    kept = set(tmp_path.rglob("*"))
    with pytest.raises(SystemFailure, match="No space left on device"):
        create_store(tmp_path, {}, FakeClock(), warn=print)
    left = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path not in kept}
    # The lock of a broker's commands stays for good, wherever one of them once ran.
    assert left == {"lock", "lock/cli.lock"}
    assert lock_holder(tmp_path / "data" / "locks") is None


def test_where_direct_writes_are_refused_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(backend: DiskBackend) -> None:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    warnings: list[str] = []
    monkeypatch.setattr("journalfs.engine.disk._written_block", refuse)
    created = create_store(tmp_path / "store", {}, FakeClock(), warn=warnings.append)
    assert created.kind == "NIO"
    assert "asynchronous I/O is refused (Invalid argument); writing with NIO instead" in warnings[0]
