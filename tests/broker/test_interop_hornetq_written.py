"""Stores of HornetQ, mounted for writing: a real one starts on the result and delivers what the mount showed,
and the next mount shows what it did.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.broker.hornetq import HornetqRun
from tests.mounting import MountedStore, mounted, mounted_for_writing

pytestmark = [pytest.mark.timeout(300), pytest.mark.mount]

StoreCopy = Callable[[str], Path]
FILE_BYTES = 102_400
"""Of the journal of the stores here."""


def held(store: MountedStore) -> dict[str, list[dict[str, Any]]]:
    """What is due in each queue, in the order of delivery."""
    found = {}
    for path in store.path.glob("[!.]*/[!.]*"):
        lines = [json.loads(line) for line in (path / ".all.jsonl").read_bytes().splitlines()]
        due = [line for line in lines if "scheduledTime" not in line]
        found[path.name] = sorted(due, key=lambda one: -one["priority"])
    return found


def shown(one: dict[str, Any]) -> tuple[Any, ...]:
    body = (one["body"] or "").encode("utf-16-le") if one["type"] == "text" else b""
    text = hashlib.sha256(b"\1" + len(body).to_bytes(4, "big") + body).hexdigest() if body else None
    return one["priority"], one["durable"], one.get("deliveryCount", 0) + 1, text


def taken(one: dict[str, Any], text: str | None) -> tuple[Any, ...]:
    return one["priority"], one["durable"], one["deliveryCount"], one["sha256"] if text else None


def delivered_as_shown(run: HornetqRun, wanted: dict[str, list[dict[str, Any]]]) -> None:
    for queue, messages in wanted.items():
        expected = [shown(one) for one in messages]
        assert [taken(one, e[3]) for one, e in zip(run.taken[queue], expected, strict=True)] == expected, (
            queue
        )


def change(store: Path) -> None:
    """With a shell's tools, as people do."""
    orders = store / "jms.queue.orders"
    queue = orders / "jms.queue.orders"
    (orders / "lines.txt").write_text("".join(f"line {n}\n" for n in range(40)))
    envelope = {
        "type": "text",
        "body": "with everything \u20ac",
        "priority": 9,
        "groupId": "g",
        "properties": {"color": "red", "n": 7, "JMSReplyTo": "queue://back"},
        "propertyTypes": {"n": "long"},
    }
    (orders / "one.jsonl").write_text(json.dumps(envelope) + "\n")
    (store / "ship.addr" / "ship.all" / "big.txt").write_text("long line " * 30_000 + "\n")
    (store / "large.addr" / "body.bin").write_bytes(bytes(range(256)) * 2_000)
    (store / "paged.addr" / "more.txt").write_text("paged 1\npaged 2\npaged 3\n")
    for folder, count in (
        (queue, 3),
        (store / "paged.addr" / "paged.one", 2),
        (store / "large.addr/large.q", 1),
    ):
        for name in os.listdir(folder / ".messages")[:count]:
            (folder / ".messages" / name).unlink()
    (name, *_) = os.listdir(queue / ".messages")
    os.rename(queue / ".messages" / name, store / "types.addr" / "types.q" / ".messages" / name)
    subprocess.run(["head", "-n", "2", queue / ".take"], check=True, capture_output=True, timeout=60)


@pytest.mark.rule("S-225")
@pytest.mark.parametrize("name", ["hq-2.4-main", pytest.param("hq-2.2-core", marks=pytest.mark.long)])
def test_hornetq_delivers_what_the_mount_showed(name: str, store_copy: StoreCopy, tmp_path: Path) -> None:
    store = store_copy(name)
    os.rename(store / "large-messages", store / "largemessages")
    with mounted_for_writing(store, tmp_path / "mnt", "--format", "hornetq") as mount:
        if name == "hq-2.4-main":
            change(mount.path)
        else:
            for address in mount.path.glob("[!.]*"):
                (address / "more.txt").write_text("more\n")
        wanted = held(mount)
    with mounted(store, tmp_path / "mnt") as mount:
        assert {q: len(m) for q, m in held(mount).items()} == {q: len(m) for q, m in wanted.items()}
    run = HornetqRun(
        store,
        {queue: len(one) for queue, one in wanted.items()},
        file_bytes=FILE_BYTES,
        sends={"ship.all": 5} if "ship.all" in wanted else None,
    )
    delivered_as_shown(run, wanted)
    # Pages of the store hold messages of transactions that were rolled back long ago.
    assert [line for line in run.complaints() if "HQ222029" not in line] == []
    with mounted_for_writing(store, tmp_path / "mnt", "--format", "hornetq") as mount:
        found = held(mount)
        if "ship.all" in wanted:
            assert [one["body"] for one in found["ship.all"]] == [f"sent {n}" for n in range(5)]
        (next(mount.path.glob("[!.]*")) / "again.txt").write_text("again\n")
