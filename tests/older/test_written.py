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

from journalfs.store import open_store
from tests.mounting import MountedStore, journalfs, mounted_for_writing
from tests.older.truth import envelopes

pytestmark = pytest.mark.mount

StoreCopy = Callable[[str], Path]
HORNETQ = "hq-2.4-main"
ORDERS = Path("jms.queue.orders")


def bodies(store: Path, address: str, queue: str) -> list[object]:
    """As whoever opens the store now finds them."""
    with closing(open_store(store, index=False)) as opened:
        found = opened.address(address)
        assert found is not None
        of_queue = found.queue(queue)
        assert of_queue is not None
        return [one.get("body") for one in envelopes(of_queue)]


@pytest.mark.rule("S-226")
def test_what_has_no_meaning_there_is_refused(store_copy: StoreCopy, tmp_path: Path) -> None:
    store = store_copy(HORNETQ)
    with mounted_for_writing(store, tmp_path / "mnt", "--format", "hornetq") as mount:
        queue = mount.path / ORDERS / ORDERS
        amqp = {"protocol": "AMQP", "body": "x"}
        orders = mount.path / ORDERS
        attempts: dict[str, Callable[[], object]] = {
            "an address": (mount.path / "more").mkdir,
            "a queue": (orders / "more").mkdir,
            "deleting": lambda: shutil.rmtree(orders),
            "settings": lambda: (queue / ".settings").write_text("ring-size = 3\n"),
            "an attribute": lambda: os.setxattr(queue, "user.journalfs.ring-size", b"3"),
            "AMQP": lambda: (orders / "a.jsonl").write_text(json.dumps(amqp) + "\n"),
        }
        refused = {}
        for what, attempt in attempts.items():
            with pytest.raises(OSError) as error:
                attempt()
            refused[what] = errno.errorcode[error.value.errno or 0]
        assert refused == dict.fromkeys(attempts, "EPERM")
        reasons = [one["reason"] for one in mount.events() if one["event"] == "refused"]
        assert any("making the queue jms.queue.orders::more" in one for one in reasons)
        assert all("convert" in one for one in reasons)
        (mount.path / ORDERS / "fine.txt").write_text("fine\n")
    assert bodies(store, str(ORDERS), str(ORDERS))[-1] == "fine"


@pytest.mark.rule("S-225")
def test_one_at_a_time_writes(store_copy: StoreCopy, tmp_path: Path) -> None:
    store = store_copy(HORNETQ)
    with mounted_for_writing(store, tmp_path / "mnt", "--format", "hornetq"):
        (tmp_path / "other").mkdir()
        again = journalfs("mount", "--format", "hornetq", store, tmp_path / "other")
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
def test_nothing_durable_is_missing_after_a_kill(store_copy: StoreCopy, tmp_path: Path) -> None:
    """Lines are published one by one, and of those told to be durable each third is removed again."""
    store, place = store_copy(HORNETQ), tmp_path / "mnt"
    place.mkdir()
    told: list[str] = []
    removed: set[str] = set()
    for life in range(2):
        assert journalfs("mount", "--format", "hornetq", store, place).returncode == 0
        change_until_killed(MountedStore(place), place / ORDERS, life, told, removed)
        subprocess.run(["umount", "--lazy", place], check=True)
        found = bodies(store, str(ORDERS), str(ORDERS))
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
