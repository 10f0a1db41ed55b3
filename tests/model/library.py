"""The world of the library: one store that stays open, on a clock of the test's own."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import trio

from journalfs.broker.consume.delivering import Consumer
from journalfs.clock import FakeClock
from journalfs.errors import AddressFull
from journalfs.ids import MessageId
from journalfs.store.write.opening import open_for_writing
from journalfs.store.write.store import WritingStore
from journalfs.views.queues import StoreQueue
from tests.broker.writing import lines_in, publish, queue_in
from tests.model.model import DEAD_LETTERS, EXPIRED, RING_SIZE, SELECTOR, Kind, Message, QueueSeen, Seen
from tests.model.world import SUFFIXES, Framing, QueuePath, content_of, in_order, kind_settings

T = TypeVar("T")
NO_KIND: Mapping[str, str] = {
    "filter": "",
    "last-value": "false",
    "last-value-key": "",
    "ring-size": "-1",
    "exclusive": "false",
}


def body_of(line: Mapping[str, Any]) -> str:
    if "body_base64" in line:
        return base64.b64decode(line["body_base64"]).decode()
    return str(line["body"])


class Library:
    """The event loop that the store wants runs in a thread of its own."""

    restarts = True

    def __init__(self, root: Path, now_ms: int) -> None:
        self._root = root
        self._clock = FakeClock(wall_ms=now_ms)
        self._store: WritingStore | None = None
        self._opened = threading.Event()
        self._open()
        for name in (DEAD_LETTERS, EXPIRED):
            self.create_address(name)
            self.create_queue((name, name), Kind())

    def _open(self) -> None:
        self._opened.clear()
        self._thread = threading.Thread(target=trio.run, args=(self._serve,))
        self._thread.start()
        self._opened.wait()

    async def _serve(self) -> None:
        try:
            store = open_for_writing(self._root, clock=self._clock)
            self._token, self._end = trio.lowlevel.current_trio_token(), trio.Event()
            self._store = store
        finally:
            self._opened.set()
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(store.run)
                await self._end.wait()
                nursery.cancel_scope.cancel()
        finally:
            store.close()

    def close(self) -> None:
        trio.from_thread.run_sync(self._end.set, trio_token=self._token)
        self._thread.join()

    def _do(self, work: Callable[[WritingStore], Awaitable[T]]) -> T:
        store = self._store
        assert store is not None
        return trio.from_thread.run(lambda: work(store), trio_token=self._token)

    def _look(self, look: Callable[[WritingStore], T]) -> T:
        async def work(store: WritingStore) -> T:
            return look(store)

        return self._do(work)

    def _ids(self, path: QueuePath, bodies: Sequence[str]) -> list[MessageId]:
        ids = {body_of(line): line["id"] for line in self._look(lambda store: lines_in(store, path[1]))}
        return [MessageId(ids[body]) for body in bodies]

    # ---- changes ----

    def create_address(self, name: str) -> None:
        self._do(lambda store: store.create_address(name))

    def delete_address(self, name: str) -> None:
        self._do(lambda store: store.delete_address(name))

    def create_queue(self, path: QueuePath, kind: Kind) -> None:
        async def work(store: WritingStore) -> None:
            await store.create_queue(*path)
            for name, value in kind_settings(kind, RING_SIZE, SELECTOR).items():
                await store.set_attribute(*path, f"user.journalfs.{name}", value.encode())

        self._do(work)

    def change_queue(self, path: QueuePath, kind: Kind) -> None:
        async def work(store: WritingStore) -> None:
            for name, value in {**NO_KIND, **kind_settings(kind, RING_SIZE, SELECTOR)}.items():
                await store.set_attribute(*path, f"user.journalfs.{name}", value.encode())

        self._do(work)

    def delete_queue(self, path: QueuePath) -> None:
        self._do(lambda store: store.delete_queue(*path))

    def publish(self, address: str, queue: str | None, framing: Framing, messages: Sequence[Message]) -> None:
        name, content = f"in{SUFFIXES[framing]}", content_of(framing, messages)
        self._do(lambda store: publish(store, address, queue, name, content))

    def offer(self, address: str, framing: Framing, message: Message) -> bool:
        try:
            self.publish(address, None, framing, [message])
        except AddressFull:
            return False
        return True

    def acknowledge(self, path: QueuePath, bodies: Sequence[str]) -> None:
        ids = self._ids(path, bodies)
        assert self._do(lambda store: store.acknowledge(path, ids)) == len(ids)

    def acknowledge_all(self, path: QueuePath) -> None:
        names = self._look(lambda store: [part.name for part in queue_in(store, path[1]).parts()])
        for name in (*names, "_tail.jsonl"):
            self._do(lambda store, name=name: store.acknowledge_part(path, name))  # type: ignore[misc]

    def acknowledge_selected(self, path: QueuePath) -> None:
        def ids(store: WritingStore) -> list[MessageId]:
            listing = queue_in(store, path[1]).where(SELECTOR).listing()
            return [listing.message_id(index) for index in range(len(listing))]

        chosen = self._look(ids)
        assert self._do(lambda store: store.acknowledge(path, chosen)) == len(chosen)

    def move(self, source: QueuePath, bodies: Sequence[str], target: QueuePath) -> None:
        ids = self._ids(source, bodies)
        assert self._do(lambda store: store.move(source, ids, target)) == len(ids)

    # ---- consuming ----

    def take(self, path: QueuePath, count: int) -> list[str]:
        async def work(store: WritingStore) -> list[str]:
            consumer, taken = store.consumer(path), []
            for _ in range(count):
                delivery = consumer.take()
                assert delivery is not None
                taken.append(body_of(_line(delivery.line)))
                await delivery.acknowledge()
            await consumer.close()
            return taken

        return self._do(work)

    def compete(self, path: QueuePath, count: int) -> tuple[list[str], list[str]]:
        async def taken(consumer: Consumer, wanted: int) -> list[str]:
            found = []
            for _ in range(wanted):
                delivery = consumer.take()
                if delivery is not None:
                    found.append(body_of(_line(delivery.line)))
                    await delivery.acknowledge()
            return found

        async def work(store: WritingStore) -> tuple[list[str], list[str]]:
            first, second = store.consumer(path), store.consumer(path)
            of_first = await taken(first, count)
            of_second = await taken(second, 1)
            await first.close()
            of_second += await taken(second, 1)
            await second.close()
            return of_first, of_second

        return self._do(work)

    def give_back(self, path: QueuePath) -> str:
        async def work(store: WritingStore) -> str:
            consumer = store.consumer(path)
            delivery = consumer.take()
            assert delivery is not None
            body = body_of(_line(delivery.line))
            await delivery.give_back(failed=True)
            await consumer.close()
            return body

        return self._do(work)

    # ---- time, and being opened again ----

    def pass_time(self, now_ms: int) -> None:
        async def work(store: WritingStore) -> None:
            self._clock.advance(by_ms=now_ms - self._clock.now_ms())
            await store.look()
            await store.expire_due()

        self._do(work)

    def restart(self) -> None:
        self.close()
        self._open()

    # ---- what is there ----

    def seen(self, path: QueuePath) -> QueueSeen:
        def look(store: WritingStore) -> QueueSeen:
            queue = queue_in(store, path[1])
            found = [_seen(envelope) for envelope in _delivered(queue)]
            count = queue.status()["messageCount"]
            assert isinstance(count, int)
            return in_order(found, self._clock.now_ms(), count)

        return self._look(look)

    def arrived(self, path: QueuePath) -> list[str] | None:
        return [body_of(line) for line in self._look(lambda store: lines_in(store, path[1]))]

    def sent_on(self, path: QueuePath) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for line in self._look(lambda store: _delivered(queue_in(store, path[1]))):
            found.setdefault(line["properties"]["_AMQ_ORIG_QUEUE"], []).append(body_of(line))
        return found


def _line(source: Any) -> Mapping[str, Any]:
    line: Mapping[str, Any] = json.loads(bytes(source.read(0, source.size_bytes)))
    return line


def _delivered(queue: StoreQueue) -> list[Mapping[str, Any]]:
    """Envelopes as they are now, in the order of delivery: parts show them as they were."""
    listing, found = queue.listing(), []
    for index in range(len(listing)):
        message = queue.message(listing.message_id(index))
        assert message is not None
        found.append(message.envelope())
    return found


def _seen(line: Mapping[str, Any]) -> Seen:
    return Seen(
        body_of(line),
        line["priority"],
        line.get("expiration", 0),
        line.get("groupId", ""),
        line.get("deliveryCount", 0),
        line.get("scheduledTime", 0),
    )
