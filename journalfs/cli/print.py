"""`journalfs print`: every record of a store's files as a line."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from journalfs.cli import common
from journalfs.message.envelope import decode_envelope
from journalfs.windows import whole_lines

if TYPE_CHECKING:
    from journalfs.api import ByteSource

SECTIONS = ("bindings", "journal", "pages")
RECORDS_SUFFIX = ".jsonl"


@click.command(name="print", epilog="Example: journalfs print --journal --safe /var/lib/artemis/data")
@common.store_argument
@common.older_options
@click.option("--bindings", is_flag=True, help="Records of the bindings journal.")
@click.option("--journal", is_flag=True, help="Records of the message journal.")
@click.option("--pages", is_flag=True, help="Records of the page files.")
@click.option("--safe", is_flag=True, help="Leave out everything that users wrote; keep the structure.")
@common.index_option
def print_records(
    *,
    store: Path,
    older: common.Older,
    bindings: bool,
    journal: bool,
    pages: bool,
    safe: bool,
    no_index: bool,
) -> None:
    """Print every record of the files of STORE, deleted messages included, one JSON object a line.

    Without a choice it is all three: bindings, journal, pages. Files of a journal stand in the order in which
    they were written, by the id in their header, whatever their names are; pages by name.
    """
    chosen = [name for name, wanted in zip(SECTIONS, (bindings, journal, pages), strict=True) if wanted]
    with common.opened(store, index=not no_index, older=older) as found:
        for section in chosen or SECTIONS:
            for name, file in common.files_below(found.control().child(section), by_name=section == "pages"):
                if not name.endswith(RECORDS_SUFFIX):
                    continue
                source = file.open()
                if safe:
                    _write_safely(source)
                else:
                    common.write_all(source)


_SAFE_TEXTS = frozenset({"file", "kind", "userTypeName", "address", "queue", "protocol", "type"})
"""What may be shown as text; of everything else only numbers and truth values are."""


def _write_safely(source: ByteSource) -> None:
    out, encode = sys.stdout.buffer, msgspec.json.Encoder().encode
    for lines in whole_lines(source):
        for line in lines.splitlines():
            out.write(encode(_structure(decode_envelope(line))) + b"\n")


def _structure(record: Mapping[str, object]) -> dict[str, object]:
    return {
        key: value
        for key, value in record.items()
        if isinstance(value, int) or (key in _SAFE_TEXTS and isinstance(value, str))
    }
