"""Directories in `.journalfs/transactions` on a mount whose broker runs: what is put into one is sent in one
transaction of the broker when it is committed. Messages of queues cannot be held in one: a broker's
management takes them one by one.
"""

from __future__ import annotations

import shutil
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Never, TypeAlias

from journalfs import door
from journalfs.api import HeldInDraft, Patience, QueuePath, Send
from journalfs.clock import Clock
from journalfs.errors import NameTaken, NoSuchName
from journalfs.ids import MessageId
from journalfs.through.errors import NotThrough

SendFiles: TypeAlias = tuple[str, str | None, Sequence[tuple[Path, str]]]
"""Where files go, and they, with the names that say what one message is."""
PublishSends: TypeAlias = Callable[[Sequence[SendFiles]], Awaitable[None]]

_BY_ONE = "a broker takes messages away one by one, so none can be held by a transaction"


class ThroughDraft:
    """A transaction that was begun and has not ended."""

    def __init__(self, name: str, begun_ms: int, maker: tuple[int, int], staged: Path) -> None:
        self.name = name
        self.begun_ms = begun_ms
        self.maker = maker
        self.staged = staged

    @property
    def places(self) -> Mapping[QueuePath, Mapping[int, HeldInDraft]]:
        return {}

    def status(self) -> Mapping[str, object]:
        return {"name": self.name, "begun": self.begun_ms, "state": "active", "messages": 0}

    def operations(self) -> Sequence[Mapping[str, object]]:
        return ()


class ThroughTransactions:
    """Those made here. They end with the mount: the broker knows nothing of one before its commit."""

    def __init__(self, publish: PublishSends, staging: Callable[[], Path], clock: Clock) -> None:
        """`publish` has the broker do all sends of one transaction; `staging` is a folder for files."""
        self._publish = publish
        self._staging = staging
        self._clock = clock
        self._drafts: dict[str, ThroughDraft] = {}

    def drafts(self) -> Sequence[ThroughDraft]:
        return list(self._drafts.values())

    def draft(self, name: str) -> ThroughDraft | None:
        return self._drafts.get(name)

    async def begin(self, name: str, uid: int = -1, gid: int = -1) -> None:
        if name in self._drafts:
            raise NameTaken(f"there is a transaction {name}")
        now_ms = self._clock.now_ms()
        staged = self._staging() / "transactions" / f"{now_ms}-{len(self._drafts)}"
        door.make_folders(staged)
        self._drafts[name] = ThroughDraft(name, now_ms, (uid, gid), staged)

    async def hold(
        self, name: str, source: QueuePath, message_ids: Sequence[MessageId], target: QueuePath | None
    ) -> int:
        self._refuse()

    async def give_back(self, name: str, place: QueuePath, message_ids: Sequence[MessageId]) -> int:
        self._refuse()

    def _refuse(self) -> Never:
        raise NotThrough(_BY_ONE)

    async def commit(self, name: str, sends: Sequence[Send], patience: Patience) -> None:
        self._named(name)
        await self._publish([(one.address, one.queue, one.files) for one in sends])
        self._forget(name)

    async def prepare(self, name: str, xid: str, sends: Sequence[Send], patience: Patience) -> None:
        raise NotThrough("a transaction cannot be prepared through a broker")

    async def roll_back(self, name: str) -> None:
        self._named(name)
        self._forget(name)

    def _named(self, name: str) -> ThroughDraft:
        found = self._drafts.get(name)
        if found is None:
            raise NoSuchName(f"there is no transaction {name}")
        return found

    def _forget(self, name: str) -> None:
        shutil.rmtree(self._drafts.pop(name).staged, ignore_errors=True)


class NoPrepared:
    """`PreparedTransactions`: they are the broker's to decide."""

    async def decide(self, name: str, *, committed: bool) -> None:
        raise NotThrough("prepared transactions are decided in the broker's console")

    def decided(self, *, committed: bool) -> Mapping[str, int]:
        return {}

    def decision(self, name: str, *, committed: bool) -> int | None:
        return None

    async def forget(self, name: str, *, committed: bool) -> None:
        raise NotThrough("prepared transactions are decided in the broker's console")
