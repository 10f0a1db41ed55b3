"""Messages that state a routing type that no queue of the address has: told, and nothing is published."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from journalfs.broker.publish import sending as sending_module
from journalfs.errors import NoRoute
from journalfs.store.write.store import WritingStore
from tests.store.conftest import LittleStore
from tests.store.publishing import publish_file
from tests.store.writing.conftest import Writable, bodies_of, lines_of
from tests.store.writing.test_flushed import crashed, notes, opened

CORE, AMQP, JMS = "core", "amqp", "jms"
KINDS = [("MULTICAST", 0), ("ANYCAST", 1)]
PAGES = '[address-settings."work"]\nmax-size-messages = 0\n'


@pytest.fixture
def writable(little_store: LittleStore) -> Writable:
    """What is routed where is the same on each backend."""
    (little_store.root / "journalfs.toml").write_text('journal-type = "NIO"\n')
    return Writable(little_store, "NIO")


def envelope(stated: int, protocol: str = CORE, **more: Any) -> bytes:
    """A line that states a routing type: 0 multicast, 1 anycast."""
    if protocol == CORE:
        line: dict[str, Any] = {"body": "stated", "properties": {"_AMQ_ROUTING_TYPE": stated}}
    else:
        key, value = ("x-opt-routing-type", stated) if protocol == AMQP else ("x-opt-jms-dest", 1 - stated)
        note = [{"t": "symbol", "v": key}, {"t": "byte", "v": value}]
        body = {"section": "value", "value": {"t": "string", "v": "stated"}}
        line = {"amqp": {"messageAnnotations": [note], "body": body}}
    return json.dumps(line | more).encode() + b"\n"


async def set_kind(store: WritingStore, queue: str, kind: str) -> None:
    await store.set_attribute("work", queue, "user.journalfs.routing-type", kind.encode())


async def all_of_other_kind(store: WritingStore, stated: int) -> None:
    """Make the queues of `work` such that none is of the type."""
    for queue in ("work.a", "work.b"):
        await set_kind(store, queue, KINDS[1 - stated][0])


@pytest.mark.rule("S-68")
@pytest.mark.parametrize("protocol", [CORE, AMQP, JMS])
@pytest.mark.parametrize(("kind", "stated"), KINDS)
@pytest.mark.parametrize("settings", ["", PAGES], ids=["journal", "pages"])
async def test_a_write_is_refused_as_a_whole(
    writable: Writable, protocol: str, kind: str, stated: int, settings: str
) -> None:
    with (writable.root / "journalfs.toml").open("a") as file:
        file.write(settings)
    async with writable.open() as store:
        await all_of_other_kind(store, stated)
        publisher = store.publisher("work", None, "in.jsonl")
        before = store.journals.messages.position
        with pytest.raises(NoRoute) as caught:
            await publisher.write(b'{"body":"plain"}\n' + envelope(stated, protocol))
        other = KINDS[1 - stated][0]
        said = str(caught.value)
        assert said.startswith(f"work: a message states routing type {kind} ({stated}), and all queues here")
        assert f"here are {other}; write it into a queue's directory, set routing-type of a queue" in said
        assert store.journals.messages.position == before
        # Neither what came with it nor the stream itself is lost.
        await publisher.write(b'{"body":"plain"}\n')
        await publisher.finish()
        if stated:
            assert bodies_of(store, "work.a") == bodies_of(store, "work.b") == ["plain"]
        else:
            assert bodies_of(store, "work.a") + bodies_of(store, "work.b") == ["plain"]
        await set_kind(store, "work.b", kind)
        await publish_file(store, "work", None, "in.jsonl", envelope(stated, protocol))
        assert (bodies_of(store, "work.a").count("stated"), bodies_of(store, "work.b")[-1]) == (0, "stated")


@pytest.mark.rule("S-68")
@pytest.mark.parametrize(("kind", "stated"), KINDS)
@pytest.mark.parametrize("long", [False, True])
@pytest.mark.parametrize("settings", ["", PAGES], ids=["journal", "pages"])
async def test_files_are_refused_together(
    writable: Writable,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    kind: str,
    stated: int,
    long: bool,
    settings: str,
) -> None:
    with (writable.root / "journalfs.toml").open("a") as file:
        file.write(settings)
    texts, blob, envelopes = (tmp_path / name for name in ("a.txt", "b.bin", "c.jsonl"))
    texts.write_bytes(b"one\ntwo\n")
    blob.write_bytes(b"large" * 60_000)
    known = envelope(stated, duplicateId="d")
    envelopes.write_bytes(b'{"body":"plain","duplicateId":"p"}\n' + known)
    files = [(path, path.name) for path in (texts, blob, envelopes)]
    monkeypatch.setattr(sending_module, "is_short", lambda _files: not long)
    async with writable.open() as store:
        await all_of_other_kind(store, stated)
        with pytest.raises(NoRoute, match=f"states routing type {kind} "):
            await store.publish_files("work", None, files)
        assert not lines_of(store, "work.a")
        assert not lines_of(store, "work.b")
        assert not list((writable.root / "large-messages").iterdir())
        # Their duplicate ids are not known, so the same comes whole later.
        await set_kind(store, "work.a", kind)
        await store.publish_files("work", None, files)
        assert len(lines_of(store, "work.a")) + len(lines_of(store, "work.b")) >= 5
        assert "stated" in [json.loads(line).get("body") for line in lines_of(store, "work.a")]
    async with writable.open() as store:
        assert "stated" in [json.loads(line).get("body") for line in lines_of(store, "work.a")]


@pytest.mark.rule("S-68")
async def test_what_filters_refuse_is_wanted_by_nobody(writable: Writable) -> None:
    async with writable.open() as store:
        await set_kind(store, "work.b", "ANYCAST")
        await store.set_attribute("work", "work.a", "user.journalfs.filter", b"color = 'red'")
        await publish_file(store, "work", None, "in.jsonl", envelope(0) + envelope(1))
        assert (bodies_of(store, "work.a"), bodies_of(store, "work.b")) == ([], ["stated"])


@pytest.mark.rule("S-68")
@pytest.mark.parametrize("protocol", [CORE, AMQP])
async def test_a_queue_gets_what_is_written_to_it_whatever_type_is_stated(
    writable: Writable, protocol: str
) -> None:
    async with writable.open() as store:
        await publish_file(store, "work", "work.a", "in.jsonl", envelope(1, protocol))
        assert bodies_of(store, "work.a") == ["stated"]


@pytest.mark.rule("S-70")
async def test_what_was_flushed_is_put_aside_once(writable: Writable) -> None:
    """Nobody hears of it at the last close, nor at the next opening."""
    with closing(opened(writable)) as store:
        publisher = store.publisher("work", None, "in.jsonl")
        await publisher.write(b'{"body":"plain"}\n' + envelope(1).rstrip())
        await publisher.flush()
        crash = crashed(writable)
        with pytest.raises(NoRoute):
            await publisher.finish()
    for left in (writable, crash):
        with closing(opened(left)) as store:
            assert store.left_unpublished() == (["work"] if left is crash else [])
            await store.publish_left()
            assert bodies_of(store, "work.a") == bodies_of(store, "work.b") == ["plain"]
            said = [str(one["message"]) for one in store.core.events if one["event"] == "kept"]
            assert len(said) == (1 if left is crash else 0)
            assert all("states routing type ANYCAST (1)" in one for one in said)
        assert notes(left) == []
        (kept,) = (left.root / "journalfs" / "unpublished").iterdir()
        assert kept.read_bytes() == envelope(1).rstrip()


@pytest.mark.rule("S-96")
async def test_what_the_store_sends_itself_goes_to_queues_of_either_kind(writable: Writable) -> None:
    """Also where it says itself what it wants, as each message of a JMS client of AMQP does."""
    with (writable.root / "journalfs.toml").open("a") as file:
        file.write('[address-settings."work"]\ndead-letter-address = "dead"\n')
    # A copy of a copy states what its sender did.
    earlier = {"body": "again", "properties": {"_AMQ_ORIG_ROUTING_TYPE": 1}}
    of_jms = [
        {
            "messageAnnotations": [["x-opt-jms-dest", {"t": "byte", "v": kind}]],
            "body": {"section": "value", "value": f"jms {kind}"},
        }
        for kind in range(4)
    ]
    lines = [json.dumps(line).encode() + b"\n" for line in (earlier, *({"amqp": one} for one in of_jms))]
    async with writable.open() as store:
        await store.create_address("dead")
        await store.create_queue("dead", "dead")
        await publish_file(store, "work", "work.a", "in.jsonl", b"".join(lines) + envelope(1))
        ids = [json.loads(line)["id"] for line in lines_of(store, "work.a")]
        assert await store.send_to_dead_letters(("work", "work.a"), ids) == 6
        found = [json.loads(line) for line in lines_of(store, "dead", "dead")]
        assert [line["body"] for line in found] == ["again", *(f"jms {kind}" for kind in range(4)), "stated"]
        assert found[-1]["properties"]["_AMQ_ORIG_ROUTING_TYPE"] == 1
        (event,) = (one for one in store.core.events if one["event"] == "dead-letters")
        assert (event["messages"], event["dropped"]) == (6, 0)


@pytest.mark.parametrize("protocol", [CORE, AMQP])
async def test_a_type_that_no_broker_knows_says_nothing(writable: Writable, protocol: str) -> None:
    async with writable.open() as store:
        await set_kind(store, "work.b", "ANYCAST")
        await publish_file(store, "work", None, "in.jsonl", envelope(7, protocol))
        assert bodies_of(store, "work.a") == bodies_of(store, "work.b") == ["stated"]
