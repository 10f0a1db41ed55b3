"""Recognises stores of other products and versions, so that the refusal can name what was found.

Only names and a few bytes are looked at; nothing is replayed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from journalfs import limits
from journalfs.config.files import read_beginning
from journalfs.errors import SystemFailure, UnknownVersion
from journalfs.ids import rid_of

_ADVICE_2X: Final = "only file stores of Artemis 2.x can be mounted"
_LEGACY_MESSAGE: Final = 31
_CURRENT_MESSAGE: Final = 45
_ADDRESS_BINDING: Final = 44
_QUEUE_BINDING: Final = 21
_ADD: Final = 11
_ADD_TX: Final = 13
_SAMPLE_BYTES: Final = 1024 * 1024


def refuse_other_layouts(root: Path) -> None:
    """Raise `UnknownVersion` when `root`, or the one folder in it, is laid out like another product's
    store.
    """
    for folder in (root, *_only_folders(root)):
        found = _other_layout(folder)
        if found is not None:
            raise UnknownVersion(folder, found, advice=_ADVICE_2X)


def refuse_other_journals(journal_dir: Path, bindings_dir: Path) -> None:
    """Raise `UnknownVersion` when the journals were written by HornetQ or by Artemis 1.x.

    Their files look like those of 2.x, and a 2.x reader that did not notice would misread every message.
    """
    for folder in (journal_dir, bindings_dir):
        if any(_names(folder, "*.hq")):
            raise UnknownVersion(folder, "a HornetQ journal (*.hq)", advice=_ADVICE_2X)
    if any(_names(bindings_dir, "hornetq-bindings-*.bindings")):
        raise UnknownVersion(bindings_dir, "a HornetQ bindings journal", advice=_ADVICE_2X)
    bound = _user_types(bindings_dir, "*.bindings", enough={_ADDRESS_BINDING})
    if _ADDRESS_BINDING in bound:
        return  # only 2.x has address bindings, so the message journal need not be opened
    types = _user_types(journal_dir, "*.amq", enough={_CURRENT_MESSAGE})
    if _LEGACY_MESSAGE in types and _CURRENT_MESSAGE not in types:
        raise UnknownVersion(
            journal_dir, "a journal of Artemis 1.x (message records of type 31)", advice=_ADVICE_2X
        )
    jms = any(_names(bindings_dir, "activemq-jms-*.jms"))
    if jms and _CURRENT_MESSAGE not in types and _QUEUE_BINDING in bound:
        found = "a store of Artemis 1.x (JMS journal, and queues without addresses)"
        raise UnknownVersion(bindings_dir, found, advice=_ADVICE_2X)


def _other_layout(folder: Path) -> str | None:
    if (folder / "journal" / "data-control").is_file() or (folder / "kr-store").is_dir():
        return "an AMQ message store of ActiveMQ 5.0 to 5.8 (journal/data-*, kr-store)"
    if (folder / "data-control").is_file() and any(_names(folder, "data-[0-9]*")):
        return "the data logs of an AMQ message store of ActiveMQ 5.0 to 5.8"
    if (folder / "kahadb").is_dir() or ((folder / "db.data").is_file() and any(_names(folder, "db-*.log"))):
        return "a KahaDB store of ActiveMQ 5"
    if (folder / "bindings.txt").is_file() and (folder / "data.txt").is_file():
        return "a text export of journals"
    if (folder / "dump.sql").is_file():
        return "a database dump of a JDBC store"
    return None


def _only_folders(root: Path) -> list[Path]:
    # ActiveMQ 5 puts its store below a folder named after the broker.
    entries = [entry for entry in root.iterdir() if entry.is_dir()] if root.is_dir() else []
    return entries if len(entries) == 1 else []


def _names(folder: Path, pattern: str) -> list[Path]:
    return sorted(path for path in folder.glob(pattern) if path.is_file()) if folder.is_dir() else []


def _user_types(folder: Path, pattern: str, *, enough: set[int]) -> set[int]:
    """User types at the beginnings of a journal's files, until one of `enough` was seen. A file that cannot
    be read says nothing: it is damage of the store, if there is one.
    """
    found: set[int] = set()
    for path in _names(folder, pattern):
        try:
            found |= _added_types(read_beginning(path, _SAMPLE_BYTES))
        except SystemFailure:
            continue
        if found & enough:
            break
    return found


def _added_types(data: bytes) -> set[int]:
    """User types of the ADD and ADD_TX records at the beginning of a version 2 journal file."""
    if len(data) < limits.JOURNAL_HEADER_BYTES or data[:4] != b"\0\0\0\2":
        return set()
    rid = rid_of(int.from_bytes(data[8:16], "big")).to_bytes(4, "big")
    found: set[int] = set()
    used_bytes = len(data.rstrip(b"\0"))  # to look for something in zeros takes long
    for kind, length_at, type_at, fixed_bytes in ((_ADD, 14, 18, 23), (_ADD_TX, 22, 26, 31)):
        head = bytes((kind,)) + rid
        stop = used_bytes + len(head)
        at = data.find(head, limits.JOURNAL_HEADER_BYTES, stop)
        while at >= 0:
            body_bytes = int.from_bytes(data[at + length_at : at + length_at + 4], "big", signed=True)
            end = at + fixed_bytes + body_bytes
            valid = body_bytes >= 0 and int.from_bytes(data[end - 4 : end], "big") == end - at
            if valid and end <= len(data):
                found.add(data[at + type_at])
            at = data.find(head, end if valid else at + 1, stop)
    return found
