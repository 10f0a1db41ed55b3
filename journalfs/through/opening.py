"""Opens a store beside its running broker, to be changed through that broker."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import trio

from journalfs.errors import WrongCall, single
from journalfs.store.node_lock import node_id_of
from journalfs.store.reading import open_store
from journalfs.store.store import JournalStore
from journalfs.store.write.opening import change_in
from journalfs.through.broker import Broker
from journalfs.through.broker_url import BrokerUrl
from journalfs.through.store import ThroughStore

T = TypeVar("T")


def broker_of(url: str, store: JournalStore) -> Broker:
    """The broker at a URL, which has to own the store. Raises `WrongCall`."""
    if store.record_source is not None:
        raise WrongCall(f"{url}: only the broker of a store in files of Artemis can be asked to change it")
    return Broker(BrokerUrl.parse(url), node_id_of(store.core.layout))


def open_through(path: Path, url: str) -> ThroughStore:
    """Open the store for a mount. Raises what opening it raises, `BrokerAway`, `BrokerRefused`, and
    `OtherBroker` for a broker that does not own it.
    """
    store = open_store(path, postpones=True, make=ThroughStore)
    assert isinstance(store, ThroughStore), "it was made as one"
    try:
        store.broker = broker_of(url, store)
        trio.run(store.broker.check)
    except BaseException as error:
        store.close()
        if isinstance(error, BaseExceptionGroup):
            raise single(error) from None
        raise
    return store


def change_through(path: Path, url: str, action: Callable[[ThroughStore], Awaitable[T]]) -> T:
    """Have the broker that runs on a store do something. Raises what `open_through` raises, and what `action`
    raises.
    """
    store = open_through(path, url)
    return trio.run(change_in, store, action, store.broker.keep)
