"""The account of a store as its facade gives it."""

from __future__ import annotations

import json
from typing import Any

from journalfs.api import ByteSource, Queue, Store, View, VirtualDirectory, VirtualFile
from tests.truth.account import address_account, prepared_account, queue_account

READ_BYTES = 65_536


def content_of(source: ByteSource) -> bytes:
    """Everything, in pieces that cut lines."""
    try:
        pieces = []
        at = 0
        while piece := bytes(source.read(at, READ_BYTES)):
            pieces.append(piece)
            at += len(piece)
        assert at == source.size_bytes
        return b"".join(pieces)
    finally:
        source.close()


def lines_of(view: View) -> list[dict[str, Any]]:
    """The lines of all parts and of the tail, which have to be those of the whole."""
    parts = [content_of(view.open_part(part)) for part in view.parts()] + [content_of(view.open_tail())]
    whole = content_of(view.open_all())
    assert b"".join(parts) == whole
    return [json.loads(line) for line in whole.splitlines()]


def envelopes_in_delivery_order(view: View) -> list[dict[str, Any]]:
    """What `.messages/` lists, each as its envelope; parts and tail have to have the same lines."""
    listing = view.listing()
    envelopes = []
    for index in range(len(listing)):
        message = view.message(listing.message_id(index))
        assert message is not None
        assert message.name == listing.name(index)
        assert message.size_bytes == listing.size_bytes(index)
        assert message.mtime_ns == listing.mtime_ns(index)
        envelopes.append(dict(message.envelope()))
    lines = lines_of(view)
    # A message that is there twice would be hidden by comparing sets.
    assert sorted(map(_key, lines)) == sorted(map(_key, envelopes))
    return envelopes


def _key(line: dict[str, Any]) -> str:
    return json.dumps(line, sort_keys=True)


def _json(directory: VirtualDirectory, name: str) -> bytes:
    file = directory.child(name)
    assert file is not None
    assert hasattr(file, "open")
    return content_of(_as_file(file).open())


def _as_file(node: VirtualDirectory | VirtualFile) -> VirtualFile:
    return node  # type: ignore[return-value]


def _as_directory(node: VirtualDirectory | VirtualFile | None) -> VirtualDirectory:
    assert node is not None
    return node  # type: ignore[return-value]


def _queue(queue: Queue) -> dict[str, Any]:
    return queue_account(queue.status(), queue.attributes(), envelopes_in_delivery_order(queue))


def account(store: Store) -> dict[str, Any]:
    """Addresses, queues with messages, prepared transactions."""
    transactions = _as_directory(store.control().child("transactions"))
    prepared = []
    for _, transaction in transactions.children():
        directory = _as_directory(transaction)
        operations = [json.loads(line) for line in _json(directory, "operations.jsonl").splitlines()]
        prepared.append(prepared_account(json.loads(_json(directory, "status.json")), operations))
    return {
        "addresses": [
            address_account(address.status(), (queue.name for queue in address.queues()))
            for address in store.addresses()
        ],
        "queues": [_queue(queue) for address in store.addresses() for queue in address.queues()],
        "preparedTransactions": prepared,
    }
