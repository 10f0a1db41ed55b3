"""`journalfs ls` and `journalfs status` against the broker's own account of its stores."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from journalfs.errors import EXIT_NOT_A_STORE, EXIT_WRONG_CALL
from tests.cli.running import journalfs, objects
from tests.frozen import FILE_STORES, ExpectedStores, PristineStores
from tests.mounting import JOURNALFS


def rows(*arguments: str | Path) -> list[dict[str, Any]]:
    return objects(*arguments, "--json", "--no-index")


@pytest.mark.parametrize("name", FILE_STORES)
def test_ls_lists_the_queues_of_the_broker(
    stores: PristineStores, expected: ExpectedStores, name: str
) -> None:
    listed = {(row["address"], row["queue"]): row for row in rows("ls", stores[name]) if "queue" in row}
    wanted = {(queue["address"], queue["name"]): queue for queue in expected[name]["queues"]}
    assert listed.keys() == wanted.keys()
    for key, queue in wanted.items():
        row = listed[key]
        assert row["routingType"] == queue["routingType"], key
        assert row["filter"] == queue["filter"], key
        assert row["messageCount"] == queue["messageCount"], key
        assert row["messages"] == len(queue["messages"]), key
        assert row["scheduledCount"] == queue.get("scheduledCount", 0), key
        assert row["deliveringCount"] == queue.get("deliveringCount", 0), key


def test_ls_lists_addresses_without_queues(stores: PristineStores, expected: ExpectedStores) -> None:
    empty = {one["name"] for one in expected["orders-basic"]["addresses"] if not one["queues"]}
    assert empty
    assert {row["address"] for row in rows("ls", stores["orders-basic"]) if "queue" not in row} == empty


@pytest.mark.parametrize(
    "name", ["orders-basic", "large-and-paged", "amqp-mqtt-stomp-openwire", "transactions"]
)
def test_ls_of_a_queue_is_in_delivery_order(
    stores: PristineStores, expected: ExpectedStores, name: str
) -> None:
    queues = [queue for queue in expected[name]["queues"] if len(queue["messages"]) > 1]
    for queue in sorted(queues, key=lambda queue: -len(queue["messages"]))[:5]:
        listed = rows("ls", stores[name], f"{queue['address']}::{queue['name']}")
        assert [row["id"] for row in listed] == [message["id"] for message in queue["messages"]]
        for row, message in zip(listed, queue["messages"], strict=True):
            assert row["timestamp"] == message["timestamp"]
            assert row["name"].startswith(f"{row['id']}.")


def test_ls_in_a_pipe_has_tabs_and_no_heading(stores: PristineStores, expected: ExpectedStores) -> None:
    done = journalfs("ls", stores["aio"], "--no-index")
    cells = [line.split("\t") for line in done.stdout.splitlines()]
    wanted = {(q["address"], q["name"], q["routingType"]) for q in expected["aio"]["queues"]}
    assert {tuple(row[:3]) for row in cells if row[1] != "-"} == wanted
    assert {len(row) for row in cells} == {8}


def test_ls_on_a_terminal_has_aligned_columns(stores: PristineStores) -> None:
    leader, follower = pty.openpty()
    with subprocess.Popen([JOURNALFS, "ls", stores["aio"], "--no-index"], stdout=follower) as process:
        os.close(follower)
        shown = b""
        while chunk := _read(leader):
            shown += chunk
        assert process.wait() == 0
    os.close(leader)
    lines = shown.decode().replace("\r", "").splitlines()
    assert re.split(r"\s{2,}", lines[0])[:3] == ["ADDRESS", "QUEUE", "TYPE"]
    start = lines[0].index("TYPE")
    assert {line[start - 1] for line in lines} == {" "}
    assert {line[start : start + 7] for line in lines[1:]} <= {
        "ANYCAST",
        "MULTICA",
        "MULTICAST,ANYCAST"[:7],
        "-",
    }


def _read(leader: int) -> bytes:
    try:
        return os.read(leader, 65536)
    except OSError:
        return b""  # the other end of a pseudo terminal is closed: Linux says so with EIO


def test_names_cannot_break_their_line(stores: PristineStores, expected: ExpectedStores) -> None:
    done = journalfs("ls", stores["orders-basic"], "--no-index")
    lines = done.stdout.split("\n")[:-1]
    empty = sum(1 for one in expected["orders-basic"]["addresses"] if not one["queues"])
    assert len(lines) == len(expected["orders-basic"]["queues"]) + empty


def test_status_of_store_address_and_queue(stores: PristineStores, expected: ExpectedStores) -> None:
    account = expected["orders-basic"]
    (store,) = rows("status", stores["orders-basic"])
    assert store["queues"] == len(account["queues"])
    assert store["damage"] == 0
    queue = max(account["queues"], key=lambda queue: len(queue["messages"]))
    (address,) = rows("status", stores["orders-basic"], queue["address"])
    assert address["queues"][queue["name"]] == len(queue["messages"])
    (status,) = rows("status", stores["orders-basic"], f"{queue['address']}::{queue['name']}")
    assert (status["id"], status["messageCount"]) == (queue["id"], queue["messageCount"])
    plain = journalfs("status", stores["orders-basic"], "--no-index").stdout
    assert f"queues\t{len(account['queues'])}\n" in plain


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["ls", "{store}", "nowhere"], EXIT_WRONG_CALL, "no address 'nowhere' in this store"),
        (["cat", "{store}", "nowhere::q"], EXIT_WRONG_CALL, "no address 'nowhere' in this store"),
        (
            ["status", "{store}", "typed::q"],
            EXIT_WRONG_CALL,
            "address 'typed' has no queue 'q' (queues: typed)",
        ),
        (["ls", "{store}", "prices.eu"], EXIT_WRONG_CALL, "did you mean prices::prices.eu?"),
        (["ls", "{store}", "orders/orders"], EXIT_WRONG_CALL, "did you mean orders::orders?"),
        (["ls", "{store}", "oders"], EXIT_WRONG_CALL, "did you mean orders?"),
        (["status", "{store}", "orders::order"], EXIT_WRONG_CALL, "did you mean orders::orders?"),
        (["ls", "{store}", "--where", "a = 1"], EXIT_WRONG_CALL, "--where needs ADDRESS::QUEUE"),
        (["cat", "{store}", "typed::typed", "--where", "a = "], EXIT_WRONG_CALL, "at character 5"),
        (["ls", "/nowhere"], EXIT_NOT_A_STORE, "/nowhere"),
        (["ls"], EXIT_WRONG_CALL, "STORE"),
        (["ls", "{store}", "--colour"], EXIT_WRONG_CALL, "--colour"),
    ],
)
def test_wrong_calls_say_what_is_wrong(
    stores: PristineStores, arguments: list[str], code: int, said: str
) -> None:
    store = str(stores["orders-basic"])
    done = journalfs(*[argument.format(store=store) for argument in arguments])
    assert done.returncode == code
    assert said in done.stderr
    assert not done.stdout
    assert "Traceback" not in done.stderr


HEAVY = {"lark", "rich", "trio", "pyfuse3", "sqlalchemy", "pyarrow", "asyncio", "journalfs_mount"}
HEAVY |= {"http", "email", "ssl", "xml.sax", "tempfile", "subprocess"}
LIST_AND_TELL = """
import atexit, sys
from journalfs.cli.main import main
atexit.register(lambda: print(*sys.modules))
main()
"""


def test_listing_loads_only_what_it_needs(stores: PristineStores) -> None:
    """Start-up time is part of a shell tool: what takes long to load waits for the command that uses it."""
    command = [sys.executable, "-c", LIST_AND_TELL, "ls", str(stores["aio"]), "--no-index"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    modules = set(done.stdout.splitlines()[-1].split())
    loaded = modules | {name.partition(".")[0] for name in modules}
    assert "lxml" in loaded, "the configuration was read"
    assert "journalfs" in loaded
    assert not loaded & HEAVY
