"""What a history holds, in queues once more: all of it once, wherever a replay was killed."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio

from journalfs.cli.replay import books_of_replay
from journalfs.errors import EXIT_DAMAGED, AddressFull, BooksDoNotBalance, JournalfsError, WrongCall
from journalfs.store import open_store, replay_plan
from journalfs.store.replay_plan import Asked, Replayed
from journalfs.store.write.opening import change_in, open_for_writing
from journalfs.store.write.store import WritingStore
from tests.cli.running import journalfs
from tests.frozen import PristineStores, load_expected
from tests.history.test_reading import body_and_time, lines_of
from tests.tools.crash_copy import copy_as_left

INTO_DLQ = Asked(sources=("payments",), target=("DLQ", "DLQ"))
KEPT = 'journal-retention-directory = "history"\njournal-retention-max-bytes = 100000000\n'
ITS_OWN = {"id", "address", "queue", "deliveryCount", "userId", "largeMessage", "_AMQ_LARGE_SIZE"}
"""What a copy has otherwise: what a broker keeps whole though it is large becomes a large message."""
PROPERTIES = {"_AMQ_ORIG_QUEUE", "_AMQ_ORIG_ADDRESS", "_AMQ_ORIG_MESSAGE_ID"}


def done(
    root: Path, asked: Asked, tell: Callable[[], None] = lambda: None, *, again: bool = False
) -> Replayed:
    async def run(store: WritingStore) -> Replayed:
        return await store.history.publish(asked, again=again, progress=lambda *_: tell())

    store = open_for_writing(root)
    return trio.run(change_in, store, run, store.journals.run)


def in_dlq(root: Path) -> Counter[tuple[object, object]]:
    store = open_store(root)
    try:
        found = lines_of(store, "DLQ", "DLQ")
        assert not any(PROPERTIES & one.get("properties", {}).keys() for one in found), "nothing is noted"
        assert {one.get("address", "DLQ") for one in found} <= {"DLQ"}
        return Counter(map(body_and_time, found))
    finally:
        store.close()


WANTED = Counter(map(body_and_time, load_expected("retention")["retentionReplay"]["messages"]))


@pytest.fixture
def root(store_copy: Callable[[str], Path]) -> Path:
    return store_copy("retention") / "data"


def test_the_same_as_the_brokers_own(root: Path) -> None:
    assert done(root, INTO_DLQ).sent == {("DLQ", "DLQ"): 1202}
    assert in_dlq(root) == WANTED


@pytest.mark.rule("S-253")
def test_killed_between_any_two_windows_it_goes_on(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what it sent itself, which is in the journal by now, is not sent again, nor is one that was done
    part of a larger window, as when older files went meanwhile.
    """
    monkeypatch.setattr(replay_plan, "WINDOW_BYTES", 1)
    left: list[Path] = []

    def keep() -> None:
        left.append(tmp_path / f"left-{len(left)}")
        copy_as_left(root, left[-1])

    done(root, INTO_DLQ, keep)
    assert len(left) > 8
    monkeypatch.setattr(replay_plan, "WINDOW_BYTES", 1 << 26)
    for one in left[::3]:
        before = in_dlq(one)
        replayed = done(one, INTO_DLQ)
        assert replayed.before == before.total()
        assert in_dlq(one) == WANTED
        shutil.rmtree(one)


def test_done_is_done(root: Path) -> None:
    done(root, INTO_DLQ)
    with pytest.raises(WrongCall, match="replayed already, 1202 messages"):
        done(root, INTO_DLQ)
    done(root, INTO_DLQ, again=True)
    assert in_dlq(root) == WANTED + WANTED, "what was replayed is not of what was asked for"


def test_nobody_loses_what_fails(root: Path) -> None:
    with pytest.raises(JournalfsError):
        done(root, Asked(target=("DLQ", "none")))
    with pytest.raises(JournalfsError):
        done(root, Asked(selector="n >", target=("DLQ", "DLQ")))
    assert not in_dlq(root)


def test_what_was_sent_is_in_memory_no_more(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long a replay takes, next to nothing of the 4 MB that it wrote is in memory."""
    monkeypatch.setattr(replay_plan, "WINDOW_BYTES", 1)
    held: list[int] = []

    def look() -> None:
        mapped = Path("/proc/self/smaps").read_text().split(f" {root}/journal/")[1:]
        held.append(sum(int(one.partition("Rss:")[2].split()[0]) for one in mapped))

    done(root, INTO_DLQ, look)
    assert len(held) > 8
    assert max(held[1:]) < 512


def test_by_selector_and_range_into_their_own_queues(root: Path) -> None:
    asked = Asked(begin="2026-11-21T09:23:00Z", selector="n < 10")
    replayed = done(root, asked)
    assert replayed.sent[("payments", "payments")] == 10
    store = open_store(root)
    again = [
        one for one in lines_of(store, "payments", "payments") if one.get("properties", {}).get("n", 99) < 10
    ]
    assert len(again) == 10
    store.close()


PAGED = {"backlog", "events", "ledger", "flash", "drained", "amqp.backlog", "limit.drop", "limit.fail"}
"""Addresses whose pages are in no journal."""
LAST_VALUES = {"$sys.mqtt.retain.large.topic", "$sys.mqtt.sessions"}


@pytest.mark.parametrize(
    ("name", "left_out", "undecided"),
    [
        ("transactions", {"tx.paged"}, 2),  # its pages are in no journal; two are prepared
        ("amqp-exotic", set(), 0),  # few say when they were sent
        ("compacted", set(), 0),  # transactions that were open then
        ("orders-basic", {"last.values", "ring"}, 0),  # these have the last ones only
        ("large-and-paged", PAGED | LAST_VALUES, 0),  # bodies of what was taken are gone
        pytest.param("killed", set(), 0, marks=pytest.mark.long),
        pytest.param("amqp-mqtt-stomp-openwire", {"$sys.mqtt.sessions"}, 0, marks=pytest.mark.long),
    ],
)
def test_whatever_is_there_comes_once_more(
    name: str, left_out: set[str], undecided: int, store_copy: Callable[[str], Path]
) -> None:
    """As it is, from a journal that nothing was kept of beside itself; nothing that was rolled back does."""
    root = store_copy(name) / "data"
    (root / "history").mkdir()
    (root / "journalfs.toml").write_text(KEPT)
    before = _all(root)
    replayed = done(root, Asked(sources=tuple({address for address, _ in before} - left_out)))
    there = {path: lines for path, lines in _all(root).items() if path[0] not in left_out}
    again = {path: lines - before.get(path, Counter()) for path, lines in there.items()}
    assert (replayed.undecided, replayed.damaged) == (undecided, 5 * (name == "large-and-paged"))
    assert {path: lines.total() for path, lines in again.items() if lines} == replayed.sent
    for path, lines in again.items():
        assert not before.get(path, Counter()) - lines, path
        assert not [one for one in lines if "rolled" in one]


def test_a_full_address_says_how_it_goes_on(store_copy: Callable[[str], Path]) -> None:
    root = store_copy("large-and-paged") / "data"
    (root / "history").mkdir()
    (root / "journalfs.toml").write_text(KEPT)
    for full in ("limit.fail", "limit.drop"):
        with pytest.raises(AddressFull, match=r"consume messages or raise it, and repeat the same replay"):
            done(root, Asked(sources=(full,)))


def _without_its_own(line: dict[str, Any]) -> dict[str, Any]:
    for key in ("properties", "propertyTypes"):
        kept = {name: value for name, value in line.pop(key, {}).items() if name not in ITS_OWN}
        line |= {key: kept} if kept else {}
    return {key: value for key, value in line.items() if key not in ITS_OWN}


def _all(root: Path) -> dict[tuple[str, str], Counter[str]]:
    """All that is live by queue, without what is another's when it was sent again."""
    store = open_store(root)
    try:
        return {
            (address.name, queue.name): Counter(
                json.dumps(_without_its_own(line), sort_keys=True)
                for line in lines_of(store, address.name, queue.name)
            )
            for address in store.addresses()
            for queue in address.queues()
        }
    finally:
        store.close()


def refused(root: Path, *words: str) -> str:
    told = journalfs("replay", root, *words)
    assert told.returncode > 0
    return told.stderr


def test_commands(root: Path, stores: PristineStores) -> None:
    planned = journalfs("replay", root, "--dry-run", "--from", "2026-11-21T00:00Z", "payments")
    assert planned.stdout == "payments::payments: 1202 would be replayed\n"
    (books, *rows) = planned.stderr.splitlines()
    assert books == "source 1,682; in the queues 1,202; not in the queues: 480 not-asked-for"
    # A transaction that sent nothing leaves nothing out.
    assert not [row for row in rows if "undecided" in row]
    assert not in_dlq(root)
    assert "keeps no history" in journalfs("replay", stores["aio"] / "data", "--dry-run").stderr
    command = ("replay", root, "payments", "--to-queue", "DLQ::DLQ", "--json")
    assert journalfs(*command).stdout == '{"address":"DLQ","queue":"DLQ","messages":1202}\n'
    assert "--again" in journalfs(*command).stderr
    assert "say ADDRESS::QUEUE" in journalfs("replay", root, "--to-queue", "DLQ").stderr
    assert "nowhere::none: there is no such queue" in refused(
        root, "--dry-run", "--to-queue", "nowhere::none"
    )
    for how in ("--dry-run", "--name=typo"):
        assert "mistyped: there is no such address or queue" in refused(root, how, "mistyped")
        assert "selector" in refused(root, how, "--from", "2100-01-01", "--where", "n >")
    assert "before it begins" in refused(root, "--from", "2026-01-02", "--to", "2026-01-01")
    assert "a time is" in refused(root, "--from", "nonsense")
    shutil.rmtree(root / "retention")
    for how in ("--dry-run", "--again"):
        assert f"{root}/retention: no such directory, for the history" in refused(root, how)


@pytest.mark.rule("S-381")
def test_the_books_of_a_replay() -> None:
    """A canary: one message that the history has neither went nor was left out."""
    history = {
        "source": {"a::a": 5, "b::b": 3},
        "left": [{"queue": "b::b", "why": "filtered", "messages": 3}],
    }
    told: dict[str, object] = {"queues": [{"messages": 5}], "undecided": 0, "unread": 0, "books": history}
    assert books_of_replay(told).exit_code == 0
    assert books_of_replay({**told, "undecided": 1}).exit_code == EXIT_DAMAGED
    with pytest.raises(BooksDoNotBalance):
        books_of_replay({**told, "queues": [{"messages": 4}]})
