"""The grammar of file names, both directions. Pure: knows nothing of the store but names.

Addresses and queues. A name stands for itself where it can. Escaped as `%` and two upper-case hexadecimal
digits for each byte of its UTF-8 form are: `/`, `%`, control characters, a leading `.` or `_`, lone
surrogates (as the three bytes they would have), and `=` and `:`, which in a path mean something else to Spark
and Hadoop: these two are found as they are, too. The empty name is `%`. What would be longer than 255 bytes
becomes `<beginning>~<16 digits>`, where the digits are a hash of the whole name: always the same, and found
again among the names that exist. A name that itself looks like such a short form has its `~` escaped.

So every name has exactly one file name, no two have the same one, and no file name begins with `.` or `_`:
those are for the views that journalfs adds.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from journalfs import limits
from journalfs.errors import NameRefused
from journalfs.ids import MessageId

CONTROL_DIRECTORY: Final = b".journalfs"
SNAPSHOTS_DIRECTORY: Final = b"snapshots"
REMOVED_DIRECTORY: Final = b"removed"
HISTORY_DIRECTORY: Final = b"history"
TRANSACTIONS_DIRECTORY: Final = b"transactions"
PREPARED_DIRECTORY: Final = b"prepared"
COMMITTED_DIRECTORY: Final = b"committed"
ROLLED_BACK_DIRECTORY: Final = b"rolled-back"
UNDO_NAME: Final = b".undo"
REFUSED_NAME: Final = b".refused.jsonl"
METRICS_NAME: Final = b".metrics"
REPLAY_NAME: Final = b".replay"
TAIL_NAME: Final = b"_tail.jsonl"
ALL_NAME: Final = b".all.jsonl"
MESSAGES_DIRECTORY: Final = b".messages"
FOLLOW_NAME: Final = b".follow"
TAKE_NAME: Final = b".take"
WHERE_DIRECTORY: Final = b".where"
SCHEDULED_DIRECTORY: Final = b".scheduled"
FAILED_DIRECTORY: Final = b".failed"
EXPIRED_DIRECTORY: Final = b".expired"
DELIVERING_DIRECTORY: Final = b".delivering"
STATUS_NAME: Final = b".status"
SETTINGS_NAME: Final = b".settings"
BY_ORIGIN_DIRECTORY: Final = b".by-origin"
BY_REASON_DIRECTORY: Final = b".by-reason"
REDRIVE_DIRECTORY: Final = b".redrive"
VIEW_NAMES: Final = frozenset(
    (
        *(ALL_NAME, BY_ORIGIN_DIRECTORY, BY_REASON_DIRECTORY, CONTROL_DIRECTORY, DELIVERING_DIRECTORY),
        *(FOLLOW_NAME, MESSAGES_DIRECTORY, SCHEDULED_DIRECTORY, SETTINGS_NAME, STATUS_NAME, TAIL_NAME),
        *(TAKE_NAME, WHERE_DIRECTORY, FAILED_DIRECTORY, EXPIRED_DIRECTORY, REDRIVE_DIRECTORY, REFUSED_NAME),
        METRICS_NAME,
    )
)
"""Of views in the directory of an address or queue: nothing is staged under one of these."""

MESSAGE_SUFFIXES: Final = ("txt", "json", "bin", "ser")
PART_GENERATION_DIGITS: Final = 4
PART_NUMBER_DIGITS: Final = 10

_EMPTY: Final = b"%"
_SHORT_FORM: Final = re.compile(rb"~[0-9a-f]{%d}\Z" % limits.NAME_HASH_CHARS)
_ESCAPE: Final = re.compile(rb"%([0-9A-F]{2})")
_ESCAPE_IN_EITHER_CASE: Final = re.compile(rb"%([0-9A-Fa-f]{2})")
_MESSAGE_NAME: Final = re.compile(rb"(0|[1-9][0-9]{0,18})\.([a-z]{3,4})")
_PART_NAME: Final = re.compile(rb"(part|_tail)-([0-9]{4,19})-(0|[1-9][0-9]{0,18})-([0-9]{10,19})\.jsonl")
# C1 controls count too: a terminal may take them for the beginning of a command. None, and U+007F, is in a
# real name.
_ESCAPED: Final = re.compile(r"[\x00-\x1f\x7f-\x9f/%=:\ud800-\udfff]")


def encode_name(name: str) -> bytes:
    """The file name that stands for an address or queue; at most 255 bytes."""
    encoded = escape_name(name)
    return encoded if len(encoded) <= limits.NAME_BYTES_MAX else _shorten(encoded, name)


def escape_name(name: str) -> bytes:
    """The same, however long."""
    if not name:
        return _EMPTY
    text = _ESCAPED.sub(lambda match: _escape(match.group()), name)
    if text[0] in "._":
        text = _escape(text[0]) + text[1:]
    encoded = text.encode("utf-8")
    if _SHORT_FORM.search(encoded):
        before, _, digits = encoded.rpartition(b"~")
        encoded = before + b"%7E" + digits
    return encoded


def is_short_form(file_name: bytes) -> bool:
    """True when `file_name` stands for a long name, which only `NameTable` can give back."""
    return _SHORT_FORM.search(file_name) is not None


def decode_name(file_name: bytes) -> str:
    """The name that `file_name` stands for.

    Raises `NameRefused` for what no name is encoded as: short forms (ask a `NameTable`), broken or needless
    escapes, a leading `.` or `_`, and bytes that are no UTF-8. Refusing all but the one right spelling, in
    which `=` and `:` may stand for themselves, keeps names of the store apart.
    """
    if is_short_form(file_name):
        raise NameRefused(file_name, "this is the short form of a long name, and no such name exists")
    if file_name == _EMPTY:
        return ""
    try:
        name = _unescaped(file_name, _ESCAPE)
    except UnicodeDecodeError as error:
        raise NameRefused(file_name, "it is no UTF-8") from error
    spelled = file_name.replace(b"=", b"%3D").replace(b":", b"%3A")
    if escape_name(name) != spelled or (spelled == file_name and len(file_name) > limits.NAME_BYTES_MAX):
        raise NameRefused(file_name, _spelling(file_name, encode_name(name)))
    return name


def _unescaped(file_name: bytes, escape: re.Pattern[bytes]) -> str:
    raw = escape.sub(lambda match: bytes((int(match[1], 16),)), file_name)
    return raw.decode("utf-8", "surrogatepass")


def _spelling(file_name: bytes, literal: bytes) -> str:
    """What is written in place of a wrong spelling; `literal` if only escapes in capitals are ones."""
    try:
        meant = encode_name(_unescaped(file_name, _ESCAPE_IN_EITHER_CASE))
    except UnicodeDecodeError:
        meant = literal
    rest = "" if meant == literal else f"; or {os.fsdecode(literal)!r}, if its % stands for itself"
    return f"the name it seems to mean is written {os.fsdecode(meant)!r}{rest}"


class NameTable:
    """The names that exist in one directory, found by file name: also those in short form."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._long: dict[bytes, str] = {}
        for name in names:
            self.add(name)

    def add(self, name: str) -> bytes:
        """Make `name` known; returns its file name. Only long names take up room."""
        encoded = encode_name(name)
        if is_short_form(encoded):
            self._long[encoded] = name
        return encoded

    def discard(self, name: str) -> None:
        self._long.pop(encode_name(name), None)

    def decode(self, file_name: bytes) -> str:
        """As `decode_name`, but gives long names back. Raises `NameRefused`."""
        if is_short_form(file_name) and file_name in self._long:
            return self._long[file_name]
        return decode_name(file_name)


def parse_message_name(file_name: bytes) -> tuple[MessageId, str] | None:
    """Id and suffix of a message's file; None for any other name, also for one with leading zeros."""
    match = _MESSAGE_NAME.fullmatch(file_name)
    if match is None:
        return None
    suffix = match.group(2).decode("ascii")
    return (MessageId(int(match.group(1))), suffix) if suffix in MESSAGE_SUFFIXES else None


@dataclass(frozen=True, slots=True)
class PartName:
    generation: int
    """Grows when the index had to be made anew, so that a part's name is never used for other content."""
    queue_id: int
    number: int
    is_tail: bool = False
    """This is how it is listed before it is a part."""


def format_part_name(part: PartName) -> bytes:
    """`part-0001-23-0000000007.jsonl`."""
    return b"%s-%0*d-%d-%0*d.jsonl" % (
        b"_tail" if part.is_tail else b"part",
        *(PART_GENERATION_DIGITS, part.generation, part.queue_id, PART_NUMBER_DIGITS, part.number),
    )


def parse_part_name(file_name: bytes) -> PartName | None:
    """None for any other name, also for a part written with other than the least number of digits."""
    match = _PART_NAME.fullmatch(file_name)
    if match is None:
        return None
    part = PartName(int(match[2]), int(match[3]), int(match[4]), match[1] == b"_tail")
    return part if format_part_name(part) == file_name else None


def is_tail_name(file_name: bytes) -> bool:
    """True for `_tail.jsonl`, and for what was listed as a tail, here or elsewhere."""
    part = parse_part_name(file_name)
    return file_name == TAIL_NAME or (part is not None and part.is_tail)


def is_reserved(file_name: bytes) -> bool:
    """True for names that are never an address's or queue's: views, staged files, what Spark skips."""
    return file_name[:1] in (b".", b"_")


def _escape(character: str) -> str:
    return "".join(f"%{byte:02X}" for byte in character.encode("utf-8", "surrogatepass"))


def _shorten(encoded: bytes, name: str) -> bytes:
    whole = name.encode("utf-8", "surrogatepass")
    digest = hashlib.blake2b(whole, digest_size=limits.NAME_HASH_CHARS // 2).hexdigest().encode("ascii")
    room = limits.NAME_BYTES_MAX - 1 - len(digest)
    # Cut neither within a character nor within an escape.
    while encoded[room] & 0xC0 == 0x80:
        room -= 1
    escape = encoded.rfind(b"%", room - 2, room)
    if escape >= 0:
        room = escape
    return encoded[:room] + b"~" + digest
