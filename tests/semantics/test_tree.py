"""Rules of the tree: what is listed, what is reached by name, how names are written."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.mounting import MountedStore, parts_and_tail
from tests.semantics.conftest import Account

STATES = [".scheduled", ".delivering", ".failed", ".expired"]
HIDDEN_IN_A_QUEUE = [".all.jsonl", ".messages", ".where", *STATES, ".status", ".settings"]


def plain(encoded: str) -> str:
    return unquote(encoded)


@pytest.mark.rule("S-1")
def test_the_root_lists_addresses_only(orders: MountedStore, account: Callable[[str], Account]) -> None:
    listed = os.listdir(orders.path)
    short = [name for name in account("orders-basic").addresses if len(name) <= 255]
    assert sorted(plain(name) for name in listed if "~" not in name) == sorted(short)
    assert len(listed) == len(account("orders-basic").addresses)
    assert all((orders.path / name).is_dir() for name in listed)
    assert (orders.path / ".journalfs").is_dir()


@pytest.mark.rule("S-2")
def test_an_address_lists_its_queues_only(orders: MountedStore, account: Callable[[str], Account]) -> None:
    queues = account("orders-basic").queues
    for address in ("prices", "mixed.routing", "news", "shared.out", "claims.DLA"):
        bound = {queue["name"] for queue in queues if queue["address"] == address}
        assert {plain(name) for name in os.listdir(orders.path / address)} == bound


@pytest.mark.rule("S-3")
def test_a_queue_lists_parts_and_tail_only(orders: MountedStore, account: Callable[[str], Account]) -> None:
    for name in ("orders", "typed", "empty", "reminders"):
        queue = orders.queue(name)
        parts, tails = parts_and_tail(queue.path)
        assert bool(parts) != bool(tails)
        assert (queue.path / "_tail.jsonl").exists()
        ids = [line["id"] for line in queue.lines()]
        assert sorted(ids) == sorted(account("orders-basic").ids(name))


@pytest.mark.rule("S-4")
def test_dotted_names_are_there_but_not_listed(orders: MountedStore) -> None:
    queue = orders.queue("orders").path
    for name in HIDDEN_IN_A_QUEUE:
        assert name not in os.listdir(queue)
        assert (queue / name).exists()
    assert ".journalfs" not in os.listdir(orders.path)
    assert not [name for name in os.listdir(orders.path / "orders") if name.startswith(".")]


@pytest.mark.rule("S-4")
def test_tools_that_walk_meet_every_message_once(
    orders: MountedStore, account: Callable[[str], Account], tmp_path: Path
) -> None:
    live = account("orders-basic").content["liveMessages"]
    found = subprocess.run(
        ["grep", "-r", "-c", "", "."], cwd=orders.path, capture_output=True, text=True, check=True, timeout=60
    )
    assert sum(int(line.rpartition(":")[2]) for line in found.stdout.splitlines()) == live
    shutil.copytree(orders.path, tmp_path / "copy")
    copied = sum(path.read_bytes().count(b"\n") for path in (tmp_path / "copy").rglob("*") if path.is_file())
    assert copied == live
    walked = subprocess.run(
        ["find", ".", "-type", "f", "-exec", "cat", "{}", "+"],
        cwd=orders.path,
        capture_output=True,
        check=True,
        timeout=60,
    )
    assert walked.stdout.count(b"\n") == live


@pytest.mark.rule("S-5")
@pytest.mark.parametrize(
    ("name", "encoded"),
    [
        ("a/b", "a%2Fb"),
        ("percent%2Fname", "percent%252Fname"),
        (".hidden", "%2Ehidden"),
        ("q:with:colons", "q%3Awith%3Acolons"),
        ("with space", "with space"),
        ("ключ.名前", "ключ.名前"),
        ("UPPER.lower", "UPPER.lower"),
        ("$sys.mqtt.sessions", "$sys.mqtt.sessions"),
    ],
)
def test_names_are_encoded(orders: MountedStore, name: str, encoded: str) -> None:
    assert encoded in os.listdir(orders.path)
    assert os.listdir(orders.path / encoded) == [encoded]
    for line in orders.queue(encoded).lines():
        assert line["queue"] == name


@pytest.mark.rule("S-5")
def test_a_long_name_is_cut_and_still_leads_to_its_queue(orders: MountedStore) -> None:
    (short,) = [name for name in os.listdir(orders.path) if name.startswith("long-")]
    assert len(os.fsencode(short)) <= 255
    head, _, digits = short.rpartition("~")
    assert len(digits) == 16
    (line,) = orders.queue(short).lines()
    assert line["queue"].startswith(head)
    assert len(line["queue"]) > 255


@pytest.mark.rule("S-5")
@pytest.mark.parametrize(
    "other", ["a%2fb", ".hidden", "%6Frders", "orders%", "upper.LOWER", "orders~0123456789abcdef"]
)
def test_other_spellings_are_no_names(orders: MountedStore, other: str) -> None:
    with pytest.raises(FileNotFoundError):
        os.stat(orders.path / other)


@pytest.mark.rule("S-6")
def test_names_that_are_too_long(orders: MountedStore) -> None:
    queue = orders.queue("orders").path
    for folder in (orders.path, orders.path / "orders", queue, queue / ".messages"):
        with pytest.raises(OSError, match="too long") as refused:
            os.stat(folder / ("x" * 256))
        assert refused.value.errno == errno.ENAMETOOLONG
    long_selector = " OR ".join(f"n = {n}" for n in range(60))
    assert len(long_selector) > 255
    assert (queue / ".where" / long_selector).is_dir()
