"""The account of a store as any program sees it mounted: names, files and extended attributes."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from journalfs_mount.names.grammar import decode_name, is_short_form
from tests.mounting import parts_and_tail
from tests.truth.account import address_account, prepared_account, queue_account
from tests.truth.bodies import check_file

Line = dict[str, Any]

ATTRIBUTES_CHECKED = 1000
"""About so many messages of a store have their attributes looked at."""


def attributes_of(path: Path) -> dict[str, bytes]:
    return {name: os.getxattr(path, name) for name in os.listxattr(path)}


def lines_of(directory: Path) -> list[Line]:
    """The lines of the parts and the tail, as a shell's `*.jsonl` finds them; `.all.jsonl` has the same."""
    parts, tails = parts_and_tail(directory)
    content = b"".join(read_whole(directory / name) for name in [*parts, *tails])
    assert content == read_whole(directory / ".all.jsonl")
    return [json.loads(line) for line in content.splitlines()]


def read_whole(path: Path) -> bytes:
    """Its content, which has to be as long as stat said before."""
    size_bytes = path.stat().st_size
    content = path.read_bytes()
    assert len(content) == size_bytes, path
    return content


def check_messages(directory: Path, lines: list[Line], attributes_of_every: int) -> Iterator[str]:
    """Differences between the files in `.messages` and the lines.

    Every file is read; attributes, a dozen calls each, are looked at of every so-many-th message.
    """
    by_id = {line["id"]: line for line in lines}
    for index, name in enumerate(os.listdir(directory / ".messages")):
        path = directory / ".messages" / name
        line = by_id[int(name.partition(".")[0])]
        yield from check_file(line, name, read_whole(path))
        # Some protocols give no time; such a file is dated otherwise.
        if line["timestamp"] and path.stat().st_mtime_ns != line["timestamp"] * 1_000_000:
            yield f"{name}: mtime {path.stat().st_mtime_ns} is not the timestamp {line['timestamp']}"
        if index % attributes_of_every == 0:
            yield from _check_attributes(name, attributes_of(path), line)


def _check_attributes(name: str, attributes: dict[str, bytes], line: Line) -> Iterator[str]:
    wanted = {f"user.journalfs.{key}": line[key] for key in ("id", "type", "priority", "address", "protocol")}
    wanted |= {f"user.property.{key}": value for key, value in line.get("properties", {}).items()}
    for key, value in wanted.items():
        text = value if isinstance(value, str) else json.dumps(value)
        found = attributes.get(key)
        if len(key.encode()) > 255 or isinstance(value, float):
            continue  # longer than a kernel's attribute name may be; floats have several spellings
        if found != text.encode("utf-8", "surrogatepass"):
            yield f"{name}: {key} is {found!r}, not {text!r}"


def delivery_order(directory: Path, lines: list[Line]) -> list[Line]:
    """The lines in the order in which `.messages` lists them."""
    by_id = {line["id"]: line for line in lines}
    listed = [int(name.partition(".")[0]) for name in os.listdir(directory / ".messages")]
    assert sorted(listed) == sorted(line["id"] for line in lines)
    return [by_id[message_id] for message_id in listed]


def _name_of(entry: str, status_name: str) -> str:
    """The name that a directory stands for; the short form of a long one is only to be looked up."""
    encoded = os.fsencode(entry)
    return status_name if is_short_form(encoded) else decode_name(encoded)


def account(root: Path) -> tuple[dict[str, Any], list[str]]:
    """Addresses, queues with messages, prepared transactions; and what is wrong with the messages' files."""
    addresses, queues, wrong = [], [], []
    messages = json.loads(read_whole(root / ".journalfs/status.json"))["messages"]
    every = 1 + messages // ATTRIBUTES_CHECKED
    for address_entry in os.listdir(root):
        address_directory = root / address_entry
        status = json.loads(read_whole(address_directory / ".status"))
        assert status["address"] == _name_of(address_entry, status["address"])
        names = []
        for queue_entry in os.listdir(address_directory):
            directory = address_directory / queue_entry
            queue_status = json.loads(read_whole(directory / ".status"))
            assert queue_status["queue"] == _name_of(queue_entry, queue_status["queue"])
            names.append(queue_status["queue"])
            lines = lines_of(directory)
            wrong += [f"{directory}: {one}" for one in check_messages(directory, lines, every)]
            ordered = delivery_order(directory, lines)
            queues.append(queue_account(queue_status, attributes_of(directory), ordered))
        addresses.append(address_account(status, names))
    prepared = [_prepared(path) for path in sorted((root / ".journalfs/transactions").iterdir())]
    return {"addresses": addresses, "queues": queues, "preparedTransactions": prepared}, wrong


def _prepared(directory: Path) -> dict[str, Any]:
    operations = [json.loads(line) for line in read_whole(directory / "operations.jsonl").splitlines()]
    return prepared_account(json.loads(read_whole(directory / "status.json")), operations)
