"""An AMQ Message Store whose `kr-store/state` was deleted: by the broker's page that has it recovered from
its data logs.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from journalfs.account.entries import Bound, Entry
from journalfs.account.taking import account_of
from journalfs.damage import DOUBTFUL
from journalfs.store import open_store
from journalfs.store.store import JournalStore
from journalfs.store.write.opening import open_for_writing
from tests.broker.activemq5 import Activemq5Run
from tests.mounting import mounted_for_writing
from tests.older.activemq5 import lines_by_queue, wanted

StoreCopy = Callable[[str], Path]


@pytest.fixture(autouse=True)
def _derived_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOURNALFS_DERIVED", str(tmp_path / "derived"))


Ids = dict[str, set[object]]
REPLAYED = ("read-from", "the data logs were replayed: the reference store (kr-store) was not closed")


def seen(store: JournalStore) -> Ids:
    """Ids of messages by queue, where there are any."""
    found = lines_by_queue(store).items()
    return {
        queue: {line["properties"]["__HDR_MESSAGE_ID"] for line in lines} for queue, lines in found if lines
    }


def doubtful(store: JournalStore) -> list[Entry]:
    return [one for one in account_of(store).entries if one.kind == DOUBTFUL]


@pytest.mark.rule("S-347")
def test_nothing_is_missing_afterwards(store_copy: StoreCopy) -> None:
    """A subscription that was removed is in the data logs still, and comes back with its messages, which the
    account counts as doubtful. A topic without messages is known from the data of the reference store.
    """
    store = store_copy("amq-5.4-clean") / "localhost"
    with closing(open_store(store, index=False)) as opened:
        before, addresses = seen(opened), {one.name for one in opened.addresses()}
    shutil.rmtree(store / "kr-store" / "state")
    with closing(open_store(store, index=False)) as opened:
        after, derived, found = seen(opened), opened.core.derived, doubtful(opened)
        assert {one.name for one in opened.addresses()} == addresses
        assert not account_of(opened).whole
    assert {queue: after[queue] for queue in before} == before
    assert after.keys() - before.keys() == {"carol.gone"}
    assert derived is not None
    assert REPLAYED in derived.notes
    [entry] = found
    assert "subscription carol:gone of NEWS may have been removed" in entry.reason
    assert (entry.messages.bound, entry.messages.messages) == (Bound.AT_MOST, len(after["carol.gone"]))
    assert (entry.certain, entry.file) == (False, "kr-store/state")
    assert "been removed" in entry.do


@pytest.mark.rule("S-347")
def test_without_any_reference_store_every_subscription_is_doubtful(store_copy: StoreCopy) -> None:
    store = store_copy("amq-5.4-clean") / "localhost"
    shutil.rmtree(store / "kr-store")
    with closing(open_store(store, index=False)) as opened:
        after, found = seen(opened), doubtful(opened)
    assert {"alice.all", "bob.odd", "carol.gone", "dave.late", "ORDERS"} <= after.keys()
    assert len(found) == 4
    assert all("the data beside it cannot be read" in one.reason for one in found)


@pytest.mark.rule("S-347", "S-304")
def test_subscriptions_that_no_data_log_has_are_those_of_the_reference_store(store_copy: StoreCopy) -> None:
    """Releases before 5.3 write none into a log: without `kr-store/state` they and their messages were gone.
    A mount for writing leaves logs in which a replay finds the same.
    """
    store = next(store_copy("amq-5.0-clean").rglob("kr-store")).parent
    with closing(open_store(store, index=False)) as opened:
        before = seen(opened)
    shutil.rmtree(store / "kr-store" / "state")
    with closing(open_store(store, index=False)) as opened:
        assert seen(opened) == before
        assert doubtful(opened) == []
    with closing(open_for_writing(store, kind="amq")) as written:
        assert seen(written) == before
    with closing(open_store(store, index=False)) as opened:
        assert seen(opened) == before
        assert doubtful(opened) == []


@pytest.mark.long
@pytest.mark.timeout(400)
@pytest.mark.rule("S-347")
def test_a_broker_believes_the_data_of_the_reference_store(store_copy: StoreCopy, tmp_path: Path) -> None:
    """It replays nothing without that folder, and deletes data logs; it does replay what a mount for writing
    left.
    """
    store = store_copy("amq-5.4-clean") / "localhost"
    with closing(open_store(store, index=False)) as opened:
        before = seen(opened)
    shutil.rmtree(store / "kr-store" / "state")
    written = tmp_path / "written"
    shutil.copytree(store, written)
    reattach = "reattach=alice:all:NEWS:,bob:odd:NEWS:odd = TRUE,carol:gone:NEWS:,dave:late:NEWS:"
    run = Activemq5Run("5.8.0", "drain", store, "cleanup=600000", reattach)
    assert given(run) == before
    assert run.account["prepared_transactions"] == []
    with closing(open_store(written, index=False)) as opened:
        shown = seen(opened)
    with mounted_for_writing(written, tmp_path / "mnt", "--format", "amq"):
        pass
    run = Activemq5Run("5.8.0", "drain", written, "cleanup=600000", reattach)
    assert given(run) == shown
    assert len(run.account["prepared_transactions"]) == 2


def given(run: Activemq5Run) -> Ids:
    """Ids of messages that a broker gave to clients, by the queue that they are in here."""
    return {queue: {one["id"] for one in found} for queue, found in wanted(run.account).items() if found}
