"""Books of what was carried: sums by queue, what is told, and exit codes."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from journalfs.account.books import NO_QUEUE, Books, NotCarried, SetAside, not_asked_for
from journalfs.account.entries import (
    NONE,
    UNKNOWN,
    Account,
    Count,
    Entry,
    Standing,
    Totals,
    at_most,
    exactly,
)
from journalfs.errors import BooksDoNotBalance

QUEUE = "claims::claims"


def entry(standing: Standing, messages: Count, *, certain: bool = True) -> Entry:
    return Entry(standing, QUEUE, "kind", "journal/a.amq", 5, 0, "why", "do", messages, certain)


def account(totals: Totals, entries: Sequence[Entry] = ()) -> Account:
    return Account("/store", entries, {QUEUE: totals}, totals)


def lost(standing: Standing, messages: Count, *, asked: bool = False) -> NotCarried:
    return NotCarried(QUEUE, standing, "why", messages, "kind", asked)


def test_a_whole_store_that_was_carried_whole_ends_with_0() -> None:
    books = Books.of(account(Totals(live=3, scheduled=1, prepared=2)), {QUEUE: 6})
    books.balance()
    assert books.exit_code == 0
    assert list(books.lines()) == ["source 6; in NEW 6; not in NEW: 0"]


def test_sums_are_told_by_queue_and_reason() -> None:
    totals = Totals(live=4052, undecided=495, damaged=5)
    given = [entry(Standing.UNDECIDED, exactly(495)), entry(Standing.DAMAGED, exactly(5))]
    rows = [lost(Standing.UNDECIDED, exactly(495)), lost(Standing.DAMAGED, exactly(5))]
    books = Books.of(account(totals, given), {QUEUE: 4052}, rows)
    books.balance()
    assert books.exit_code == 5
    lines = list(books.lines())
    assert lines[0] == "source 4,552; in NEW 4,052; not in NEW: 5 damaged, 495 undecided"
    assert lines[1] == f"{QUEUE}: source 4,552; in NEW 4,052"
    assert books.as_json()["sourceMessages"] == 4552


@pytest.mark.parametrize("carried", [9, 11])
def test_sums_that_do_not_balance_are_a_fault_of_ours(carried: int) -> None:
    books = Books.of(account(Totals(live=10)), {QUEUE: carried})
    with pytest.raises(BooksDoNotBalance, match=rf"{QUEUE}.*10 .*{carried} .*fault of journalfs"):
        books.balance()


def test_a_queue_that_the_source_has_not_does_not_balance() -> None:
    with pytest.raises(BooksDoNotBalance, match="other::other"):
        Books.of(account(Totals(live=1)), {QUEUE: 1, "other::other": 1}).balance()


def test_what_was_set_aside_is_in_what_was_made_and_ends_with_5() -> None:
    given = [entry(Standing.DAMAGED, exactly(2))]
    aside = SetAside(QUEUE, "damaged::damaged", Standing.DAMAGED, 2, "its body is cut")
    books = Books.of(account(Totals(live=1, damaged=2), given), {QUEUE: 1}, set_aside=[aside])
    books.balance()
    assert books.exit_code == 5
    assert "in NEW 3, of these 2 damaged in damaged::damaged; not in NEW: 0" in books.sentence()


def test_what_the_caller_left_ends_with_0() -> None:
    books = Books.of(account(Totals(live=5)), {QUEUE: 2}, [not_asked_for(QUEUE, 3, "--since 10:00")])
    books.balance()
    assert books.exit_code == 0
    assert "3 not-asked-for" in books.sentence()


def test_queues_that_an_option_left_are_one_line() -> None:
    names = [f"a{number}::q" for number in range(5)]
    totals = {name: Totals(live=2) for name in [*names, QUEUE]}
    given = Account("/store", [entry(Standing.DAMAGED, exactly(1))], totals, Totals(live=12))
    rows = [*(not_asked_for(name, 2, "--queue claims::claims") for name in names)]
    rows += [not_asked_for(QUEUE, 1, "--where n > 5"), lost(Standing.DAMAGED, exactly(1))]
    books = Books.of(given, {}, rows)
    books.balance()
    assert list(books.lines())[1:] == [
        "not in NEW: 10 not-asked-for of 5 queues: --queue claims::claims",
        f"not in NEW: 1 not-asked-for of {QUEUE}: --where n > 5",
        f"{QUEUE}: source 2; in NEW 0",
        "  not in NEW: 1 damaged: why",
    ]
    assert len(books.as_json()["notCarried"]) == 7  # type: ignore[arg-type]


@pytest.mark.parametrize("count", [exactly(3), at_most(3), UNKNOWN])
def test_what_is_missing_is_told_and_takes_no_part_in_the_sums(count: Count) -> None:
    totals = Totals(live=5, missing=count)
    books = Books.of(account(totals, [entry(Standing.MISSING, count)]), {QUEUE: 5})
    books.balance()
    assert books.exit_code == 5
    assert f"missing in the source: {count.text()}" in books.sentence()


def test_what_may_be_missing_ends_with_5() -> None:
    given = account(Totals(live=5), [entry(Standing.MISSING, UNKNOWN, certain=False)])
    assert Books.of(given, {QUEUE: 5}).exit_code == 5


def test_a_count_that_is_not_exact_is_told_and_does_not_unbalance() -> None:
    books = Books.of(account(Totals(live=5)), {QUEUE: 3}, [lost(Standing.DAMAGED, at_most(4))])
    books.balance()
    assert books.exit_code == 5


def test_what_is_in_no_known_queue_counts() -> None:
    given = Account("/store", (), {QUEUE: Totals(live=1)}, Totals(live=1, undecided=2))
    with pytest.raises(BooksDoNotBalance):
        Books.of(given, {QUEUE: 1}).balance()
    row = NotCarried(None, Standing.UNDECIDED, "why", exactly(2), "kind", asked=False)
    books = Books.of(given, {QUEUE: 1}, [row])
    books.balance()
    assert books.source[NO_QUEUE].there == 2


def test_consumed_messages_count_where_they_are_brought_back() -> None:
    books = Books.of(account(Totals(live=1)), {QUEUE: 4}, consumed={QUEUE: 3})
    books.balance()
    assert books.exit_code == 0
    assert exactly(0) == NONE
