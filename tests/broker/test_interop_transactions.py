"""A broker that starts on a store in which a mount committed, prepared and decided transactions."""

from __future__ import annotations

import base64
import os
from pathlib import Path

import pytest

from journalfs.format.xid import Xid
from tests.broker.client import CoreClient
from tests.broker.test_interop import new_instance
from tests.broker.writing import complaints
from tests.mounting import MountedStore, mounted_for_writing

pytestmark = [pytest.mark.mount, pytest.mark.long]

LARGE = "large " * 40_000


def xid(name: str) -> str:
    """As `listPreparedTransactions` of a broker has it: a branch, a name, a format id of 7."""
    return base64.b64encode(f"branch{name}".encode() + bytes((7, 0, 0, 0))).decode()


def filled(mount: MountedStore, name: str) -> Path:
    """A transaction that sends a short and a large message, moves one and acknowledges one."""
    transaction = mount.path / ".journalfs/transactions" / name
    transaction.mkdir()
    (transaction / "b/r/in.txt").write_text(f"{name}\n{LARGE}\n")
    for number, target in ((0, transaction / "b/r"), (0, transaction)):
        message = mount.queue("a", "q").listed()[number]
        (mount.path / "a/q/.messages" / message).rename(target / message)
    return transaction


def texts(client: CoreClient, queue: str) -> list[str | None]:
    return [one.get("body") for one in client.browse(queue)]


@pytest.mark.rule("S-259", "S-263")
@pytest.mark.parametrize("paged", [False, True])
def test_a_broker_takes_what_was_committed_and_decides_what_was_prepared(
    artemis_home: Path, tmp_path: Path, *, paged: bool
) -> None:
    broker, mountpoint = new_instance(tmp_path / "broker", "NIO"), tmp_path / "mnt"
    with mounted_for_writing(broker.root, mountpoint) as mount:
        (mount.path / "a/q").mkdir(parents=True)
        (mount.path / "b/r").mkdir(parents=True)
        for address in ("a", "b") if paged else ():
            os.setxattr(mount.path / address, "user.journalfs.max-size-messages", b"1")
        (mount.path / "a/q/in.txt").write_text("".join(f"{n}\n" for n in range(10)))
        for name, end in (("x", "committed/x"), ("y", f"prepared/{xid('y')}"), ("z", f"prepared/{xid('z')}")):
            transaction = filled(mount, name)
            transaction.rename(transaction.parent / end)
        draft = filled(mount, "stays")

    with broker, CoreClient(broker.port) as client:
        assert complaints(broker.log) == []
        assert len(client.operation("broker", "listPreparedTransactions")) == 2
        assert texts(client, "q") == ["6", "7", "8", "9"], "a broker knows nothing of a draft"
        assert texts(client, "r") == ["x", None, "0"]
        assert client.operation("broker", "commitPreparedTransaction", xid("y")) is True
        assert client.operation("broker", "rollbackPreparedTransaction", xid("z")) is True
        assert sorted(map(str, texts(client, "r"))) == ["0", "2", "None", "None", "x", "y"]
        assert sorted(map(str, texts(client, "q"))) == ["4", "5", "6", "7", "8", "9"]
        client.consume("q", 1)
        broker.stop()
        assert complaints(broker.log) == []

    with mounted_for_writing(broker.root, mountpoint) as mount:
        assert os.listdir(draft.parent / "committed") == [xid("y")]
        assert os.listdir(draft.parent / "rolled-back") == [xid("z")]
        assert len(mount.queue("b", "r").lines()) == 6
        draft.rmdir()
        assert len(mount.queue("a", "q").lines()) == 5


@pytest.mark.rule("S-264")
def test_a_broker_agrees_to_what_was_decided_by_hand(artemis_home: Path, tmp_path: Path) -> None:
    broker, mountpoint = new_instance(tmp_path / "broker", "NIO"), tmp_path / "mnt"
    with broker, CoreClient(broker.port) as client:
        client.create_queue("q")
        client.send_many("q", 4, length=10)
        for name in ("y", "z"):
            client.do("xa-begin", session=name, xid=name)
            client.do("send", address="q", session=name, count=2, length=10)
            client.consume("q", 1, session=name)
            client.do("xa-prepare", session=name, xid=name)
        broker.stop()

    with mounted_for_writing(broker.root, mountpoint) as mount:
        root = mount.path / ".journalfs/transactions"
        assert sorted(os.listdir(root)) == sorted([xid("y"), xid("z")])
        (root / xid("y")).rename(root / "committed" / xid("y"))
        (root / "prepared" / xid("z")).rename(root / "rolled-back" / xid("z"))
        assert len(mount.queue("q", "q").lines()) == 4 - 1 + 2

    with broker, CoreClient(broker.port) as client:
        assert complaints(broker.log) == []
        assert client.operation("broker", "listPreparedTransactions") == []
        assert client.operation("broker", "listHeuristicCommittedTransactions") == [xid("y")]
        assert client.operation("broker", "listHeuristicRolledBackTransactions") == [xid("z")]
        assert client.message_count("q") == 5
        broker.stop()

    with mounted_for_writing(broker.root, mountpoint) as mount:
        (mount.path / ".journalfs/transactions/committed" / xid("y")).rmdir()
    with broker, CoreClient(broker.port) as client:
        assert client.operation("broker", "listHeuristicCommittedTransactions") == []
        broker.stop()


@pytest.mark.rule("S-263")
def test_a_client_recovers_the_xids_that_were_named(artemis_home: Path, tmp_path: Path) -> None:
    """Two that a broker prints alike, and one with the longest ids: each is decided by its own."""
    broker, mountpoint = new_instance(tmp_path / "broker", "NIO"), tmp_path / "mnt"
    named = [Xid(7, b"branch-", b"global"), Xid(7, b"branch-g", b"lobal"), Xid(1 << 30, b"b" * 64, b"g" * 64)]
    with mounted_for_writing(broker.root, mountpoint) as mount:
        (mount.path / "b/r").mkdir(parents=True)
        for number, one in enumerate(named):
            transaction = mount.path / ".journalfs/transactions/t"
            transaction.mkdir()
            (transaction / "b/r/in.txt").write_text(f"{number}\n")
            transaction.rename(transaction.parent / "prepared" / one.whole())
        shown = {*os.listdir(transaction.parent / "prepared")}
        assert shown == {named[0].whole(), named[1].whole(), named[2].base64().replace("/", "%2F")}

    with broker, CoreClient(broker.port) as client:
        assert complaints(broker.log) == []
        assert {*client.do("xa-recover", session="s")["whole"]} == {one.whole() for one in named}
        client.do("xa-commit", session="s", xid="global", branch="branch-")
        client.do("xa-rollback", session="s", xid="g" * 64, branch="b" * 64, format_id=1 << 30)
        assert texts(client, "r") == ["0"]
        broker.stop()

    with mounted_for_writing(broker.root, mountpoint) as mount:
        root = mount.path / ".journalfs/transactions"
        assert os.listdir(root) == [named[1].base64()]
        (root / named[1].whole()).rename(root / "committed" / named[1].whole())
        assert mount.queue("b", "r").listed()
    with broker, CoreClient(broker.port) as client:
        assert client.operation("broker", "listHeuristicCommittedTransactions") == [named[1].base64()]
        assert texts(client, "r") == ["0", "1"]
        broker.stop()
