"""What `journalfs top` shows, without a screen: rates by a clock that stands, order, filter, pages."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

import journalfs
from journalfs.errors import JournalfsError, NoMessage, WrongCall
from journalfs.python.glimpses import Glimpse
from journalfs.python.store import Glimpses
from journalfs.store.queue_counts import QueueCounts
from journalfs.top import actions, showing
from journalfs.top.actions import Chosen
from journalfs.top.listing import SORTS, QueueList
from journalfs.top.looking import Looking
from journalfs.top.pages import PAGE, PAGES_KEPT, MessagePages
from journalfs.top.rates import STILL, WINDOW_S, Rate, Rates
from tests.mounting import journalfs as command

QUIET = QueueCounts(
    address="a", queue="q", id=7, messages=100, delivering=0, paged=0, left=0, body_bytes=0,
    oldest_timestamp=None, limit=None, letters=False,
)  # fmt: skip


def counts(messages: int, left: int, **others: int) -> Sequence[QueueCounts]:
    return [msgspec.structs.replace(QUIET, messages=messages, left=left, **others)]


def test_rates_count_what_came_and_went_between_looks() -> None:
    rates = Rates()
    rates.feed(100.0, counts(100, 0))
    assert (rates.known, rates.of(7)) == (False, STILL)
    rates.feed(102.0, counts(110, 30))
    assert (rates.known, rates.of(7)) == (True, Rate(20.0, 15.0)), "40 came, 30 went"
    rates.feed(104.0, counts(110, 30))
    assert rates.of(7) == Rate(10.0, 7.5)


def test_rates_end_with_their_window_and_take_no_memory_then() -> None:
    rates = Rates()
    rates.feed(0.0, counts(0, 0))
    rates.feed(1.0, counts(50, 0))
    rates.feed(1.0 + WINDOW_S / 2, counts(50, 0))
    assert rates.of(7) == Rate(50 / (1.0 + WINDOW_S / 2), 0.0)
    rates.feed(1.0 + WINDOW_S, counts(50, 0))
    assert rates.of(7) == STILL
    assert rates.moving == 0


def test_a_journal_that_is_read_again_is_no_flood() -> None:
    rates = Rates()
    rates.feed(0.0, counts(100, 1_000_000))
    rates.feed(1.0, counts(100, 0))
    assert rates.of(7) == STILL
    rates.feed(2.0, counts(100, 5))
    assert rates.of(7) == Rate(5.0, 5.0)


def test_rates_of_pages_are_differences() -> None:
    rates = Rates()
    rates.feed(0.0, counts(100, 0, paged=60))
    rates.feed(1.0, counts(150, 0, paged=110))
    assert rates.of(7) == Rate(50.0, 0.0)
    rates.feed(2.0, counts(120, 0, paged=80))
    assert rates.of(7) == Rate(25.0, 15.0)


def test_a_prepared_transaction_takes_nothing_away_yet() -> None:
    rates = Rates()
    rates.feed(0.0, counts(100, 0))
    rates.feed(1.0, counts(90, 0, delivering=10))
    assert rates.of(7) == STILL


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def path(tmp_path: Path) -> Path:
    assert command("create", "--journal-type", "NIO", tmp_path / "store").returncode == 0
    with journalfs.open(tmp_path / "store", write=True) as store:
        for name, messages in (("orders::billing", 5), ("orders::shipping", 2), ("Jobs::jobs", 3)):
            queue = store.create(name)
            for number in range(messages):
                queue.publish(f"text {number}", properties={"n": number})
    return tmp_path / "store"


def test_queues_are_sorted_and_filtered(path: Path) -> None:
    looking = Looking(path, write=False, now_s=Clock())
    queues = QueueList(looking, lambda: 0)
    assert (len(queues), looking.changes) == (0, False)
    looking.look()

    def names() -> list[str]:
        queues.show()
        return queues.names(0, 3)

    assert names() == ["orders::billing", "Jobs::jobs", "orders::shipping"]
    queues.sort = "name"
    assert names() == ["DLQ::DLQ", "ExpiryQueue::ExpiryQueue", "Jobs::jobs"]
    queues.reverse = True
    assert names()[0] == "orders::shipping"
    queues.sort, queues.reverse = "oldest", False
    assert names()[0] == "orders::billing"
    for queues.sort in SORTS:
        names()
    for queues.filter, found in (
        ("ORD", ["orders::billing", "orders::shipping"]),
        ("*::jobs", ["Jobs::jobs"]),
        ("nope", []),
    ):
        assert sorted(names()) == found
    looking.close()


def test_details_are_asked_for_when_they_are_seen_and_are_old(path: Path) -> None:
    clock = Clock()
    looking = Looking(path, write=True, now_s=clock)
    queues = QueueList(looking, lambda: 0)
    looking.look()
    queues.show()
    assert queues.row(0)[5] == "…"
    looking.ask_details(queues.names(0, 1))
    assert queues.row(0)[5:7] == ("0", "0")
    looking.store["orders::billing"].publish("later", delay="1h")
    looking.ask_details(queues.names(0, 1))
    assert queues.row(0)[6] == "0", "it was asked for just now"
    clock.now += 3
    looking.ask_details(queues.names(0, 1))
    assert queues.row(0)[6] == "1"
    looking.ask_limits(["orders"])
    limit = looking.limit("orders")
    assert limit is not None
    assert (limit.size_bytes > 0, limit.limit) == (True, None)
    looking.close()


class CountedPages:
    """The glimpses of a queue, with what they are asked for."""

    def __init__(self, found: Glimpses) -> None:
        self._found = found
        self.asked: list[tuple[int, int]] = []

    def count(self) -> int:
        return self._found.count()

    def page(self, begin: int, count: int) -> Sequence[Glimpse]:
        self.asked.append((begin, count))
        return self._found.page(begin, count)

    def close(self) -> None:
        self._found.close()


@pytest.mark.rule("S-445")
def test_no_more_messages_are_asked_for_than_are_seen(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with journalfs.open(path, write=True) as store:
        queue = store["orders::billing"]
        queue.publish_lines(b'{"type":"text","body":"x"}\n' * (PAGE * (PAGES_KEPT + 4)))
        counted = CountedPages(queue.glimpses())
        monkeypatch.setattr(type(queue), "glimpses", lambda _: counted)
        pages = MessagePages(queue)
        pages.look()
        assert counted.asked == []
        pages.ask(100, 130)
        assert counted.asked == [(64, 64), (128, 64)]
        pages.ask(110, 128)
        assert len(counted.asked) == 2, "they are at hand"
        assert pages.row(110)[6] == "x"
        assert pages.row(500)[0] == "…"
        for begin in range(0, pages.count, PAGE):
            pages.ask(begin, begin + 1)
        assert sum(pages.at(begin) is not None for begin in range(0, pages.count, PAGE)) == PAGES_KEPT
        pages.close()


@pytest.mark.rule("S-444")
def test_plans_say_what_they_do_and_do_it(path: Path) -> None:
    with journalfs.open(path, write=True) as store:
        billing = store["orders::billing"]
        first = next(iter(billing))
        one = Chosen(billing, 1, ids=[first.id or 0])
        plan = actions.move(one, store, "Jobs")
        assert "They arrive last in Jobs::jobs, which has 3 messages." in plan.effects
        assert len(billing) == 5
        assert plan.do() == "1 message moved to Jobs::jobs"
        chosen = Chosen(billing.where("n > 2"), 2, selector="n > 2")
        plan = actions.remove(chosen)
        assert plan.effects[0].startswith("the 2 messages of orders::billing where n > 2 are acknowledged")
        assert plan.do() == "2 messages removed; u brings them back"
        plan = actions.undo(store)
        assert plan.effects == ["2 messages come back to orders::billing."]
        assert plan.do() == "2 messages are back"
        last = next(iter(billing.where("n = 1")))
        assert actions.edit(billing, last, "new").do() == f"message {last.id} was replaced"
        assert "new" in [message.body for message in billing]
        wrong: tuple[tuple[type[JournalfsError], object], ...] = (
            (NoMessage, lambda: actions.remove(Chosen(store["DLQ::DLQ"], 0))),
            (WrongCall, lambda: actions.move(one, store, "orders")),
            (WrongCall, lambda: actions.move(one, store, "orders::billing")),
            (WrongCall, lambda: actions.redrive(Chosen(billing, 5))),
        )
        for kind, act in wrong:
            with pytest.raises(kind):
                act()  # type: ignore[operator]


def test_one_message_in_full() -> None:
    message = journalfs.Message(
        b'{"queue":"DLQ","address":"DLQ","id":9,"protocol":"CORE","type":"text","durable":true,"priority":4,'
        b'"timestamp":1764000000000,"deliveryCount":2,"properties":{"_AMQ_ORIG_ADDRESS":"jobs",'
        b'"_AMQ_ORIG_QUEUE":"jobs","_AMQ_ACTUAL_EXPIRY":1764000001000,"n":1,"\\u001b":"x"},'
        b'"propertyTypes":{"n":"short"},"body":"{\\"a\\": [1]}"}'
    )
    assert showing.body_lines(message) == ["{", '  "a": [', "    1", "  ]", "}"]
    assert showing.body_lines(message, as_hex=True)[0].startswith("00000000  7b 22 61")
    rows = dict(showing.header_rows(message))
    assert (rows["id"], rows["n"], rows["deliveryCount"]) == ("9", "1 (short)", "2")
    assert "\x1b" not in "".join(rows), "a name is no command to a terminal"
    assert showing.history_lines(message) == [
        "2025-11-24 16:00:00  sent to DLQ",
        "came from jobs::jobs: its time was over there",
        "2025-11-24 16:00:01  expired",
        "delivered 2 times in vain",
    ]
    long = journalfs.Message(b'{"id":1,"type":"text","body":"%s"}' % (b"x" * 70_000))
    assert showing.body_lines(long)[-1] == "… 4,464 bytes more"
