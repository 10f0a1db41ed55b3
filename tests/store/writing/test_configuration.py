"""A configuration that changes while its store is open: what takes effect, when, and what does not."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import trio

from journalfs.broker.consume.expiring import every_period
from journalfs.broker.limits.disk_limits import Space
from journalfs.clock import FakeClock
from journalfs.config.address_settings import BY_NAME
from journalfs.config.core_settings import AT_ONCE, CORE_BY_NAME
from journalfs.config.layout import locate_store
from journalfs.config.reread import files_of
from journalfs.errors import AddressFull
from journalfs.live.settings import broker_toml, settings_in_force
from journalfs.store.store import JournalStore
from journalfs.store.write.opening import open_for_writing
from journalfs.store.write.store import WritingStore
from tests.config.test_broker_xml import document
from tests.store.conftest import LittleStore
from tests.store.publishing import publish_file
from tests.store.writing.conftest import Writable, lines_of
from tests.store.writing.test_limits import blocked, publish, texts

PERIOD_MS = 5000
WAIT_S_MAX = 60


@dataclass
class Configured:
    """The little store, whose files only the test looks at."""

    little: LittleStore
    free_bytes: int = 1000
    """Of the 1,000 that its disk has."""

    def says(self, *lines: str) -> None:
        text = "\n".join(['journal-type = "NIO"', *lines])
        self.file.write_text(text + "\n")

    @property
    def file(self) -> Path:
        return self.little.root / "journalfs.toml"

    @asynccontextmanager
    async def open(self, *lines: str) -> AsyncIterator[WritingStore]:
        self.says(*lines)
        store = open_for_writing(self.little.root, clock=self.little.clock, index=False)
        store.admission.disk.look = lambda path: Space(1000, self.free_bytes)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(store.journals.run)
                yield store
                nursery.cancel_scope.cancel()
        finally:
            store.close()

    async def looks(self, store: JournalStore, after_ms: int = PERIOD_MS) -> None:
        self.little.clock.advance(by_ms=after_ms)
        await store.configuration.look()
        if isinstance(store, WritingStore):
            await store.admission.scan_disk()

    async def becomes(self, store: JournalStore, *lines: str) -> None:
        self.says(*lines)
        await self.looks(store)


@pytest.fixture
def configured(little_store: LittleStore) -> Configured:
    return Configured(little_store)


def told(store: JournalStore, event: str = "configuration") -> list[str]:
    return [str(one["message"]) for one in store.core.events if one["event"] == event]


BLOCK = ('[address-settings."#"]', 'address-full-policy = "BLOCK"')
FAIL = ('[address-settings."#"]', 'address-full-policy = "FAIL"')


@pytest.mark.rule("S-137", "S-102")
@pytest.mark.parametrize(
    ("tight", "wide"),
    [
        ("global-max-size = 400", "global-max-size = 4000"),
        ("global-max-messages = 1", "global-max-messages = 2"),
        ("global-max-messages = 1", ""),
        ("max-disk-usage = 40", "max-disk-usage = 60"),
        ("max-disk-usage = 40", "max-disk-usage = -1"),
        ("min-disk-free = 700", "min-disk-free = 300"),
        ("min-disk-free = 700", ""),
    ],
)
async def test_who_waits_goes_on_when_a_limit_is_raised(
    configured: Configured, tight: str, wide: str
) -> None:
    async with configured.open(tight, *BLOCK) as store:
        await publish(store, "1")
        configured.free_bytes = 500
        await configured.looks(store)
        async with blocked(store, lambda: publish(store, "2")):
            await configured.becomes(store, wide, *BLOCK)
        assert texts(store) == ["1", "2"]
        assert len(told(store, "configuration-taken")) == 1


@pytest.mark.rule("S-137")
@pytest.mark.parametrize(
    "limit",
    ["global-max-size = 400", "global-max-messages = 1", "max-disk-usage = 40", "min-disk-free = 700"],
)
async def test_a_limit_that_is_lowered_acts_at_once(configured: Configured, limit: str) -> None:
    configured.free_bytes = 500
    async with configured.open(*FAIL) as store:
        await publish(store, "1")
        await configured.becomes(store, limit, *FAIL)
        with pytest.raises(AddressFull, match=limit.partition(" ")[0]):
            await publish(store, "2")


@pytest.mark.rule("S-137")
async def test_settings_of_addresses_change_too(configured: Configured) -> None:
    async with configured.open(*FAIL, "max-size-messages = 1", "expiry-delay = -1") as store:
        await publish(store, "1")
        with pytest.raises(AddressFull):
            await publish(store, "2")
        await configured.becomes(
            store, *FAIL, "max-size-messages = 2", "expiry-delay = 700", "id-cache-size = 3"
        )
        await publish(store, "2")
        first, second = (json.loads(line) for line in lines_of(store, "work.a"))
        assert "expiration" not in first
        assert second["expiration"] == configured.little.clock.now_ms() + 700
        assert settings_in_force(store.core).value("work", "id-cache-size") == 3


async def test_duplicate_ids_are_as_many_as_the_file_says_now(configured: Configured) -> None:
    def line(number: int) -> str:
        return json.dumps({"type": "text", "body": str(number), "duplicateId": f"d{number}"})

    async def publish_lines(store: WritingStore, *numbers: int) -> None:
        await publish_file(
            store, "work", "work.a", "in.jsonl", "".join(f"{line(number)}\n" for number in numbers).encode()
        )

    async with configured.open("id-cache-size = 10") as store:
        await publish_lines(store, 1, 2, 3)
        await configured.becomes(store, "id-cache-size = 1")
        await publish_lines(store, 4)
        await publish_lines(store, 1, 4)
        assert texts(store) == ["1", "2", "3", "4", "1"]


@pytest.mark.rule("S-137")
async def test_a_mistake_changes_nothing_and_is_told_once(configured: Configured) -> None:
    async with configured.open("global-max-messages = 1", *FAIL) as store:
        await publish(store, "1")
        for _ in range(2):
            await configured.becomes(store, 'global-max-messages = "many"', *FAIL)
        (mistake,) = told(store)
        assert mistake.startswith(f"{configured.file}:2: global-max-messages: ")
        assert mistake.endswith("; the settings stay as they were")
        with pytest.raises(AddressFull):
            await publish(store, "2")
        await configured.becomes(store, "global-max-messages = 2", *FAIL)
        await publish(store, "2")
        await configured.becomes(store, 'global-max-messages = "many"', *FAIL)
        assert told(store) == [mistake, mistake]


@pytest.mark.rule("S-137")
async def test_a_file_may_come_and_go(configured: Configured) -> None:
    async with configured.open() as store:
        configured.file.unlink()
        await configured.looks(store)
        await configured.becomes(store, "global-max-messages = 1", *FAIL)
        await publish(store, "1")
        with pytest.raises(AddressFull):
            await publish(store, "2")
        configured.file.unlink()
        await configured.looks(store)
        await publish(store, "2")
        assert texts(store) == ["1", "2"]
        # What says where and how a journal is written is as it was.
        assert 'journal-type = "NIO"' in broker_toml(store.core)


@pytest.mark.rule("S-137")
async def test_what_stays_until_the_next_mount_is_named(configured: Configured) -> None:
    async with configured.open("journal-min-files = 3") as store:
        for _ in range(2):
            await configured.becomes(
                store, "journal-min-files = 4", 'paging-directory = "elsewhere"', "global-max-messages = 7"
            )
        assert told(store) == [
            "changed, and not before the next mount: journal-min-files, paging-directory",
        ]
        shown = broker_toml(store.core)
        assert "journal-min-files = 3 " in shown
        assert 'paging-directory = "paging"' in shown
        assert "global-max-messages = 7 " in shown
        await configured.becomes(store, "journal-min-files = 3")
        await configured.becomes(store, "journal-min-files = 5")
        assert told(store)[1:] == ["changed, and not before the next mount: journal-min-files"]


@pytest.mark.rule("S-137")
async def test_broker_xml_and_what_it_includes(little_store: LittleStore) -> None:
    instance, clock = little_store.root.parent, little_store.clock
    etc = instance / "etc"
    etc.mkdir()
    core = (
        "<journal-type>NIO</journal-type><large-messages-directory>data/large-messages</large-messages-directory>"
        '<xi:include href="addresses.xml"/>'
    )

    def addresses(messages: int) -> str:
        return (
            '<address-settings><address-setting match="#"><address-full-policy>FAIL</address-full-policy>'
            f"<max-size-messages>{messages}</max-size-messages></address-setting></address-settings>"
        )

    (etc / "broker.xml").write_text(document(core))
    (etc / "addresses.xml").write_text(addresses(1))
    assert files_of(locate_store(instance))[:2] == (etc / "broker.xml", etc / "addresses.xml")
    store = open_for_writing(instance, clock=clock, index=False)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(store.journals.run)
            await publish(store, "1")
            with pytest.raises(AddressFull):
                await publish(store, "2")
            (etc / "addresses.xml").write_text(addresses(2))
            clock.advance(by_ms=PERIOD_MS)
            await store.configuration.look()
            await publish(store, "2")
            (etc / "broker.xml").unlink()
            clock.advance(by_ms=PERIOD_MS)
            await store.configuration.look()
            assert str(etc / "broker.xml") in told(store)[-1]
            with pytest.raises(AddressFull):
                await publish(store, "3")
            (etc / "broker.xml").write_text(document(f"<global-max-messages>0</global-max-messages>{core}"))
            (etc / "addresses.xml").write_text(addresses(9))
            clock.advance(by_ms=PERIOD_MS)
            await store.configuration.look()
            with pytest.raises(AddressFull, match="global-max-messages"):
                await publish(store, "3")
            nursery.cancel_scope.cancel()
    finally:
        store.close()


async def test_files_are_looked_at_once_a_period(configured: Configured) -> None:
    refresh, limit = "configuration-file-refresh-period = {}", "global-max-messages = {}"

    def most(store: WritingStore) -> int:
        return store.admission.in_force.everywhere.max_size_messages

    async with configured.open(refresh.format(700)) as store:
        configured.says(refresh.format(700), limit.format(1))
        await configured.looks(store, 699)
        assert most(store) == -1
        await configured.looks(store, 1)
        assert most(store) == 1
        await configured.becomes(store, refresh.format(-1), limit.format(2))
        assert most(store) == 2
        await configured.becomes(store, refresh.format(700), limit.format(3))
        assert most(store) == 2


async def test_a_store_looks_by_itself(little_store: LittleStore) -> None:
    """All of it at work: nobody but the clock does anything."""
    configured = Configured(little_store)
    configured.says("global-max-messages = 1", *BLOCK)
    with trio.fail_after(WAIT_S_MAX):
        async with Writable(little_store, "NIO").open() as store:
            await publish(store, "1")
            async with blocked(store, lambda: publish(store, "2")):
                configured.says("global-max-messages = 2", *BLOCK)
                little_store.clock.advance(by_ms=PERIOD_MS)
            assert texts(store) == ["1", "2"]


@pytest.mark.rule("S-137")
async def test_a_store_that_is_only_read_shows_what_changed(configured: Configured) -> None:
    configured.says("global-max-messages = 1")
    store = configured.little.open()
    try:
        await configured.becomes(
            store, "global-max-messages = 2", '[address-settings."#"]', "page-size-bytes = 9"
        )
        assert "global-max-messages = 2 " in broker_toml(store.core)
        assert settings_in_force(store.core).value("work", "page-size-bytes") == 9
    finally:
        store.close()


@pytest.mark.parametrize("never", [0, -1])
async def test_periods_may_change(autojump_clock: trio.testing.MockClock, never: int) -> None:
    class Clock(FakeClock):
        def monotonic_ns(self) -> int:
            return round(trio.current_time() * 1e9)

    begun, period_ms = trio.current_time(), never
    done_s: list[int] = []

    async def work() -> None:
        done_s.append(round(trio.current_time() - begun))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(every_period, Clock(), lambda: period_ms, work)
        await trio.sleep(100.1)
        assert not done_s
        period_ms = 20_000
        await trio.sleep(50)
        period_ms = 3_000_000
        await trio.sleep(100)
        period_ms = 60_000
        await trio.sleep(70)
        nursery.cancel_scope.cancel()
    assert [round(one, -1) for one in done_s] == [100, 120, 140, 250, 310]


def test_what_is_at_once_is_a_setting() -> None:
    assert CORE_BY_NAME.keys() >= AT_ONCE
    assert not AT_ONCE & (BY_NAME.keys() - {"id-cache-size"})
