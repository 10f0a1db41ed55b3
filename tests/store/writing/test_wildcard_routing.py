"""What is sent to an address also goes to queues of the wildcard addresses that match it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest
import trio
import trio.testing

from journalfs.broker.publish import sending as sending_module
from journalfs.errors import AddressFull, NoRoute
from journalfs.format.record_types import MessageType
from journalfs.ids import MessageId
from journalfs.store.write.store import WritingStore
from tests.reference.pages import address_pages
from tests.store.conftest import LittleStore
from tests.store.publishing import publish_file
from tests.store.writing.conftest import Writable, lines_of, queue_of

ADDRESS, ALL, TWO = "sensors.temp", "sensors.#", "sensors.*"
EVERYWHERE = "sensors.temp", "all", "two"
Sending = tuple[str, bool]
WAYS: tuple[Sending, ...] = (("lines", False), ("envelopes", False), ("files", False), ("files", True))


@pytest.fixture
def writable(little_store: LittleStore) -> Writable:
    """What is routed where is the same on each backend."""
    return configured(little_store, "")


def configured(little: LittleStore, text: str) -> Writable:
    (little.root / "journalfs.toml").write_text(f'journal-type = "NIO"\n{text}')
    return Writable(little, "NIO")


def of_address(address: str, **settings: object) -> str:
    lines = [f"{name.replace('_', '-')} = {json.dumps(value)}" for name, value in settings.items()]
    return "\n".join([f'[address-settings."{address}"]', *lines]) + "\n"


def only_of(address: str, **settings: object) -> str:
    """Settings of a wildcard address by itself: as a match its name is good for others, too."""
    none = dict.fromkeys(settings, -1) | ({"address_full_policy": "PAGE"} if len(settings) > 1 else {})
    return of_address(address, **settings) + of_address(ADDRESS, **none)


async def bind(store: WritingStore, queues: Mapping[str, str], kind: str = "MULTICAST") -> None:
    """Queues, and their addresses."""
    for name, address in queues.items():
        if store.address(address) is None:
            await store.create_address(address)
        await store.create_queue(address, name)
        await store.set_attribute(address, name, "user.journalfs.routing-type", kind.encode())


async def bind_all(store: WritingStore) -> None:
    await bind(store, {"sensors.temp": ADDRESS, "all": ALL, "two": TWO, "other": "alerts.*"})


async def write(store: WritingStore, content: bytes, name: str = "in.txt", address: str = ADDRESS) -> None:
    await publish_file(store, address, None, name, content)


async def send(store: WritingStore, way: str, folder: Path, bodies: Iterable[str]) -> None:
    """Lines, envelopes with duplicate ids, or a staged file that is renamed into the address."""
    if way == "lines":
        for body in bodies:
            await write(store, body.encode() + b"\n")
    elif way == "envelopes":
        lines = [json.dumps({"body": body, "duplicateId": body}) for body in bodies]
        await write(store, "\n".join(lines).encode() + b"\n", "in.jsonl")
    else:
        staged = folder / "staged"
        staged.write_text("".join(f"{body}\n" for body in bodies))
        await store.publish_files(ADDRESS, None, [(staged, "in.txt")])


def bodies(store: WritingStore, queue: str) -> list[str]:
    (address,) = {one.address for one in store.core.bindings.queues.values() if one.name == queue}
    return [json.loads(line)["body"] for line in lines_of(store, queue, address)]


def folders(writable: Writable) -> dict[str, set[int]]:
    """Addresses with pages, as another reader finds them, and the queues that their entries name."""
    found = {}
    for folder in (writable.root / "paging").iterdir():
        pages = address_pages(folder)
        assert pages is not None
        named = {queue for page in pages[1] for entry in page.entries for queue in entry.queue_ids}
        found[pages[0]] = named
    return found


@pytest.mark.rule("S-68")
@pytest.mark.parametrize(("way", "long"), WAYS)
async def test_each_multicast_queue_gets_it(
    writable: Writable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, way: str, long: bool
) -> None:
    monkeypatch.setattr(sending_module, "is_short", lambda _files: not long)
    async with writable.open() as store:
        await bind_all(store)
        await send(store, way, tmp_path, ["1", "2"])
        counts = store.core.loader.state.counts()
        assert (counts.messages, counts.references) == (2, 6), "one record for all queues"
    async with writable.open() as store:
        for queue in EVERYWHERE:
            assert bodies(store, queue) == ["1", "2"]
            (address,) = {json.loads(line)["address"] for line in lines_of(store, queue, _of(store, queue))}
            assert address == ADDRESS, "where it was sent to"
        assert bodies(store, "other") == []


def _of(store: WritingStore, queue: str) -> str:
    return next(one.address for one in store.core.bindings.queues.values() if one.name == queue)


@pytest.mark.rule("S-68")
async def test_what_is_sent_to_a_wildcard_address_stays_there(writable: Writable) -> None:
    async with writable.open() as store:
        await bind_all(store)
        await write(store, b"kept\n", address=ALL)
        assert [bodies(store, queue) for queue in EVERYWHERE] == [[], ["kept"], []]


@pytest.mark.rule("S-68")
async def test_a_whole_file_and_a_large_one(writable: Writable) -> None:
    async with writable.open() as store:
        await bind_all(store)
        await write(store, b"x" * 200_000, "in.bin")
        await write(store, b"small", "in.bin")
        for queue in EVERYWHERE:
            assert len(queue_of(store, queue, _of(store, queue))) == 2
        assert len(list((writable.root / "large-messages").iterdir())) == 1


@pytest.mark.rule("S-68")
@pytest.mark.parametrize("name", ["in.txt", "in.jsonl"])
async def test_anycast_queues_of_each_address_take_turns(writable: Writable, name: str) -> None:
    async with writable.open() as store:
        own = {"a": ADDRESS, "b": ADDRESS}
        await bind(store, own | {"c": ALL, "d": ALL, "e": ALL, "f": TWO}, "ANYCAST")
        for number in range(6):
            line = f"{number}" if name == "in.txt" else json.dumps({"body": f"{number}", "priority": 4})
            await write(store, line.encode() + b"\n", name)
        got = {queue: bodies(store, queue) for queue in "abcdef"}
        assert [len(got[queue]) for queue in "abcdef"] == [3, 3, 2, 2, 2, 6]
        for group in ("ab", "cde", "f"):
            every = Counter(body for queue in group for body in got[queue])
            assert every == Counter(map(str, range(6))), "one queue of each address"


async def test_turns_go_on_whether_messages_are_looked_at_or_not(writable: Writable) -> None:
    async with writable.open() as store:
        await bind(store, {"c": ALL, "d": ALL}, "ANYCAST")
        await store.create_address(ADDRESS)
        for number in range(4):
            text = f"{number}" if number % 2 else json.dumps({"body": f"{number}"})
            await write(store, text.encode() + b"\n", "in.txt" if number % 2 else "in.jsonl")
        assert (bodies(store, "c"), bodies(store, "d")) == (["0", "2"], ["1", "3"])


@pytest.mark.rule("S-68")
async def test_filters_see_the_address_that_was_sent_to(writable: Writable) -> None:
    async with writable.open() as store:
        await bind_all(store)
        await store.set_attribute(ALL, "all", "user.journalfs.filter", b"color = 'red'")
        await store.set_attribute(TWO, "two", "user.journalfs.filter", b"AMQAddress = 'sensors.temp'")
        red, blue = ({"body": one, "properties": {"color": one}} for one in ("red", "blue"))
        await write(store, f"{json.dumps(red)}\n{json.dumps(blue)}\n".encode(), "in.jsonl")
        assert bodies(store, "all") == ["red"]
        assert bodies(store, "two") == ["red", "blue"]


@pytest.mark.rule("S-68")
async def test_an_address_needs_no_queue_of_its_own(writable: Writable) -> None:
    async with writable.open() as store:
        await bind(store, {"all": ALL})
        await store.create_address(ADDRESS)
        await store.create_address("other")
        await write(store, b"1\n")
        assert bodies(store, "all") == ["1"]
        with pytest.raises(NoRoute):
            await write(store, b"1\n", address="other")
        with pytest.raises(NoRoute):
            await write(store, b'{"body":"any","properties":{"_AMQ_ROUTING_TYPE":1}}\n', "in.jsonl")


@pytest.mark.rule("S-68")
async def test_what_is_written_to_a_queue_goes_to_that_alone(writable: Writable) -> None:
    async with writable.open() as store:
        await bind_all(store)
        await publish_file(store, ADDRESS, "sensors.temp", "in.txt", b"1\n")
        assert [bodies(store, queue) for queue in EVERYWHERE] == [["1"], [], []]


def with_broker_xml(little: LittleStore, wildcards: str) -> Writable:
    etc = little.root.parent / "etc"
    etc.mkdir()
    (etc / "broker.xml").write_text(
        '<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core">'
        "<journal-type>NIO</journal-type>"
        f"<wildcard-addresses>{wildcards}</wildcard-addresses></core></configuration>"
    )
    return Writable(little, "NIO")


OTHERS = "<delimiter>/</delimiter><any-words>></any-words><single-word>+</single-word>"
OTHERS_TOML = '[wildcard-addresses]\ndelimiter = "/"\nany-words = ">"\nsingle-word = "+"\n'


@pytest.mark.rule("S-68")
@pytest.mark.parametrize("own", [False, True], ids=["broker.xml", "journalfs.toml"])
async def test_a_broker_may_use_other_characters(little_store: LittleStore, *, own: bool) -> None:
    writable = configured(little_store, OTHERS_TOML) if own else with_broker_xml(little_store, OTHERS)
    async with writable.open() as store:
        await bind(store, {"all": "sensors/>", "one": "+/temp", "plain": "sensors.#"})
        await store.create_address("sensors/temp")
        await write(store, b"1\n", address="sensors/temp")
        assert [bodies(store, queue) for queue in ("all", "one", "plain")] == [["1"], ["1"], []]


@pytest.mark.rule("S-68")
@pytest.mark.parametrize("name", ["enabled", "routing-enabled"])
async def test_without_such_routing_a_name_is_a_name(little_store: LittleStore, name: str) -> None:
    async with with_broker_xml(little_store, f"<{name}>false</{name}>").open() as store:
        await bind_all(store)
        await write(store, b"1\n")
        assert [bodies(store, queue) for queue in EVERYWHERE] == [["1"], [], []]
        await write(store, b"2\n", address=ALL)
        assert bodies(store, "all") == ["2"]


# ---- pages and limits ----


@pytest.mark.rule("S-68")
@pytest.mark.parametrize(("way", "long"), WAYS)
@pytest.mark.parametrize("paging", [(ADDRESS,), (ALL, TWO), (ADDRESS, ALL, TWO)], ids=len)
async def test_each_address_pages_for_its_own_queues(
    little_store: LittleStore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    way: str,
    long: bool,
    paging: tuple[str, ...],
) -> None:
    limits = {one: 0 if one in paging else -1 for one in (ALL, TWO, ADDRESS)}
    text = "".join(of_address(one, max_size_messages=limit) for one, limit in limits.items())
    writable = configured(little_store, text)
    monkeypatch.setattr(sending_module, "is_short", lambda _files: not long)
    async with writable.open() as store:
        await bind_all(store)
        await send(store, way, tmp_path, ["1", "2"])
        bound = {one.name: int(one.queue_id) for one in store.core.bindings.queues.values()}
        for queue in EVERYWHERE:
            found = queue_of(store, queue, _of(store, queue))
            assert bodies(store, queue) == ["1", "2"]
            assert found.status()["pagedCount"] == (2 if _of(store, queue) in paging else 0)
        names = {ADDRESS: "sensors.temp", ALL: "all", TWO: "two"}
        assert folders(writable) == {one: {bound[names[one]]} for one in paging}
        transactions = len(list(store.core.loader.state.side(MessageType.PAGE_TRANSACTION)))
        assert transactions <= 2, "one for each publication, whatever the number of addresses"
    async with writable.open() as store:
        for queue in EVERYWHERE:
            assert bodies(store, queue) == ["1", "2"]
            found = queue_of(store, queue, _of(store, queue))
            await store.acknowledge((_of(store, queue), queue), ids(store, queue))
            assert len(found) == 0
    async with writable.open() as store:
        assert [bodies(store, queue) for queue in EVERYWHERE] == [[], [], []]
        counts = store.core.loader.state.counts()
        assert (counts.messages, counts.references) == (0, 0)


def ids(store: WritingStore, queue: str) -> list[MessageId]:
    listing = queue_of(store, queue, _of(store, queue)).listing()
    return [listing.message_id(index) for index in range(len(listing))]


@pytest.mark.rule("S-68")
@pytest.mark.parametrize("paging", [ADDRESS, ALL])
async def test_a_duplicate_is_left_out_everywhere(little_store: LittleStore, paging: str) -> None:
    other = of_address(ADDRESS, max_size_messages=-1) if paging == ALL else ""
    writable = configured(little_store, of_address(paging, max_size_messages=0) + other)
    async with writable.open() as store:
        await bind(store, {"sensors.temp": ADDRESS, "all": ALL})
        once, again, new = (json.dumps({"body": body, "duplicateId": body[0]}) for body in ("a", "a2", "b"))
        await write(store, f"{once}\n{again}\n".encode(), "in.jsonl")
        await write(store, f"{again}\n{new}\n".encode(), "in.jsonl")
        assert bodies(store, "sensors.temp") == bodies(store, "all") == ["a", "b"]
        assert store.core.duplicates_left_out[ADDRESS] == 2


@pytest.mark.rule("S-136")
@pytest.mark.parametrize("order", [(ADDRESS, ALL), (ALL, ADDRESS)])
async def test_ids_go_with_the_last_queue_that_got_them(
    little_store: LittleStore, order: tuple[str, str]
) -> None:
    """Its own address may be gone by then. Others keep theirs."""
    queues = {ADDRESS: "sensors.temp", ALL: "all"}
    line = json.dumps({"body": "a", "duplicateId": "1"}).encode() + b"\n"
    writable = configured(little_store, "")
    async with writable.open() as store:
        await bind(store, {name: address for address, name in queues.items()})
        await write(store, line, "in.jsonl")
        await write(store, line, "in.jsonl", "work")
    for address, left in zip(order, ({ADDRESS: 1, "work": 1}, {"work": 1}), strict=True):
        async with writable.open() as store:
            await store.acknowledge((address, queues[address]), ids(store, queues[address]))
            await store.delete_queue(address, queues[address])
            await store.delete_address(address)
        async with writable.open() as store:
            assert store.core.duplicate_ids() == left
    async with writable.open() as store:
        await bind(store, {"sensors.temp": ADDRESS})
        await write(store, line, "in.jsonl")
        assert bodies(store, "sensors.temp") == ["a"]


@pytest.mark.rule("S-68")
async def test_a_large_message_goes_both_ways(little_store: LittleStore) -> None:
    writable = configured(little_store, only_of(ALL, max_size_messages=0))
    async with writable.open() as store:
        await bind(store, {"sensors.temp": ADDRESS, "all": ALL})
        await write(store, b"x" * 200_000, "in.bin")
        await store.acknowledge((ADDRESS, "sensors.temp"), ids(store, "sensors.temp"))
    async with writable.open() as store:
        source = queue_of(store, "all", ALL).open_all()
        assert source.size_bytes >= 200_000, "its body is there as long as a queue has it"
        source.close()


@pytest.mark.rule("S-68")
async def test_a_full_wildcard_address_that_refuses_refuses_all(little_store: LittleStore) -> None:
    text = only_of(ALL, max_size_bytes=1, address_full_policy="FAIL")
    async with configured(little_store, text).open() as store:
        await bind(store, {"sensors.temp": ADDRESS, "all": ALL})
        await write(store, b"1\n")
        for name in ("in.txt", "in.bin"):
            with pytest.raises(AddressFull) as refused:
                await write(store, b"2\n", name)
            assert str(refused.value).startswith(ALL)
        assert bodies(store, "sensors.temp") == bodies(store, "all") == ["1"]
        # What was taken before is published at the last close.
        await store.acknowledge((ALL, "all"), ids(store, "all"))
        publisher = store.publisher(ADDRESS, None, "in.bin")
        await publisher.write(b"late")
        await write(store, b"3\n")
        await publisher.finish()
        assert len(lines_of(store, "all", ALL)) == 2


@pytest.mark.rule("S-68")
@pytest.mark.parametrize("full", [ADDRESS, ALL])
@pytest.mark.parametrize("long", [False, True])
async def test_what_drops_drops_for_its_own_queues(
    little_store: LittleStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, full: str, long: bool
) -> None:
    monkeypatch.setattr(sending_module, "is_short", lambda _files: not long)
    other = ADDRESS if full == ALL else ALL
    limits = {"max_size_bytes": 1, "address_full_policy": "DROP"}
    text = only_of(ALL, **limits) if full == ALL else of_address(ADDRESS, **limits)
    async with configured(little_store, text).open() as store:
        await bind(store, {"sensors.temp": ADDRESS, "all": ALL})
        await write(store, b"1\n")
        await write(store, b"2\n")
        await send(store, "files", tmp_path, ["3"])
        got = {ADDRESS: bodies(store, "sensors.temp"), ALL: bodies(store, "all")}
        assert got == {full: ["1"], other: ["1", "2", "3"]}
        assert store.admission.dropped == {full: 2}


@pytest.mark.rule("S-68")
async def test_nobody_waits_for_a_wildcard_address(little_store: LittleStore) -> None:
    text = only_of(ALL, max_size_bytes=1, address_full_policy="BLOCK")
    async with configured(little_store, text).open() as store:
        await bind(store, {"sensors.temp": ADDRESS, "all": ALL})
        with trio.fail_after(10):
            for body in (b"1\n", b"2\n"):
                await write(store, body)
        assert bodies(store, "all") == ["1", "2"]


# ---- kinds of queues, and queues that go ----


@pytest.mark.rule("S-68")
@pytest.mark.parametrize("paging", [False, True])
@pytest.mark.parametrize("long", [False, True])
async def test_a_ring_below_a_wildcard(
    little_store: LittleStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, paging: bool, long: bool
) -> None:
    monkeypatch.setattr(sending_module, "is_short", lambda _files: not long)
    writable = configured(little_store, of_address(ADDRESS, max_size_messages=0 if paging else -1))
    async with writable.open() as store:
        await bind(store, {"sensors.temp": ADDRESS, "ring": ALL})
        await store.set_attribute(ALL, "ring", "user.journalfs.ring-size", b"2")
        await write(store, b"1\n2\n3\n")
        await send(store, "files", tmp_path, ["4", "5"])
        assert bodies(store, "sensors.temp") == ["1", "2", "3", "4", "5"]
        assert bodies(store, "ring") == ["4", "5"]


@pytest.mark.rule("S-96")
async def test_dead_letters_reach_it(little_store: LittleStore) -> None:
    writable = configured(little_store, of_address("work", dead_letter_address=ADDRESS))
    async with writable.open() as store:
        await bind(store, {"all": ALL})
        await publish_file(store, "work", "work.a", "in.txt", b"1\n")
        found = [json.loads(line)["id"] for line in lines_of(store, "work.a")]
        assert await store.send_to_dead_letters(("work", "work.a"), found) == 1
        assert bodies(store, "all") == ["1"]


@pytest.mark.rule("S-68")
async def test_a_queue_stays_while_something_is_on_its_way(writable: Writable) -> None:
    async with writable.open() as store:
        await bind(store, {"sensors.temp": ADDRESS, "all": ALL})
        gone = trio.Event()

        async def remove() -> None:
            await store.delete_queue(ALL, "all")
            gone.set()

        async with trio.open_nursery() as nursery, store.parts.arrivals.bringing(ADDRESS):
            nursery.start_soon(remove)
            await trio.testing.wait_all_tasks_blocked()
            assert not gone.is_set()
        assert gone.is_set()
        await write(store, b"1\n")
        assert bodies(store, "sensors.temp") == ["1"]


async def test_publishing_while_queues_come_and_go(writable: Writable) -> None:
    async with writable.open() as store:
        await bind(store, {"sensors.temp": ADDRESS, "all": ALL})
        async with trio.open_nursery() as nursery:
            for number in range(20):
                nursery.start_soon(write, store, f"{number}\n".encode())
            await trio.lowlevel.checkpoint()
            await bind(store, {"two": TWO})
        await store.acknowledge((ALL, "all"), ids(store, "all"))
        await store.delete_queue(ALL, "all")
        assert sorted(bodies(store, "sensors.temp"), key=int) == list(map(str, range(20)))
        with trio.fail_after(10):
            await store.acknowledge((TWO, "two"), ids(store, "two"))
            await store.delete_queue(TWO, "two")
