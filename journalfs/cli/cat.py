"""`journalfs cat`: messages as envelope lines."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from journalfs.cli import common
from journalfs.errors import JournalfsError
from journalfs.windows import WINDOW_BYTES, whole_lines

if TYPE_CHECKING:
    from journalfs.api import ByteSource, View
    from journalfs.selector import Selector


@click.command(epilog="Example: journalfs cat /var/lib/artemis/data orders::billing | jq .body")
@common.store_argument
@common.older_options
@click.argument("target", metavar="[ADDRESS[::QUEUE]]", required=False)
@click.option("--where", "text", metavar="SELECTOR", help="Only messages that a JMS selector accepts.")
@click.option("--json", "_as_json", is_flag=True, help="Always so; for uniformity.")
@common.index_option
def cat(
    *, store: Path, older: common.Older, target: str | None, text: str | None, _as_json: bool, no_index: bool
) -> None:
    """Print the live messages of ADDRESS::QUEUE, of ADDRESS or of all STORE, one JSON object a line.

    Messages are in the order they arrived. Nothing is consumed.
    """
    selector = None
    if text is not None:
        from journalfs.selector import compile_selector  # noqa: PLC0415

        selector = compile_selector(text)
    with common.opened(store, index=not no_index, older=older) as found:
        queues = common.find_queues(found, target)
        if text is not None:
            common.warn_of_names(queues, text)
        for queue in queues:
            source = _opened(queue)
            if selector is None:
                common.write_all(source)
            else:
                _write_accepted(source, selector)


def _opened(queue: View) -> ByteSource:
    """Open all of a queue. Where reading shows that it is not what was known of it, it was looked at again by
    then: open what there is.
    """
    source = queue.open_all()
    try:
        source.read(0, WINDOW_BYTES)
    except JournalfsError:
        source.close()
        return queue.open_all()
    return source


def _write_accepted(source: ByteSource, selector: Selector) -> None:
    """Copy the lines that a selector accepts, decoding of each only what the selector reads."""
    from journalfs.message.envelope import envelope_decoder  # noqa: PLC0415

    decode, accepts, out = envelope_decoder(selector.keys), selector.accepts, sys.stdout.buffer
    for lines in whole_lines(source):
        out.write(b"".join([line for line in lines.splitlines(keepends=True) if accepts(decode(line))]))
