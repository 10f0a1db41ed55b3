"""Recognises stores of other products and versions by names and a few bytes; nothing is replayed.

Those that can be read are raised as `OlderStore`, which `journalfs.records.older` catches, and others as
`UnknownVersion`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from journalfs import limits
from journalfs.config.files import read_beginning
from journalfs.errors import NotAStore, OlderStore, SystemFailure, UnknownVersion
from journalfs.ids import rid_of

HORNETQ: Final = "hornetq"
ARTEMIS_1: Final = "artemis-1"
AMQ: Final = "amq"
KAHADB: Final = "kahadb"
KINDS: Final = (HORNETQ, ARTEMIS_1, AMQ, KAHADB)
"""Formats of older stores, as `--format` names them."""

_JOURNALS: Final = ("*.bindings", "bindings/*.bindings", "*.jms", "bindings/*.jms")
_SHOWN_BY: Final = {
    HORNETQ: ("*.hq", "journal/*.hq", "*.amq", "journal/*.amq", *_JOURNALS),
    ARTEMIS_1: ("*.amq", "journal/*.amq", *_JOURNALS),
    AMQ: ("data-*", "journal/data-*", "kr-store", "*/data-*", "*/journal/data-*", "*/kr-store"),
    KAHADB: tuple("*/" * depth + name for depth in range(5) for name in ("db-*.log", "db.data")),
}
"""Of each kind, what there is at least one of."""

NO_BINDINGS: Final = "without its bindings, so its queues have no names and its messages no addresses"
"""Of a journal that was given alone."""

MESSAGING: Final = {
    "journal": "messagingjournal",
    "bindings": "messagingbindings",
    "paging": "messagingpaging",
    "large-messages": "messaginglargemessages",
}
"""What application servers with HornetQ (EAP 6, JBoss AS 7, WildFly 8 and 9) call its directories in
`standalone/data`.
"""

ACTIVEMQ: Final = "activemq"
"""The data directory of Artemis within `standalone/data` of WildFly 10 and EAP 7, and later."""

_ADVICE_2X: Final = "only file stores can be read"
_LEGACY_MESSAGE: Final = 31
_CURRENT_MESSAGE: Final = 45
_ADDRESS_BINDING: Final = 44
_QUEUE_BINDING: Final = 21
_ADD: Final = 11
_ADD_TX: Final = 13
_RECORDS: Final = tuple(bytes((kind,)) for kind in range(11, 20))
_SAMPLE_BYTES: Final = 1024 * 1024
_ZEROS: Final = bytes(4096)


def messaging_of(folder: Path) -> Path | None:
    """Return the data directory of an application server with HornetQ, of which `folder` is that, one of its
    four directories of messages, or the server's home; None: it is none.
    """
    if folder.name in MESSAGING.values() and _has_messaging(folder.parent):
        return folder.parent
    below = (folder, folder / "data", folder / "standalone" / "data")
    return next((one for one in below if _has_messaging(one)), None)


def _has_messaging(data: Path) -> bool:
    journal, bindings = data / MESSAGING["journal"], data / MESSAGING["bindings"]
    return any(_names(journal, "*.hq")) or any(_names(bindings, "hornetq-*"))


def refuse_messaging(folder: Path) -> None:
    """Raise `OlderStore` for the HornetQ within an application server."""
    data = messaging_of(folder)
    if data is not None:
        raise _hornetq_of(data, "the HornetQ journal of an application server (messagingjournal)")


def _hornetq_of(data: Path, text: str) -> OlderStore:
    journal, bindings = data / MESSAGING["journal"], data / MESSAGING["bindings"]
    return OlderStore(data, text, kind=HORNETQ, root=data, journal=journal, bindings=bindings)


def refuse_other_layouts(root: Path) -> None:
    """Raise `OlderStore` or `UnknownVersion` when `root`, or the one folder in it, is laid out like another
    product's store.
    """
    for folder in (root, *_only_folders(root)):
        found = _activemq_5(folder)
        if found is not None:
            kind, text = found
            raise OlderStore(folder, text, kind=kind, root=folder, journal=folder, bindings=folder)
        text_only = _other_layout(folder)
        if text_only is not None:
            raise UnknownVersion(folder, text_only, advice=_ADVICE_2X)


def refuse_other_journals(journal_dir: Path, bindings_dir: Path) -> None:
    """Raise `OlderStore` when the journals were written by HornetQ or by Artemis 1.x.

    Their files look like those of 2.x, and a 2.x reader that did not notice would misread every message.
    """
    found = _journal_kind(journal_dir, bindings_dir)
    if found is None:
        return
    kind, folder, text = found
    root = journal_dir.parent if journal_dir.parent == bindings_dir.parent else journal_dir
    root = journal_dir if journal_dir == bindings_dir else root
    raise OlderStore(folder, text, kind=kind, root=root, journal=journal_dir, bindings=bindings_dir)


def forced(kind: str, folder: Path) -> OlderStore:
    """What `folder` is when somebody says that it is of this kind; where things are is as such a broker has
    them.
    """
    root = folder
    if kind == HORNETQ and (data := messaging_of(folder)) is not None:
        return _hornetq_of(data, f"said to be {kind}")
    if (folder / "data").is_dir():
        root = folder / "data"
    elif folder.name in ("journal", "bindings"):
        root = folder.parent
    journal, bindings = root / "journal", root / "bindings"
    if kind in (AMQ, KAHADB) or not (journal.is_dir() or bindings.is_dir()):
        root, journal, bindings = folder, folder, folder
    if root.is_dir() and not any(found for name in _SHOWN_BY[kind] for found in root.glob(name)):
        names = sorted({name.rpartition("/")[2] for name in _SHOWN_BY[kind]})
        raise NotAStore(folder, f"no store of kind {kind} here", looked_for=names)
    return OlderStore(root, f"said to be {kind}", kind=kind, root=root, journal=journal, bindings=bindings)


def _journal_kind(journal_dir: Path, bindings_dir: Path) -> tuple[str, Path, str] | None:
    """Kind, the folder that shows it, and what it is called."""
    files = _names(journal_dir, "*.hq")
    if any(_is_hornetq_2_0(_beginning(path, 9)) for path in files):
        advice = "HornetQ 2.1 to 2.4 can be read"
        raise UnknownVersion(journal_dir, "a HornetQ 2.0 journal (*.hq without a version)", advice=advice)
    if files:
        lacks = "" if any(_names(bindings_dir, "*.bindings")) else f", {NO_BINDINGS} ({bindings_dir})"
        return HORNETQ, journal_dir, f"a HornetQ journal (*.hq){lacks}"
    if any(_names(bindings_dir, "hornetq-*")):
        return HORNETQ, bindings_dir, "a HornetQ bindings journal"
    return _artemis_1(journal_dir, bindings_dir)


def _is_hornetq_2_0(beginning: bytes) -> bool:
    """Whether a first record, which repeats the file's id, follows that id at once."""
    return beginning[4:5] in _RECORDS and beginning[:4] == beginning[5:9]


def _artemis_1(journal_dir: Path, bindings_dir: Path) -> tuple[str, Path, str] | None:
    bound = _added(bindings_dir, "*.bindings", enough={_ADDRESS_BINDING})
    if _ADDRESS_BINDING in bound:
        return None  # only 2.x has address bindings, so the message journal need not be opened
    types = _added(journal_dir, "*.amq", enough={_CURRENT_MESSAGE})
    if _CURRENT_MESSAGE in types:
        return None
    if _LEGACY_MESSAGE in types:
        return ARTEMIS_1, journal_dir, "a journal of Artemis 1.x (message records of type 31)"
    jms = any(_names(bindings_dir, "*-jms-*.jms"))
    queue = bound.get(_QUEUE_BINDING)
    if queue is not None and (jms or _is_old_binding(queue)):
        return ARTEMIS_1, bindings_dir, "a store of Artemis 1.x (queues without addresses)"
    return None


def _activemq_5(folder: Path) -> tuple[str, str] | None:
    if (folder / "journal" / "data-control").is_file() or (folder / "kr-store").is_dir():
        return AMQ, "an AMQ message store of ActiveMQ 5.0 to 5.8 (journal/data-*, kr-store)"
    if _begins_amq(folder / "journal"):
        return AMQ, "an AMQ message store of ActiveMQ 5.0 to 5.8 (journal/data-*)"
    if any(_names(folder, "data-[0-9]*")) and ((folder / "data-control").is_file() or _begins_amq(folder)):
        return AMQ, "the data logs of an AMQ message store of ActiveMQ 5.0 to 5.8"
    if (folder / "kahadb").is_dir() or any(_names(folder, "db-[0-9]*.log")):
        return KAHADB, "a KahaDB store of ActiveMQ 5"
    # A multi KahaDB has folders of destinations, and a broker's own folder has one of any name for its store.
    artemis = (folder / "journal").is_dir() or (folder / "bindings").is_dir()
    within = ("*/db-[0-9]*.log", "*/txStore/db-[0-9]*.log")
    if not artemis and any(found for one in within for found in _names(folder, one)):
        return KAHADB, "a KahaDB store of ActiveMQ 5"
    return None


def _begins_amq(folder: Path) -> bool:
    logs = _names(folder, "data-[0-9]*")
    return any(_beginning(path, 29)[26:29] == b"SOR" for path in logs)


def _other_layout(folder: Path) -> str | None:
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


def _beginning(path: Path, length: int) -> bytes:
    try:
        return read_beginning(path, length)
    except SystemFailure:
        return b""  # it is damage of the store, if there is one


def _is_old_binding(body: bytes) -> bool:
    """Whether a queue binding ends where those of Artemis 1.x and HornetQ do."""
    at = 0
    for nullable in (False, False, True, True):
        if nullable:
            if body[at : at + 1] == b"\0":
                at += 1
                continue
            at += 1
        at += 4 + int.from_bytes(body[at : at + 4], "big")
        if at == len(body):
            return True  # of HornetQ: the filter is the last
    return at == len(body) or at + 1 == len(body)


def _added(folder: Path, pattern: str, *, enough: set[int]) -> dict[int, bytes]:
    """User types at the beginnings of a journal's files, each with the body of a record of it, until one of
    `enough` was seen.
    """
    found: dict[int, bytes] = {}
    for path in _names(folder, pattern):
        found |= _added_types(_beginning(path, _SAMPLE_BYTES))
        if found.keys() & enough:
            break
    return found


def _added_types(data: bytes) -> dict[int, bytes]:
    """The same of ADD and ADD_TX records at the beginning of a version 2 journal file."""
    if len(data) < limits.JOURNAL_HEADER_BYTES or data[:4] != b"\0\0\0\2":
        return {}
    rid = rid_of(int.from_bytes(data[8:16], "big")).to_bytes(4, "big")
    found: dict[int, bytes] = {}
    used_bytes = _used_bytes(data)  # to look for something in zeros takes long
    for kind, length_at, type_at, fixed_bytes in ((_ADD, 14, 18, 23), (_ADD_TX, 22, 26, 31)):
        head = bytes((kind,)) + rid
        stop = used_bytes + len(head)
        at = data.find(head, limits.JOURNAL_HEADER_BYTES, stop)
        while at >= 0:
            body_bytes = int.from_bytes(data[at + length_at : at + length_at + 4], "big", signed=True)
            end = at + fixed_bytes + body_bytes
            valid = body_bytes >= 0 and int.from_bytes(data[end - 4 : end], "big") == end - at
            if valid and end <= len(data):
                found[data[at + type_at]] = data[at + type_at + 1 : end - 4]
            at = data.find(head, end if valid else at + 1, stop)
    return found


def _used_bytes(data: bytes) -> int:
    """Without the zeros at the end: a block at a time, as most of an allocated file is nothing else."""
    end = len(data)
    while end >= len(_ZEROS) and data[end - len(_ZEROS) : end] == _ZEROS:
        end -= len(_ZEROS)
    return end - len(_ZEROS) + len(data[end - len(_ZEROS) : end].rstrip(b"\0")) if end >= len(_ZEROS) else end
