"""The life of a store, in a mount and in a broker by turns: what each says is there, and what both go by."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from pathlib import Path
from typing import Any

from journalfs.ids import MessageId
from journalfs.store.write.store import WritingStore
from journalfs.views.queues import StoreQueue
from tests.broker.client import CoreClient
from tests.broker.sent import TEXT
from tests.broker.shell import QueuePath
from tests.broker.writing import account_of, body_text, delivery_order, lines_in
from tests.reference.journal import read_folder, replay
from tests.reference.primitives import Cursor
from tests.reference.store import ACK_REF, ADD_REF, DELIVERY_COUNT, SCHEDULED

QUEUES: dict[str, dict[str, dict[str, str]]] = {
    "life.news": {
        "life.news.all": {},
        "life.news.high": {"filter": "n > 4"},
        "life.news.red": {"filter": "color = 'red'"},
    },
    "life.work": {"life.work.a": {"routing-type": "ANYCAST"}, "life.work.b": {"routing-type": "ANYCAST"}},
    "life.paged": {"life.paged.one": {}, "life.paged.two": {"filter": "n > 4"}},
    "life.kinds": {"life.kinds.last": {"last-value-key": "color"}, "life.kinds.ring": {"ring-size": "7"}},
    "life.dead": {"life.dead": {"routing-type": "ANYCAST"}},
}
"""Address -> queue -> settings."""
SENT_TO = ("life.kinds", "life.news", "life.paged", "life.work")
PLAIN = tuple((address, name) for address in ("life.news", "life.work") for name in QUEUES[address])
MOVED_TO = tuple((address, name) for address, queues in QUEUES.items() for name in queues)
COMES_AND_GOES = tuple(("life.news", f"life.news.{name}") for name in "uvwxyz")
"""Queues of which some are there."""
OF_A_BROKER = {"DLQ", "ExpiryQueue", "$sys.mqtt.sessions"}
"""Queues that it makes when it starts."""
COLORS = ("red", "green", "blue")
LARGE_CHARS = 120_000
DUPLICATE_IDS = 40

Due = tuple[int, int, int, int, str]
"""Id, priority, delivery count, expiration and hash of the text of a message."""


@dataclass(frozen=True)
class Held:
    """What is in a queue."""

    due: Sequence[Due]
    """In the order of delivery; nothing where only the count is known."""
    later: Sequence[int]
    """Ids of what is scheduled."""
    count: int
    """With what a prepared transaction holds."""


Shown = dict[str, Held]


@dataclass
class Life:
    """What both sides go by."""

    chance: random.Random
    others: Sequence[QueuePath] = ()
    """Queues that were there before, of which messages are taken."""
    kept: frozenset[str] = frozenset()
    """Queues that are paused, or keep what they deliver."""
    by_count: frozenset[str] = frozenset(QUEUES["life.paged"])
    """Queues of which a broker cannot be asked for more: who browses one while it reads pages sees some of
    it, and a core client gets AMQP messages as the broker converts them.
    """
    prepared: list[str] = field(default_factory=list)
    come: set[str] = field(default_factory=set)
    """Those of `COMES_AND_GOES` that are there."""
    by_duplicate_id: dict[str, str] = field(default_factory=dict)
    """The text of the one message that was published with it."""
    made: int = 0
    log: list[str] = field(default_factory=list)

    @property
    def taken(self) -> Sequence[QueuePath]:
        """Queues that messages leave one by one."""
        return [
            *PLAIN,
            ("life.paged", "life.paged.one"),
            ("life.paged", "life.paged.two"),
            ("life.dead", "life.dead"),
            *self.others,
        ]

    def number(self) -> int:
        self.made += 1
        return self.made

    def duplicate_id(self, address: str) -> str:
        return f"{address} {self.chance.randrange(DUPLICATE_IDS)}"

    def once(self, store: WritingStore) -> None:
        """What had its duplicate id from a message that was taken is not there, whoever published either."""
        for line in (line for _, name in MOVED_TO for line in lines_in(store, name)):
            if "duplicateId" in line:
                first = self.by_duplicate_id.setdefault(line["duplicateId"], line["body"])
                assert first == line["body"], line["duplicateId"]

    def properties(self) -> dict[str, Any]:
        return {"n": self.chance.randrange(9), "color": self.chance.choice(COLORS)}

    def priority(self, address: str) -> int:
        """In pages all have the same: a broker brings what it read of them in the order of priorities."""
        return 4 if address == "life.paged" else self.chance.randrange(10)

    def length(self, address: str) -> int:
        if self.chance.random() < 0.05:
            return LARGE_CHARS
        return 2_000 if address == "life.paged" else self.chance.randrange(300)

    def differences(self, shown: Shown, had: Shown, *, counted: bool = True) -> dict[str, Any]:
        """Queue -> what a mount shows, and what a broker has, from where they differ. Not `counted`: however
        often it was delivered.
        """
        names = sorted((shown.keys() | had.keys()) - (OF_A_BROKER - shown.keys()))
        both = {name: (self._known(name, shown), self._known(name, had)) for name in names}
        if not counted:
            both = {name: (_uncounted(one), _uncounted(other)) for name, (one, other) in both.items()}
        return {name: _apart(*one) for name, one in both.items() if one[0] != one[1]}

    def _known(self, name: str, found: Shown) -> Held | None:
        held = found.get(name)
        return Held((), (), held.count) if held is not None and name in self.by_count else held


def _uncounted(held: Held | None) -> Held | None:
    return held and replace(held, due=[(*one[:2], 0, *one[3:]) for one in held.due])


def _apart(one: Held | None, other: Held | None) -> tuple[Any, ...]:
    if one is None or other is None:
        return one, other
    pairs = zip(one.due, other.due, strict=False)
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    return tuple((held.due[same:][:5], held.later, held.count) for held in (one, other))


def shown_by(store: WritingStore) -> Shown:
    found: Shown = {}
    for queue in (queue for address in store.addresses() for queue in address.queues()):
        assert isinstance(queue, StoreQueue)
        listing = queue.scheduled().listing()
        later = {int(listing.message_id(index)) for index in range(len(listing))}
        ids = [one for one in delivery_order(store, queue.name) if one not in later]
        found[queue.name] = Held([_as_it_is(queue, one) for one in ids], sorted(later), queue.message_count)
    return found


def _as_it_is(queue: StoreQueue, message_id: int) -> Due:
    """A line in a part stays as it was; this is now."""
    message = queue.message(MessageId(message_id))
    assert message is not None
    now: Any = message.envelope()
    of_text = now["type"] in ("text", "amqp-value") and isinstance(now["body"], str | None)
    digest = hashlib.sha256(body_text(now["body"])).hexdigest() if of_text else ""
    return message_id, now["priority"], now.get("deliveryCount", 0), now.get("expiration", 0), digest


def had_by(client: CoreClient, life: Life) -> Shown:
    account = account_of(client, leave_out=sorted(life.by_count))
    found: Shown = {}
    for name in account.queues:
        due = [
            (
                one["id"],
                one["priority"],
                one["deliveryCount"],
                one["expiration"],
                one["sha256"] if one["type"] == TEXT else "",
            )
            for one in account.messages.get(name, [])
        ]
        later = sorted(account.scheduled.get(name, []))
        found[name] = Held(due, later, int(account.queues[name]["messageCount"]))
    return found


def stale(journal: Path) -> set[tuple[int, int, int]]:
    """Message, queue and type of records that say when or how often a message is delivered to a queue that it
    is not in any more, or not yet. None where the store is in a database.
    """
    if not journal.is_dir():
        return set()
    there: set[tuple[int, int]] = set()
    found = set()
    for one in replay(file.scan.records for file in read_folder(journal)).records:
        if one.user_type not in (ADD_REF, ACK_REF, DELIVERY_COUNT, SCHEDULED):
            continue
        place = one.record_id, Cursor(one.body).i64()
        if one.user_type == ADD_REF:
            there.add(place)
        elif one.user_type == ACK_REF:
            there.discard(place)
        elif place not in there:
            found.add((*place, one.user_type))
    return found
