"""The account of stores that brokers left whole, and the arithmetic of counts."""

from __future__ import annotations

from contextlib import closing

import pytest

from journalfs.account.entries import (
    NONE,
    UNKNOWN,
    Bound,
    Count,
    Standing,
    Totals,
    at_least,
    at_most,
    exactly,
)
from journalfs.account.taking import account_of
from journalfs.store import open_store
from tests.frozen import FILE_STORES, PristineStores


@pytest.mark.parametrize(
    ("one", "other", "together"),
    [
        (exactly(2), exactly(3), exactly(5)),
        (exactly(2), at_least(3), at_least(5)),
        (exactly(2), at_most(3), at_most(5)),
        (exactly(2), UNKNOWN, at_least(2)),
        (at_most(2), UNKNOWN, UNKNOWN),
        (NONE, at_most(3), at_most(3)),
        (at_least(2), at_most(3), at_least(2)),
    ],
)
def test_counts_add_up_to_what_both_allow(one: Count, other: Count, together: Count) -> None:
    assert one + other == together == other + one


def test_counts_are_said_as_people_say_them() -> None:
    texts = [one.text() for one in (exactly(1104), at_least(5), at_most(1104), UNKNOWN)]
    assert texts == ["1,104", "at least 5", "at most 1,104", "an unknown number of"]
    assert UNKNOWN.bound is Bound.UNKNOWN


@pytest.mark.parametrize("name", FILE_STORES)
def test_a_store_that_its_broker_left_whole(name: str, stores: PristineStores) -> None:
    """Nothing is missing or damaged, and each message of each queue counts once."""
    with closing(open_store(stores[name], index=False)) as store:
        account = account_of(store)
        assert account.whole, account.losses
        assert account.totals == sum(account.queues.values(), Totals())
        for queue in store.queues():
            totals = account.queues[f"{queue.model.address}::{queue.name}"]
            held = sum(
                entry.messages.messages or 0
                for entry in account.entries
                if entry.kind == "prepared-acknowledgement"
                and entry.queue == f"{queue.model.address}::{queue.name}"
            )
            assert totals.live + totals.scheduled + held == queue.status()["messageCount"]
        assert {entry.standing for entry in account.entries} <= {Standing.PREPARED, Standing.LIVE}
