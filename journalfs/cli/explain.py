"""`journalfs explain`: what keeps the files of a journal."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click
import msgspec

from journalfs.cli.common import (
    SEPARATOR,
    index_option,
    json_option,
    opened,
    say,
    store_argument,
    write_json,
    write_table,
)
from journalfs.errors import WrongCall
from journalfs.live.explaining import as_text

if TYPE_CHECKING:
    from journalfs.inspect.holding import Held
    from journalfs.store.store import JournalStore

_HEADER = ("HELD BY", "MESSAGES", "JOURNAL FILES", "ALONE", "PAGES", "BODIES", "BYTES", "COMMAND")


@click.command(epilog="Example: journalfs explain /var/lib/artemis/data activemq-data-7.amq")
@store_argument
@click.argument("file", required=False)
@click.option(
    "--summary", "sums_up", is_flag=True, help="What keeps how much, and the commands that free it."
)
@json_option
@index_option
def explain(*, store: Path, file: str | None, sums_up: bool, as_json: bool, no_index: bool) -> None:
    """Say why each file of STORE's message journal, or FILE alone, stays on the disk.

    Live messages by queue with the age of the oldest, other live records, open transactions, deletes of what
    lies in earlier files; and whether compaction would free it. Nothing is changed.

    --summary has a row for each queue, and each prepared transaction: the journal files, pages and large
    bodies that it keeps, and the command that takes its messages away, into a file. Files that several keep
    go with the last of them, or by compaction.
    """
    if sums_up:
        if file is not None:
            raise WrongCall("--summary is of the whole store: give no file")
        _sum_up(store, as_json, index=not no_index)
        return
    with opened(store, index=not no_index) as found:
        facts = cast("JournalStore", found).explanations.facts()
        if file is not None:
            name = Path(file).name
            facts = [one for one in facts if one.file == name]
            if not facts:
                raise WrongCall(f"{store}: its message journal has no file {name!r}")
        if as_json:
            write_json(facts)
        else:
            sys.stdout.write("\n".join(map(as_text, facts)))


def _sum_up(path: Path, as_json: bool, *, index: bool) -> None:
    """Print what keeps the files of a store, that of most bytes first, with the commands that free them."""
    from journalfs.inspect.holding import summary  # noqa: PLC0415 - takes longer than the help text

    mounted = os.path.ismount(path)
    with opened(path, index=index) as found:
        done = summary(cast("JournalStore", found))
        busy = bool(found.status()["liveBroker"]) and not mounted
    commands = [_command(path, one, mounted=mounted, busy=busy) for one in done.held]
    compact = f"journalfs compact {shlex.quote(str(path))}"
    if as_json:
        held = ({**msgspec.to_builtins(one), "command": command}
                for one, command in zip(done.held, commands, strict=True))  # fmt: skip
        rest = {"compactionFreesBytes": done.compaction_frees_bytes, "command": compact,
                "compactionWritesBytes": done.compaction_writes_bytes}  # fmt: skip
        write_json([*held, rest])
        return
    rows = [
        (
            one.queue or f"transaction {one.transaction}",
            one.messages,
            f"{len(one.journal_files)} ({one.journal_bytes})",
            one.alone_bytes,
            f"{one.page_files} ({one.page_bytes})",
            f"{one.bodies} ({one.body_bytes})",
            one.alone_bytes + one.page_bytes + one.body_bytes,
            command,
        )
        for one, command in zip(done.held, commands, strict=True)
    ]
    write_table(_HEADER, rows)
    if done.compaction_frees_bytes:
        say(
            f"{compact}: frees journal files of {done.compaction_frees_bytes} bytes, and writes "
            f"{done.compaction_writes_bytes} bytes for that",
            to_people=True,
        )


def _command(path: Path, held: Held, *, mounted: bool, busy: bool) -> str:
    """What takes away the messages that keep files; they are in a file afterwards."""
    place = shlex.quote(str(path))
    if busy:
        return "(by the broker that has the store)"
    if held.transaction is not None:
        return f"journalfs xa {place} rollback {shlex.quote(held.transaction)}"
    assert held.queue is not None, "a queue or a transaction"
    address, _, queue = held.queue.partition(SEPARATOR)
    into = shlex.quote(f"{queue.replace('/', '%2F')}.jsonl")
    if mounted:
        from journalfs_mount.names.grammar import encode_name  # noqa: PLC0415 - takes longer than the help

        folder = path.joinpath(*(os.fsdecode(encode_name(name)) for name in (address, queue)))
        return f"mv {shlex.quote(str(folder / '.all.jsonl'))} {into}"
    return f"journalfs take {place} {shlex.quote(held.queue)} >> {into}"
