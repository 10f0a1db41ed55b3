"""AMQ Message Stores of ActiveMQ 5.0 to 5.8, read as stores of today."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from journalfs.account.entries import Bound
from journalfs.account.taking import account_of
from journalfs.damage import DOUBTFUL
from journalfs.errors import DecodeError
from journalfs.records.description import derived_from
from journalfs.records.older import openwire
from journalfs.records.older.kaha import closed_mark
from journalfs.store import open_store
from journalfs.views.transactions import prepared_transactions
from tests.frozen import PristineStores, load_expected
from tests.older.activemq5 import differences, lines_by_queue, subscription_queue, wanted

NAMES = ("amq-5.0-clean", "amq-5.4-clean", "amq-5.4-killed", "amq-5.8-killed")


@pytest.fixture(scope="module")
def truth() -> dict[str, dict[str, Any]]:
    stores: dict[str, dict[str, Any]] = load_expected("amq-5.x")["stores"]
    return stores


@pytest.mark.rule("S-210")
@pytest.mark.parametrize("name", NAMES)
def test_what_the_old_consumers_got(
    stores: PristineStores, truth: dict[str, dict[str, Any]], tmp_path: Path, name: str
) -> None:
    account = truth[name]
    with closing(open_store(stores[name], derived=tmp_path)) as store:
        lines = lines_by_queue(store)
        expected = wanted(account)
        assert lines.keys() == expected.keys()
        for queue, messages in expected.items():
            assert len(lines[queue]) == len(messages), queue
            for line, message in zip(lines[queue], messages, strict=True):
                assert differences(line, message) == [], (queue, message["id"])
        filters = {
            queue.name: queue.model.binding.filter for queue in store.queues() if queue.model.binding.filter
        }
        assert filters == {
            subscription_queue(one["client_id"], one["name"]): one["selector"]
            for one in account["subscriptions"].values()
            if one["selector"]
        }
        assert {address.name for address in store.addresses()} == {
            one.partition("://")[2] for one in account["destinations"]
        }


@pytest.mark.rule("S-211")
@pytest.mark.parametrize("name", NAMES)
def test_transactions_in_doubt(
    stores: PristineStores, truth: dict[str, dict[str, Any]], tmp_path: Path, name: str
) -> None:
    """They are prepared here, too, with what they sent; what they acknowledged is delivered, as there."""
    with closing(open_store(stores[name], derived=tmp_path)) as store:
        found = {
            (one.xid.format_id, one.xid.global_transaction_id.decode(), one.xid.branch_qualifier.decode())
            for one in prepared_transactions(store.core)
            if one.xid is not None
        }
        sent = {name for name, _ in store.prepared_sends()}
    assert found == {
        (one["format"], one["gtrid"], one["bqual"]) for one in truth[name]["prepared_transactions"]
    }
    assert len(sent) == len(found)


@pytest.mark.rule("S-212")
def test_a_store_that_was_killed_is_replayed(stores: PristineStores, tmp_path: Path) -> None:
    for name in NAMES:
        with closing(open_store(stores[name], derived=tmp_path)) as store:
            made = derived_from(store.core.root)
        assert made is not None
        said = dict(made.notes)["read-from"]
        assert ("replayed" in said) == name.endswith("killed")


def killed(root: Path) -> Path:
    """Take back what says that the reference store was closed: its broker was killed instead. Returns the
    folder of the reference store.
    """
    (folder,) = root.rglob("kr-store")
    mark = closed_mark(folder / "state")
    assert mark is not None
    path, offset = mark
    with path.open("r+b") as file:
        file.seek(offset)
        assert file.read(1) == b"\1"
        file.seek(offset)
        file.write(b"\0")
    return folder


@pytest.mark.rule("S-304")
def test_a_late_subscription_of_a_killed_broker_has_nothing_earlier(
    store_copy: Callable[[str], Path], truth: dict[str, dict[str, Any]], tmp_path: Path
) -> None:
    """No data log of ActiveMQ 5.0 says when it began. The reference store does, up to its last checkpoint."""
    root = store_copy("amq-5.0-clean")
    killed(root)
    with closing(open_store(root, derived=tmp_path)) as store:
        made = derived_from(store.core.root)
        lines = {queue: len(found) for queue, found in lines_by_queue(store).items()}
    assert made is not None
    assert "replayed" in dict(made.notes)["read-from"]
    assert lines == {queue: len(messages) for queue, messages in wanted(truth["amq-5.0-clean"]).items()}


@pytest.mark.rule("S-304")
def test_what_may_be_earlier_is_counted_where_nothing_tells(
    store_copy: Callable[[str], Path], truth: dict[str, dict[str, Any]], tmp_path: Path
) -> None:
    root = store_copy("amq-5.0-clean")
    shutil.rmtree(killed(root) / "data")
    with closing(open_store(root, derived=tmp_path)) as store:
        account = account_of(store)
        found = [one for one in account.entries if one.kind == DOUBTFUL]
    assert found
    assert not account.whole
    assert all(one.messages.bound is Bound.AT_MOST and one.messages.messages for one in found)
    assert {one.file for one in found} == {"kr-store/data"}


@pytest.mark.parametrize("sequence", ["7", "9" * 19, "9" * 5000, "x"])
def test_ids_are_written_whatever_numbers_they_end_with(sequence: str) -> None:
    orders = openwire.Destination(False, "orders")
    written = openwire.queue_ack(orders, openwire.Identity(f"ID:client:1:1:{sequence}"))
    found = openwire.decode(written, openwire.QueueAck)
    assert (found.destination, found.message_id) == (orders, found.first_id)
    assert found.message_id.startswith(f"ID:client:1:1:{sequence}")


def test_a_destination_without_bytes_is_damage() -> None:
    with pytest.raises(DecodeError):
        openwire.decode_tight_destination(b"")
