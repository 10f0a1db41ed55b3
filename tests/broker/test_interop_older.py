"""Stores that journalfs made and published to, and brokers of older releases that go on with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from journalfs.clock import SystemClock
from journalfs.config.setting_names import Value
from journalfs.store.creating import create_store
from journalfs.store.write.store import WritingStore
from tests.broker.older import OlderRun
from tests.broker.sent import EVERY, lines
from tests.broker.settings import JournalType
from tests.broker.writing import difference, lines_in, publish, write_in

pytestmark = pytest.mark.long

VERSIONS = ("2.6.4", "2.19.1")
FILE_BYTES = 1 << 20
WORD = "sent by an older broker"


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


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("journal_type", ["NIO", "MAPPED"])
def test_an_older_broker_goes_on(tmp_path: Path, version: str, journal_type: JournalType) -> None:
    data = tmp_path / "data"
    own: dict[str, Value] = {"journal-type": journal_type, "journal-file-size": FILE_BYTES}
    create_store(data, own, SystemClock(), warn=pytest.fail)
    sent = {f"way.{make.__name__}": make() for make in EVERY}
    sent["way.last"] = lines()

    async def work(store: WritingStore) -> None:
        await store.create_address("way")
        for name, one in sent.items():
            await store.create_queue("way", name)
            await publish(store, "way", name, one.file_name, one.content)
        await store.journals.messages.upkeep.compact()
        await publish(store, "way", "way.last", "more.txt", b"after compaction\n")

    write_in(data, work)
    counts = {name: len(one.wanted) for name, one in sent.items()}
    counts["way.last"] += 1
    run = OlderRun(version, data, counts, journal_type=journal_type, file_bytes=FILE_BYTES, word=WORD)
    assert run.complaints() == []
    for name, one in sent.items():
        assert difference(run.taken[name][: len(one.wanted)], [delivered(w) for w in one.wanted]) == [], name

    async def look(store: WritingStore) -> None:
        # The address is a multicast one: each queue got what was sent after it was emptied, and before.
        for name in sent:
            assert {line["body"] for line in lines_in(store, name)} == {WORD}, name
        assert not store.core.damage()

    write_in(data, look)
