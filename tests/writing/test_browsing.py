"""A mount with `-o browse`: it publishes, and nothing goes."""

from __future__ import annotations

import errno
import os

import pytest

from tests.mounting import QueueOnDisk
from tests.writing.conftest import Address, Remount, bodies, errno_of
from tests.writing.test_removing import publish


@pytest.mark.rule("S-88")
def test_browsing_publishes_and_takes_nothing_away(remount: Remount) -> None:
    mount = remount("browse")
    address = Address(mount)
    publish(address, "one")
    queue = address.first.path
    message = queue / ".messages" / address.first.listed()[0]
    for path in (message, queue / "_tail.jsonl", queue / ".all.jsonl"):
        assert errno_of(path.unlink) == errno.EPERM
        assert errno_of(path.rename, address.second.path / "x") == errno.EPERM
    assert errno_of(queue.rmdir) == errno.EPERM
    (queue / "_staged").write_text("two\n")
    (queue / "_staged").rename(queue / "in.txt")
    assert bodies(address.first) == ["one", "two"]
    assert "browse" in address.refusals()[-1][1]


@pytest.mark.rule("S-88")
def test_browsing_changes_no_setting_by_which_messages_may_go(remount: Remount) -> None:
    mount = remount()
    address = Address(mount)
    publish(address, "one", "two", "three")
    queue, name = address.first.path.relative_to(mount.path), address.first.listed()[0]
    os.setxattr(address.path, "user.journalfs.max-size-messages", b"100")
    os.setxattr(address.first.path, "user.journalfs.paused", b"true")
    os.setxattr(address.first.path / ".messages" / name, "user.journalfs.deliveryCount", b"1")
    mount = remount("browse")
    address.mount, address.path = mount, mount.path / address.name
    first = QueueOnDisk(mount.path / queue)
    message = first.path / ".messages" / name
    for path, setting, value in (
        (first.path, "ring-size", b"2"),
        (first.path, "last-value-key", b"color"),
        (first.path, "auto-delete", b"true"),
        (address.path, "expiry-delay", b"1"),
        (message, "deliveryCount", b"9"),
    ):
        assert errno_of(os.setxattr, path, f"user.journalfs.{setting}", value) == errno.EPERM
    for path, setting in (
        (first.path, "paused"),
        (address.path, "max-size-messages"),
        (message, "deliveryCount"),
    ):
        assert errno_of(os.removexattr, path, f"user.journalfs.{setting}") == errno.EPERM
    for path in (first.path, address.path):
        assert errno_of((path / ".settings").write_text, "ring-size = 2\n") == errno.EPERM
    assert "no setting changed" in address.refusals()[-1][1]
    publish(address, "four")
    assert bodies(first) == ["one", "two", "three", "four"]


@pytest.mark.rule("S-88")
def test_what_holds_no_messages_of_the_store_is_removed_while_browsing(remount: Remount) -> None:
    mount = remount("browse")
    address = Address(mount)
    publish(address, "one")
    snapshot = mount.path / ".journalfs" / "snapshots" / "now"
    snapshot.mkdir()
    snapshot.rmdir()
    (address.path / "_staged").write_text("two\n")
    (address.path / "_staged").unlink()
    assert bodies(address.first) == ["one"]
