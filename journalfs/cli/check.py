"""`journalfs check`: reads everything there is and lists what cannot be read."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import click

from journalfs.cli.common import (
    Older,
    files_below,
    json_option,
    older_options,
    opened,
    store_argument,
    write_json,
    write_table,
)
from journalfs.errors import EXIT_DAMAGED
from journalfs.exchange.outlines import outlined_lines

if TYPE_CHECKING:
    from journalfs.store.api import ByteSource, Store

_COLUMNS = {"FILE": "file", "OFFSET": "offset", "BYTES": "bytes", "KIND": "kind", "REASON": "reason"}


@click.command(epilog="Example: journalfs check /var/lib/artemis/data")
@store_argument
@older_options
@click.option("--set-aside", is_flag=True, help="Move large bodies that no message has out of the way.")
@json_option
def check(*, store: Path, older: Older, set_aside: bool, as_json: bool) -> None:
    """Read all of STORE and list the damage: journals, pages, large bodies, and every message that is live
    or in a prepared transaction.

    Ends with 0 without damage and with 5 with damage. Nothing is changed. Three things are listed that are no
    damage: large bodies that no message has (a crash leaves them), pages that were renamed instead of
    deleted, and ids that no journal file has, though none was deleted as far as is known. The index is asked
    for one thing only: which files are gone.

    --set-aside takes the store for writing, as a mount does, and moves such bodies to journalfs/orphans.
    """
    if set_aside:
        _set_aside(store)
    with opened(store, anew=True, older=older) as found:
        read = _read_everything(found)
        damage = [*_damaged_places(found), *read.damage]
        orphans = [_orphan(name) for name in found.orphaned_bodies()]
        pages = [_page(name) for name in found.pages_set_aside()]
        gaps = [_gap(ids) for ids in found.missing_journal_files()]
        unknown = found.references_to_unknown()
    listed = [*damage, *orphans, *pages, *gaps]
    if as_json:
        write_json(listed or [{"kind": "sound", "messages": read.messages, "damage": 0}])
    elif listed:
        write_table(list(_COLUMNS), [[facts.get(key) for key in _COLUMNS.values()] for facts in listed])
    if not as_json:
        places = "no damage" if not damage else f"{len(damage)} damaged"
        more = f", {len(orphans)} bodies without a message" if orphans else ""
        more += f", {len(pages)} page{'s' * (len(pages) > 1)} set aside" if pages else ""
        more += f", no journal file {', '.join(str(gap['ids']) for gap in gaps)}" if gaps else ""
        of = ", ".join(f"{count} of {queue}" for queue, count in sorted(unknown.items()))
        more += (
            f"; {sum(unknown.values())} references to messages that no record has ({of})" if unknown else ""
        )
        click.echo(f"{read.counted()} ({read.bytes_read} bytes as lines) read, {places}{more}", err=True)
    sys.exit(EXIT_DAMAGED if damage else 0)


def _set_aside(path: Path) -> None:
    """Opening a store for writing does it; each body is an event, which is logged."""
    from journalfs.store.write.alone import open_alone  # noqa: PLC0415

    open_alone(path).close()


def _orphan(name: str) -> Mapping[str, object]:
    reason = "no message has this body; --set-aside moves it out of the way"
    return {"file": name, "offset": 0, "bytes": 0, "kind": "orphan", "reason": reason}


def _page(name: str) -> Mapping[str, object]:
    reason = "something was wrong with this page when nothing was left to consume in it: it was renamed"
    return {"file": name, "offset": 0, "bytes": 0, "kind": "page-set-aside", "reason": reason}


def _gap(ids: str) -> Mapping[str, object]:
    reason = (
        f"no file has id {ids}, and neither use under a later id nor the pool of free files explains it: one "
        "that was taken away took with it what was in it"
    )
    return {"file": "journal", "offset": 0, "bytes": 0, "kind": "missing-id", "reason": reason, "ids": ids}


@dataclass(slots=True)
class _Read:
    messages: int = 0
    delivering: int = 0
    """Messages that consumers or prepared transactions have: listed apart from the others."""
    prepared: int = 0
    """Messages that transactions sent which are prepared or undecided: in no queue yet."""
    bytes_read: int = 0
    damage: list[Mapping[str, object]] = field(default_factory=list)
    """The messages that do not decode."""

    def counted(self) -> str:
        apart = {
            "being delivered": self.delivering,
            "sent by transactions that have not ended": self.prepared,
        }
        *others, last = f"{self.messages} messages", *(f"{n} {what}" for what, n in apart.items() if n)
        return f"{', '.join(others)} and {last}" if others else last

    def count(self, source: ByteSource, *, transaction: str | None = None) -> int:
        """How many messages a file has, all of which are read. `transaction`: the one that sent them."""
        messages = 0
        try:
            for lines, size_bytes in outlined_lines(source):
                messages += len(lines)
                self.bytes_read += size_bytes
                doubtful = [line for line in lines if b'"damage":' in line]
                self.damage += [facts for line in doubtful for facts in _damage_in(line, transaction)]
        finally:
            source.close()
        return messages


def _read_everything(store: Store) -> _Read:
    read = _Read()
    # First, for a broker at work may decide them meanwhile.
    for transaction, source in store.prepared_sends():
        read.prepared += read.count(source, transaction=transaction)
    for address in store.addresses():
        for queue in address.queues():
            read.messages += read.count(queue.open_all())
            read.delivering += read.count(queue.delivering().open_all())
    return read


def _damage_in(line: bytes, transaction: str | None) -> Iterator[Mapping[str, object]]:
    from journalfs.store.envelope import decode_envelope  # noqa: PLC0415

    envelope = decode_envelope(line)
    if "damage" in envelope:
        where = f"in {envelope.get('queue')}" if transaction is None else f"of transaction {transaction}"
        place = f"message {envelope.get('id')} {where}"
        yield {
            "file": place,
            "offset": None,
            "bytes": None,
            "kind": "message",
            "reason": envelope["damage"],
            "queue": envelope.get("queue"),
            "id": envelope.get("id"),
        }


def _damaged_places(store: Store) -> Iterator[Mapping[str, object]]:
    """What the store found while it was opened and read, file by file."""
    import msgspec  # noqa: PLC0415

    for name, file in files_below(store.control().child("damaged")):
        if name.endswith(".json"):
            source = file.open()
            yield msgspec.json.decode(bytes(source.read(0, source.size_bytes)))
            source.close()
