"""What of a journal file is believed without reading it, and what is looked at whatever its time says."""

from __future__ import annotations

import os
import random
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from journalfs.engine.status import CoreRefused
from journalfs.errors import JournalfsError
from journalfs.ids import MessageId
from journalfs.live.index_file import index_path
from journalfs.live.opened import DOUBT_INTERVAL_NS
from journalfs.store import open_store
from journalfs.store.store import JournalStore
from tests.store.appending import JournalAppender
from tests.store.conftest import QUEUE_A, LittleStore

ReadLines = Callable[[JournalStore, str], list[bytes]]


def bodies(lines: list[bytes]) -> list[bytes]:
    return [line.split(b'"body":"')[1].removesuffix(b'"}') for line in lines]


def overwrite(path: Path, offset: int, content: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(content)


def two_files(little: LittleStore) -> tuple[JournalAppender, int, int]:
    """The second file is current; the place of the second of three messages in the first is returned."""
    little.journal.send(1000, QUEUE_A, "one")
    begin = little.journal.at
    little.journal.send(1001, QUEUE_A, "two")
    end = little.journal.at
    little.journal.send(1002, QUEUE_A, "three")
    current = JournalAppender.create(little.root / "journal/activemq-data-2.amq", 2)
    current.send(1003, QUEUE_A, "four")
    return current, begin, end


class TestDamageToAnOlderFile:
    """Bytes that changed after they were read are never vouched for by the checksum of what they were."""

    @pytest.mark.rule("S-49", "S-53")
    async def test_shows_while_mounted_and_in_every_mount_after(
        self, little_store: LittleStore, lines_of: ReadLines
    ) -> None:
        _, begin, end = two_files(little_store)
        store = little_store.open()
        overwrite(little_store.journal.path, begin, bytes(end - begin))
        for _ in range(2):
            await store.look()
            assert bodies(lines_of(store, "work.a")) == [b"one", b"three", b"four"]
            assert [damage.offset for damage in store.core.damage()] == [begin]
            store.close()
            store = little_store.open()

    @pytest.mark.rule("S-53")
    async def test_that_nobody_looked_at_before_the_mount_ended(
        self, little_store: LittleStore, lines_of: ReadLines
    ) -> None:
        _, begin, end = two_files(little_store)
        store = little_store.open()
        overwrite(little_store.journal.path, begin, bytes(end - begin))
        store.close()
        store = little_store.open()
        assert bodies(lines_of(store, "work.a")) == [b"one", b"three", b"four"]
        assert [damage.offset for damage in store.core.damage()] == [begin]

    @pytest.mark.rule("S-53")
    async def test_in_what_was_read_while_it_was_current(
        self, little_store: LittleStore, lines_of: ReadLines
    ) -> None:
        """A file's time moves with every append, so it says nothing of what was read before."""
        little_store.journal.send(1000, QUEUE_A, "one")
        store = little_store.open()
        end = little_store.journal.at
        little_store.journal.send(1001, QUEUE_A, "two")
        await store.look()
        overwrite(little_store.journal.path, 16, bytes(end - 16))
        little_store.journal.send(1002, QUEUE_A, "three")
        await store.look()
        store.close()
        store = little_store.open()
        assert bodies(lines_of(store, "work.a")) == [b"two", b"three"]
        assert [damage.offset for damage in store.core.damage()] == [16]

    @pytest.mark.rule("S-45")
    async def test_a_touched_file_is_only_compared(
        self, little_store: LittleStore, lines_of: ReadLines
    ) -> None:
        two_files(little_store)
        store = little_store.open()
        scanned = store.core.loader.bytes_scanned
        os.utime(little_store.journal.path, (5, 5))
        await store.look()
        assert (store.rebuilds, store.core.loader.bytes_scanned) == (0, scanned)
        store.close()
        assert little_store.open().core.loader.bytes_scanned == 0


class TestWritesThatMoveNoTime:
    """A broker that writes through a mapping moves a file's time when the kernel writes it back, or never."""

    @pytest.fixture
    def times(self, little_store: LittleStore) -> Callable[[], None]:
        """Gives every journal file the time it had when this was called first."""
        known: dict[Path, int] = {}

        def restore() -> None:
            for path in (little_store.root / "journal").glob("*.amq"):
                at_ns = known.setdefault(path, path.stat().st_mtime_ns)
                os.utime(path, ns=(at_ns, at_ns))

        return restore

    @pytest.mark.rule("S-46", "S-53")
    def test_append_to_the_current_file(
        self, little_store: LittleStore, lines_of: ReadLines, times: Callable[[], None]
    ) -> None:
        current, _, _ = two_files(little_store)
        times()
        little_store.open().close()
        current.send(1004, QUEUE_A, "five")
        times()
        assert bodies(lines_of(little_store.open(), "work.a"))[-1] == b"five"

    @pytest.mark.rule("S-46", "S-53")
    def test_switch_to_a_file_of_the_pool(
        self, little_store: LittleStore, lines_of: ReadLines, times: Callable[[], None]
    ) -> None:
        current, _, _ = two_files(little_store)
        pool = JournalAppender.create(little_store.root / "journal/activemq-data-3.amq", 3)
        times()
        little_store.open().close()
        current.send(1004, QUEUE_A, "five")
        pool.send(1005, QUEUE_A, "six")
        times()
        assert bodies(lines_of(little_store.open(), "work.a"))[-2:] == [b"five", b"six"]

    @pytest.mark.rule("S-45", "S-46")
    def test_reuse_of_a_consumed_file(
        self, little_store: LittleStore, lines_of: ReadLines, times: Callable[[], None]
    ) -> None:
        current, _, _ = two_files(little_store)
        for message_id in (1000, 1001, 1002):
            current.acknowledge(message_id, QUEUE_A, tx_id=3000 + message_id)
        times()
        little_store.open().close()
        overwrite(little_store.journal.path, 0, struct.pack(">iiq", 2, 0, 3))
        JournalAppender(little_store.journal.path, 3, 16).send(1004, QUEUE_A, "second life")
        times()
        assert bodies(lines_of(little_store.open(), "work.a")) == [b"four", b"second life"]

    @pytest.mark.rule("S-46")
    @pytest.mark.usefixtures("held_by_a_broker")
    def test_far_behind_the_position_of_an_index_written_beside_a_broker(
        self, little_store: LittleStore, lines_of: ReadLines, times: Callable[[], None]
    ) -> None:
        """Writes in flight may land in any order: a broker that died leaves a hole of any length."""
        little_store.journal.send(1000, QUEUE_A, "one")
        path = little_store.root / "journal/activemq-data-2.amq"
        current = JournalAppender.create(path, 2, size_bytes=1 << 20)
        current.send(1001, QUEUE_A, "two")
        times()
        little_store.open().close()
        current.at += 500_000
        current.send(1002, QUEUE_A, "landed early")
        times()
        store = little_store.open()
        little_store.clock.advance(by_ms=1000)
        store.look_now()
        assert bodies(lines_of(store, "work.a")) == [b"one", b"two", b"landed early"]

    @pytest.mark.rule("S-53")
    def test_nothing_new_means_that_nothing_is_scanned(self, little_store: LittleStore) -> None:
        """Not even where the remains of an earlier life stand behind the last record."""
        current, _, _ = two_files(little_store)
        overwrite(current.path, current.at, b"\x0b" + os.urandom(20_000))
        little_store.open().close()
        index = little_store.root / "journalfs/index"
        written = index.stat().st_mtime_ns
        store = little_store.open()
        assert store.core.loader.bytes_scanned == 0
        store.close()
        assert index.stat().st_mtime_ns == written


@pytest.mark.rule("S-49")
async def test_current_file_cut_off_below_what_was_read(
    little_store: LittleStore, lines_of: ReadLines
) -> None:
    little_store.journal.send(1000, QUEUE_A, "one")
    end = little_store.journal.at
    little_store.journal.send(1001, QUEUE_A, "two")
    store = little_store.open()
    os.truncate(little_store.journal.path, end + 10)
    await store.look()
    assert bodies(lines_of(store, "work.a")) == [b"one"]
    store.close()
    assert bodies(lines_of(little_store.open(), "work.a")) == [b"one"]


def rot(path: Path, offset: int, content: bytes) -> None:
    """Other bytes in a file that looks the same by size, times and inode."""
    before = path.stat()
    overwrite(path, offset, content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def place_of_a_message(store: JournalStore) -> tuple[Path, int]:
    """A file, and where in it the content of a message lies that has half of all others before it."""
    loader = store.core.loader
    places = [
        (info.file_slot, info.offset)
        for queue in store.queues()
        for ref in loader.state.refs(queue.content.slot, "arrival", "live")
        if (info := loader.state.ref(ref)).body_bytes > 100
    ]
    slot, offset = sorted(places)[len(places) // 2]
    return loader.files.read_file(slot).file.path, offset + 20


def lines_of_all(store: JournalStore) -> dict[str, list[bytes]]:
    """All lines of all queues."""
    found: dict[str, list[bytes]] = {}
    for queue in store.queues():
        source = queue.open_all()
        found[queue.name] = bytes(source.read(0, source.size_bytes)).splitlines()
    return found


class TestRot:
    """Bytes below a fitting index that are no longer what they were, in a file that looks as it did."""

    @pytest.fixture(params=["orders-basic", "transactions", "retention"])
    def indexed(self, request: pytest.FixtureRequest, store_copy: Callable[[str], Path]) -> Path:
        root = store_copy(request.param)
        open_store(root).close()
        return root

    @pytest.mark.rule("S-49", "S-54")
    @pytest.mark.parametrize("content", [bytes(2000), random.Random(3).randbytes(2000)])
    def test_hides_no_intact_message(self, indexed: Path, content: bytes) -> None:
        rot(*place_of_a_message(open_store(indexed, index=False)), content)
        scanned = open_store(indexed, index=False)
        expected = {queue: sorted(lines) for queue, lines in lines_of_all(scanned).items()}
        damage = scanned.core.damage()
        assert damage
        store = open_store(indexed)
        assert store.core.loader.bytes_scanned == 0
        names = {part.name for queue in store.queues() for part in queue.parts()}
        with pytest.raises(CoreRefused):
            lines_of_all(store)
        assert not index_path(store.core.root).exists(), "it would mislead whoever comes after a killed mount"
        shown = lines_of_all(store)
        # Whose acknowledgement was lost comes behind those that have had their place all along.
        assert {queue: sorted(lines) for queue, lines in shown.items()} == expected
        assert (store.core.damage(), store.rebuilds) == (damage, 1)
        assert {part.name for queue in store.queues() for part in queue.parts()} <= names
        store.close()
        again = open_store(indexed)
        assert (again.core.loader.bytes_scanned, lines_of_all(again)) == (0, shown)
        assert again.core.damage() == damage

    @pytest.mark.rule("S-49", "S-54")
    @pytest.mark.parametrize("reader", ["message", "attributes", "selection"])
    def test_found_by_another_reader(
        self, little_store: LittleStore, lines_of: ReadLines, reader: str
    ) -> None:
        for number in range(3):
            little_store.journal.send(1000 + number, QUEUE_A, f"text {number} " + "x" * 300)
        little_store.open().close()
        store = little_store.open()
        state = store.core.loader.state
        first = state.ref(state.message_refs(1000)[0])
        rot(little_store.journal.path, first.offset, bytes(first.body_bytes))
        queue = next(queue for queue in store.queues() if queue.name == "work.a")
        message = queue.message(MessageId(1000))
        assert message is not None
        if reader == "message":
            with pytest.raises(JournalfsError):
                message.open().read(0, 1000)
        elif reader == "attributes":
            assert "damage" in "".join(message.attributes())
        else:
            view = queue.where("JMSPriority >= 0")
            assert [part.messages for part in view.parts()] == [3]
            source = view.open_all()
            with pytest.raises(CoreRefused):
                source.read(0, source.size_bytes)
        assert store.rebuilds == 1
        assert [b'"damage"' in line for line in lines_of(store, "work.a")] == [True, False, False]

    @pytest.mark.rule("S-54")
    def test_that_comes_again_and_again_is_looked_at_now_and_then(self, little_store: LittleStore) -> None:
        for number in range(3):
            little_store.journal.send(1000 + number, QUEUE_A, f"text {number} " + "x" * 300)
        store = little_store.open()
        state = store.core.loader.state
        path, offset = little_store.journal.path, state.ref(state.message_refs(1000)[0]).offset
        good = path.read_bytes()[offset : offset + 300]
        rot(path, offset, bytes(300))
        with pytest.raises(CoreRefused):
            lines_of_all(store)
        assert store.rebuilds == 1
        rot(path, offset, good)
        for rebuilds in (1, 1, 2):
            if rebuilds == 2:
                little_store.clock.advance(by_ms=DOUBT_INTERVAL_NS // 1_000_000)
            with pytest.raises(CoreRefused):
                lines_of_all(store)
            assert store.rebuilds == rebuilds
        assert bodies(lines_of_all(store)["work.a"])[0].startswith(b"text 0")
