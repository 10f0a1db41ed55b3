"""Stores that were made and changed through a mount, and brokers of older releases that go on with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from journalfs.clock import SystemClock
from journalfs.config.address_settings import Value
from journalfs.store.creating import create_store
from tests.broker.older import OlderRun
from tests.broker.sent import EVERY, lines
from tests.broker.settings import JournalType
from tests.broker.shell import ShellStore, compact, in_a_shell
from tests.broker.writing import difference

pytestmark = [pytest.mark.long, pytest.mark.mount]

VERSIONS = ("2.6.4", "2.19.1")
FILE_BYTES = 1 << 20
WORD = "sent by an older broker"
TAKEN, MOVED = "way.taken", "way.moved"


def delivered(wanted: dict[str, Any]) -> dict[str, Any]:
    """What a consumer gets: tried once more, and without what the program does not print. A lone surrogate
    does not pass through its output.
    """
    properties = {
        name: {**value, "v": value["v"].replace("\\ud83d", "?")}
        for name, value in wanted["properties"].items()
    }
    left_out = ("userId", "timestamp")
    found = {key: value for key, value in wanted.items() if key not in left_out}
    return {**found, "deliveryCount": wanted["deliveryCount"] + 1, "properties": properties}


def change(store: ShellStore) -> dict[str, list[dict[str, Any]]]:
    """Publish in every framing, acknowledge, move, delete; what each queue has then."""
    sent = {f"way.{make.__name__}": make() for make in EVERY}
    sent[TAKEN] = lines()
    expected = {name: list(one.wanted) if one.content else [] for name, one in sent.items()}
    store.create("way", *sent, MOVED)
    for name, one in sent.items():
        store.publish("way", name, one.file_name, one.content)
    store.publish_in_one_step(("way", TAKEN), {"a.txt": lines().content, "b.txt": lines().content})
    expected[TAKEN] *= 3
    ids = [line["id"] for line in store.lines(("way", TAKEN))]
    store.acknowledge(("way", TAKEN), ids[::3])
    store.move(("way", TAKEN), ids[1::3], ("way", MOVED))
    expected[MOVED] = expected[TAKEN][1::3]
    expected[TAKEN] = expected[TAKEN][2::3]
    store.create("gone", "gone")
    store.publish("gone", None, "in", b"x\n")
    store.delete_with_all("gone")
    return expected


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("journal_type", ["NIO", "ASYNCIO", "MAPPED"])
def test_an_older_broker_goes_on(tmp_path: Path, version: str, journal_type: JournalType) -> None:
    data, mountpoint = tmp_path / "data", tmp_path / "mnt"
    own: dict[str, Value] = {"journal-type": journal_type, "journal-file-size": FILE_BYTES}
    create_store(data, own, SystemClock(), warn=pytest.fail)
    with in_a_shell(data, mountpoint) as store:
        expected = change(store)
    compact(data)
    with in_a_shell(data, mountpoint) as store:
        store.publish("way", TAKEN, "more.txt", lines().content)
        expected[TAKEN] += lines().wanted
    counts = {name: len(messages) for name, messages in expected.items()}
    run = OlderRun(version, data, counts, journal_type=journal_type, file_bytes=FILE_BYTES, word=WORD)
    assert run.complaints() == []
    for name, messages in expected.items():
        assert difference(run.taken[name], [delivered(one) for one in messages]) == [], name
    with in_a_shell(data, mountpoint) as store:
        # The address is a multicast one: each queue got what was sent after it was emptied, and before.
        for name in expected:
            assert {line["body"] for line in store.lines(("way", name))} == {WORD}, name
    print(f"{version} {journal_type}: {sum(counts.values())} messages taken")
