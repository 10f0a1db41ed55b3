"""Names inside the paging directory, and `address.txt` (docs/format/pages.md)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from journalfs.errors import DecodeError
from journalfs.ids import PageNumber

ADDRESS_FILE_NAME: Final = "address.txt"
REPLICA_MARK: Final = "oldreplica."
"""A folder with this in its name is what replication left behind; the broker does not read it."""

PAGE_EXTENSION: Final = ".page"
INVALID_SUFFIX: Final = ".invalidPage"
"""Behind the name of a page that was set aside, because something in it could not be read."""
_PAGE_NAME: Final = re.compile(r"([0-9]{1,18})\.page(\.invalidPage)?")


@dataclass(frozen=True, slots=True)
class PageFileName:
    number: PageNumber
    invalid: bool
    """True for a page that was set aside."""


def parse_page_name(name: str) -> PageFileName | None:
    """`000000007.page` -> 7; None for any other file."""
    match = _PAGE_NAME.fullmatch(name)
    if match is None:
        return None
    return PageFileName(PageNumber(int(match.group(1))), match.group(2) is not None)


def format_page_name(number: PageNumber) -> str:
    """The name the broker gives page `number`: nine digits at least."""
    return f"{number:09d}.page"


def decode_address_file(data: bytes) -> str:
    """The address a page folder belongs to: the first line of its `address.txt`.

    The broker writes its platform's charset, nowadays UTF-8; what is no UTF-8 is taken as ISO 8859-1, which
    cannot fail and keeps old stores readable. A broker under a POSIX locale writes `?` for each character
    outside ASCII: see `ascii_only`. Raises `DecodeError` when there is no line.
    """
    line = data.split(b"\n", 1)[0].rstrip(b"\r")
    if not line:
        raise DecodeError(0, "the file holds no address")
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError:
        return line.decode("latin-1")


def ascii_only(address: str) -> str:
    """What a broker running in an ASCII-only locale wrote into an `address.txt`: every character that it
    could not write is a `?`. So the folder's own address may have to be found among the bound ones.
    """
    return "".join(character if character.isascii() else "?" for character in address)
