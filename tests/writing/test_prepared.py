"""Messages and queues that a prepared transaction has a hand in, in a store that a real broker left so."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.mounting import MountedStore, QueueOnDisk, mounted_for_writing, read_lines
from tests.writing.conftest import errno_of, shell

ROUNDS_MAX = 20
"""So often enough is written for a compaction."""


@pytest.fixture
def mount(store_copy: Callable[[str], Path], tmp_path: Path) -> Iterator[MountedStore]:
    with mounted_for_writing(store_copy("transactions"), tmp_path / "mnt") as mounted:
        yield mounted


def operations(mount: MountedStore, kind: str) -> list[tuple[str, dict[str, Any]]]:
    """What prepared transactions do, each with the name of its transaction."""
    return [
        (folder.name, operation)
        for folder in (mount.path / ".journalfs/transactions").iterdir()
        for line in (folder / "operations.jsonl").read_bytes().splitlines()
        if (operation := json.loads(line))["operation"] == kind
    ]


def refused(mount: MountedStore) -> dict[str, Any]:
    return [event for event in mount.events() if event["event"] == "refused"][-1]


def all_lines(mount: MountedStore) -> list[list[dict[str, Any]]]:
    return [
        read_lines(folder)
        for queue in sorted(mount.path.glob("*/*"))
        for folder in (queue, queue / ".delivering")
    ]


@pytest.mark.rule("S-25", "S-83", "S-84")
def test_what_it_consumed_is_neither_removed_nor_moved_nor_changed(mount: MountedStore) -> None:
    before = all_lines(mount)
    held = operations(mount, "ack")
    assert len({name for name, _ in held}) == 2
    target = mount.path / "DLQ" / "DLQ"
    for name, operation in held:
        queue = mount.path / operation["address"] / operation["queue"]
        if f"{operation['id']}.txt" not in os.listdir(queue / ".delivering/.messages"):
            continue
        message = queue / ".delivering/.messages" / f"{operation['id']}.txt"
        for change in (
            message.unlink,
            lambda message=message: message.rename(target / "x"),
            lambda message=message: os.setxattr(message, "user.journalfs.deliveryCount", b"3"),
        ):
            assert errno_of(change) == errno.EBUSY
            said = refused(mount)
            assert said["what"].endswith(f"/{message.name}: EBUSY")
            assert f"message {operation['id']} is held by the prepared transaction {name}," in said["reason"]
    assert all_lines(mount) == before


@pytest.mark.rule("S-25", "S-83", "S-84", "S-31")
@pytest.mark.parametrize(
    "view", [".delivering", ".delivering/.where/1=1", ".delivering/.where/1=1/.where/n<900"]
)
@pytest.mark.parametrize("file", [".all.jsonl", "_tail.jsonl"])
def test_views_of_it_are_not_removed_either(mount: MountedStore, view: str, file: str) -> None:
    before = all_lines(mount)
    path = mount.path / "tx.orders/tx.orders" / view / file
    (line, *_) = path.read_text().splitlines()
    if file == ".all.jsonl":
        assert errno_of(path.unlink) == errno.EBUSY
    else:
        assert errno_of(path.unlink) == errno.EPERM
        assert "are not removed one by one" in refused(mount)["reason"]
    assert errno_of(path.rename, mount.path / "DLQ/DLQ/x") == errno.EBUSY
    assert f"message {json.loads(line)['id']} is held" in refused(mount)["reason"]
    assert all_lines(mount) == before


@pytest.mark.rule("S-31", "S-25")
def test_a_selection_of_what_it_consumed_holds_nothing_else(mount: MountedStore) -> None:
    queue = mount.path / "tx.orders/tx.orders"
    held = {line["id"] for line in read_lines(queue / ".delivering")}
    assert held
    selected = queue / ".delivering/.where/n IS NOT NULL"
    assert {line["id"] for line in read_lines(selected)} == held == set(QueueOnDisk(selected).listed_ids())
    assert read_lines(queue / ".delivering/.where/n = 0") == []
    # And one of the queue holds none of it.
    for name in QueueOnDisk(selected).listed():
        assert (selected / ".messages" / name).exists()
        assert not (queue / ".where/n IS NOT NULL/.messages" / name).exists()


@pytest.mark.rule("S-25", "S-83")
def test_elsewhere_such_a_message_is_free(mount: MountedStore) -> None:
    one, two = (QueueOnDisk(mount.path / "tx.fan" / name) for name in ("tx.fan.one", "tx.fan.two"))
    (held,) = os.listdir(one.path / ".delivering/.messages")
    (two.path / ".messages" / held).unlink()
    assert held not in two.listed()
    assert os.listdir(one.path / ".delivering/.messages") == [held]


@pytest.mark.rule("S-25", "S-26", "S-85")
def test_queues_it_is_concerned_with_stay(mount: MountedStore) -> None:
    concerned = {
        (op["address"], op["queue"]) for kind in ("ack", "send") for _, op in operations(mount, kind)
    }
    acknowledged = {(op["address"], op["queue"]) for _, op in operations(mount, "ack")}
    assert acknowledged < concerned
    for address, queue in sorted(concerned):
        shell(f"rm -r {address}/{queue}", mount.path, succeeds=False)
        said = refused(mount)
        assert said["what"] == f"{address}/{queue}: EBUSY"
        assert "is held by the prepared transaction" in said["reason"]
        assert read_lines(mount.path / address / queue) == []
    assert errno_of((mount.path / address).rmdir) == errno.ENOTEMPTY
    shell("rm -r tx.paged", mount.path)
    assert not (mount.path / "tx.paged").exists()


@pytest.mark.rule("S-26", "S-45", "S-91")
def test_compaction_changes_nothing_of_what_is_shown_of_it(mount: MountedStore) -> None:
    """Files of the mount that are known already show what has moved since where it lies now."""
    folders = sorted((mount.path / ".journalfs/transactions").iterdir())
    files = [folder / name for folder in folders for name in ("status.json", "operations.jsonl")]
    before = [file.read_bytes() for file in files]
    assert operations(mount, "send")
    for _ in range(ROUNDS_MAX):
        (mount.path / "tx.done/filling.txt").write_text(f"{'x' * 900}\n" * 2500)
        (mount.path / "tx.done/tx.done/.all.jsonl").unlink()
        if mount.control("status.json")["compactions"]:
            break
    assert mount.control("status.json")["compactions"]
    assert [file.read_bytes() for file in files] == before
