"""Reads an AMQ Message Store (ActiveMQ 5.0 to 5.8): what its broker would give to its clients."""

from __future__ import annotations

from pathlib import Path

from journalfs import door
from journalfs.damage import Damage
from journalfs.engine.openwire import AMQ
from journalfs.errors import DecodeError
from journalfs.older import kaha
from journalfs.older.activemq5 import Content, Place
from journalfs.older.activemq5_store import ContentWriter, Places
from journalfs.older.amq_log import HEAD_BYTES, TAIL_BYTES, log_files
from journalfs.older.amq_replay import replay
from journalfs.older.derived import DerivedStore
from journalfs.older.openwire import Subscription
from journalfs.older.reading import Source


def fill_amq(source: Source, out: DerivedStore) -> None:
    """The reference store where it was closed, else a replay of the data logs, as that broker does."""
    folder = source.root / "journal" if door.exists(source.root / "journal") else source.root
    references = source.root / "kr-store"
    damage: list[Damage] = []
    try:
        logs = log_files(folder)
    except OSError as error:
        out.refused(folder, source.root, error)
        logs = {}
    content = _from_references(references, damage)
    if content is None:
        content = Content()
        for found in _subscriptions(references, damage):
            content.subscribe(found)
        replay(logs, content, damage)
        said = "the data logs were replayed: the reference store (kr-store) was not closed"
    else:
        said = "the reference store (kr-store) was read: it was closed"
    out.note("read-from", said)
    for one in damage:
        out.damage(one.file, one.offset, one.length_bytes, one.kind, one.reason)
    places = Places(logs, source.root)
    try:
        ContentWriter(out, lambda place: _command(places, place), places, layout=AMQ, hide_taken=False).write(
            content
        )
    finally:
        places.close()


def _from_references(folder: Path, damage: list[Damage]) -> Content | None:
    """None: the broker would not believe it."""
    state = folder / "state"
    try:
        if not door.exists(state) or not kaha.stopped_cleanly(state):
            return None
        content = Content()
        kaha.read_references(folder, content)
        return content
    except (DecodeError, OSError, IndexError) as error:
        damage.append(Damage(folder.name, 0, 0, "garbage", f"the reference store cannot be read: {error}"))
        return None


def _subscriptions(folder: Path, damage: list[Damage]) -> list[Subscription]:
    """What no data log of ActiveMQ 5.0 to 5.2 says."""
    try:
        return kaha.durable_subscribers(folder / "state") if door.exists(folder / "state") else []
    except (DecodeError, OSError, IndexError) as error:
        reason = f"durable subscriptions cannot be read: {error}"
        damage.append(Damage(f"{folder.name}/state", 0, 0, "garbage", reason))
        return []


def _command(places: Places, place: Place) -> bytes:
    """A message's command. A reference says only where the record lies: its first int is the command's
    length.
    """
    if place.length:
        return places.read(place.file, place.offset, place.length)
    head = places.read(place.file, place.offset - HEAD_BYTES - 4, HEAD_BYTES + 4)
    size = int.from_bytes(head[:4], "big", signed=True)
    if len(head) < HEAD_BYTES + 4 or size < HEAD_BYTES + TAIL_BYTES + 4 or head[26:HEAD_BYTES] != b"SOR":
        raise DecodeError(place.offset, "no record begins where the reference store says")
    length = int.from_bytes(head[HEAD_BYTES:], "big", signed=True)
    if not 0 < length <= size - HEAD_BYTES - TAIL_BYTES - 4:
        raise DecodeError(place.offset, f"a command cannot have {length} bytes in a record of {size}")
    return places.read(place.file, place.offset, length)
