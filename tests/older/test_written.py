"""Stores of older brokers, mounted for writing: what is kept in their format, refused, and survives kills."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from journalfs.records.older.amq_data import frame
from journalfs.records.older.amq_log import records_end
from journalfs.store import open_store
from tests.mounting import MountedStore, journalfs, mounted, mounted_for_writing
from tests.older.truth import envelopes

pytestmark = pytest.mark.mount

StoreCopy = Callable[[str], Path]
HORNETQ, AMQ = "hq-2.4-main", "amq-5.8-killed"
KINDS = {HORNETQ: "hornetq", AMQ: "amq"}
ORDERS = Path("jms.queue.orders")
QUEUES = {HORNETQ: ORDERS, AMQ: Path("WORK")}
BOTH = pytest.mark.parametrize("name", KINDS)


def copied(name: str, store_copy: StoreCopy) -> Path:
    """A store that may be changed; that of ActiveMQ 5 is in a folder named after its broker."""
    store = store_copy(name)
    return store / "localhost" if name == AMQ else store


def bodies(store: Path, address: str, queue: str) -> list[object]:
    """As whoever opens the store now finds them."""
    with closing(open_store(store, index=False)) as opened:
        found = opened.address(address)
        assert found is not None
        of_queue = found.queue(queue)
        assert of_queue is not None
        return [one.get("body") for one in envelopes(of_queue)]


@pytest.mark.rule("S-226")
@BOTH
def test_what_has_no_meaning_there_is_refused(name: str, store_copy: StoreCopy, tmp_path: Path) -> None:
    store, address = copied(name, store_copy), QUEUES[name]
    with mounted_for_writing(store, tmp_path / "mnt", "--format", KINDS[name]) as mount:
        orders = mount.path / address
        queue = orders / address
        amqp = {"protocol": "AMQP", "body": "x"}
        later = {"body": "x", "scheduledTime": 4_000_000_000_000}
        attempts: dict[str, Callable[[], object]] = {
            "an address": (mount.path / "more").mkdir,
            "a queue": (orders / "more").mkdir,
            "settings": lambda: (queue / ".settings").write_text("ring-size = 3\n"),
            "an attribute": lambda: os.setxattr(queue, "user.journalfs.ring-size", b"3"),
            "AMQP": lambda: (orders / "a.jsonl").write_text(json.dumps(amqp) + "\n"),
        }
        if name == AMQ:
            attempts["a schedule"] = lambda: (orders / "b.jsonl").write_text(json.dumps(later) + "\n")
        refused = {}
        for what, attempt in attempts.items():
            with pytest.raises(OSError) as error:
                attempt()
            refused[what] = errno.errorcode[error.value.errno or 0]
        assert refused == dict.fromkeys(attempts, "EPERM")
        reasons = [one["reason"] for one in mount.events() if one["event"] == "refused"]
        assert any(f"making the queue {address}::more" in one for one in reasons)
        assert all("convert" in one for one in reasons)
        (orders / "fine.txt").write_text("fine\n")
        with pytest.raises(OSError):
            shutil.rmtree(orders)
        assert queue.is_dir()
        (orders / "last.txt").write_text("last\n")
    assert bodies(store, str(address), str(address)) == ["last"]


@pytest.mark.rule("S-225")
@BOTH
def test_one_at_a_time_writes(name: str, store_copy: StoreCopy, tmp_path: Path) -> None:
    store = copied(name, store_copy)
    (tmp_path / "other").mkdir()
    with mounted_for_writing(store, tmp_path / "mnt", "--format", KINDS[name]):
        again = journalfs("mount", "--format", KINDS[name], store, tmp_path / "other")
        assert again.returncode == 7, again.stderr
        assert "in use by process" in again.stderr


@pytest.mark.rule("S-225")
@pytest.mark.parametrize("kind", ["artemis-1", "kahadb"])
def test_other_kinds_stay_read_only(kind: str, store_copy: StoreCopy, tmp_path: Path) -> None:
    store = store_copy({"artemis-1": "art-1.5-main", "kahadb": "kaha-5.8.0-clean"}[kind])
    with mounted_for_writing(store, tmp_path / "mnt", "--format", kind) as mount:
        assert mount.control("status.json")["readOnly"] is True


KILLED_AFTER = 40
"""Changes that were told to be durable."""


@pytest.mark.rule("S-227")
@BOTH
def test_nothing_durable_is_missing_after_a_kill(name: str, store_copy: StoreCopy, tmp_path: Path) -> None:
    """Lines are published one by one, and of those told to be durable each third is removed again."""
    store, place, address = copied(name, store_copy), tmp_path / "mnt", QUEUES[name]
    place.mkdir()
    told: list[str] = []
    removed: set[str] = set()
    for life in range(2):
        assert journalfs("mount", "--format", KINDS[name], store, place).returncode == 0
        change_until_killed(MountedStore(place), place / address, life, told, removed)
        subprocess.run(["umount", "--lazy", place], check=True)
        found = bodies(store, str(address), str(address))
        assert [one for one in told if one not in found and one not in removed] == []
        assert [one for one in removed if one in found] == []
        lines = [one for one in found if str(one).startswith("life")]
        assert len(lines) == len(set(map(str, lines)))


def change_until_killed(
    mount: MountedStore, address: Path, life: int, told: list[str], removed: set[str]
) -> None:
    process = mount.process_id()
    messages = address / address.name / ".messages"
    killer: threading.Thread | None = None
    for number in range(10_000):
        text = f"life {life} line {number}"
        before = set(os.listdir(messages)) if number % 3 == 0 else set()
        try:
            (address / "in.txt").write_text(f"{text}\n")
            told.append(text)
            if number % 3 == 0:
                (new,) = set(os.listdir(messages)) - before
                told.remove(text)  # until it is told that it is gone it may be either
                (messages / new).unlink()
                removed.add(text)
        except OSError:
            break
        if number == KILLED_AFTER:
            killer = threading.Thread(target=os.kill, args=(process, signal.SIGKILL))
            killer.start()
    assert killer is not None
    killer.join()


CONFIGURATION = """<beans xmlns="http://www.springframework.org/schema/beans">
<broker xmlns="http://activemq.apache.org/schema/core"><persistenceAdapter>
<amqPersistenceAdapter directory="${activemq.base}/data" maxFileLength="20kb" cleanupInterval="0"
 archiveDataLogs="true" directoryArchive="${activemq.data}/gone" syncOnWrite="false"/>
</persistenceAdapter></broker></beans>"""


@pytest.mark.rule("S-229")
def test_data_logs_are_as_long_as_configured_and_go_when_nothing_in_them_is_needed(tmp_path: Path) -> None:
    """Subscriptions outlive the data logs that they are in."""
    home = tmp_path / "activemq"
    store, conf = home / "data" / "localhost", home / "conf"
    for folder in (store.parent, conf):
        folder.mkdir(parents=True)
    conf.joinpath("activemq.xml").write_text(CONFIGURATION)
    make_amq(tmp_path, store)
    with mounted_for_writing(store, tmp_path / "mnt", "--format", "amq") as mount:
        for queue in mount.path.glob("[!.]*/[!.]*"):
            for name in os.listdir(queue / ".messages"):
                (queue / ".messages" / name).unlink()
        work = mount.path / "WORK"
        for number in range(5):
            (work / "in.txt").write_text(f"{number} {'x' * 8_000}\n")
        for name in os.listdir(work / "WORK" / ".messages")[:3]:  # two of them are in the first log
            (work / "WORK" / ".messages" / name).unlink()
    sizes = {path.name: path.stat().st_size for path in (store / "journal").glob("data-[0-9]*")}
    assert max(sizes.values()) <= 20 << 10
    assert len(sizes) >= 2
    assert sizes["data-1"] < 200, "only the subscription is left in it"
    assert (home / "data" / "gone" / "data-1").is_file()
    with mounted(store, tmp_path / "mnt") as mount:
        assert [line["body"][0] for line in mount.queue("WORK").lines()] == ["3", "4"]
        assert mount.queue("FEED", "watcher.w1").lines() == []


def make_amq(folder: Path, store: Path) -> None:
    """A queue and a subscription, with a message each, carried into an AMQ Message Store."""
    assert journalfs("create", folder / "new").returncode == 0
    with mounted_for_writing(folder / "new", folder / "mnt") as mount:
        for queue in ("WORK/WORK", "FEED/watcher.w1"):
            (mount.path / queue).mkdir(parents=True)
            (mount.path / queue / "one.txt").write_text("one\n")
    done = journalfs("convert", folder / "new", store, "--to", "amq")
    assert done.returncode == 0, done.stderr


@pytest.mark.rule("S-227")
def test_what_a_killed_writer_left_of_a_record_is_written_over(store_copy: StoreCopy, tmp_path: Path) -> None:
    store = copied(AMQ, store_copy)
    log = store / "journal" / "data-1"
    end = records_end(log.read_bytes())
    with log.open("r+b") as file:
        file.seek(end)
        file.write(frame(b"torn")[:-2])
    with mounted_for_writing(store, tmp_path / "mnt", "--format", "amq") as mount:
        (mount.path / "WORK" / "more.txt").write_text("more\n")
    content = log.read_bytes()
    assert records_end(content) == len(content)
    assert bodies(store, "WORK", "WORK")[-1] == "more"
