"""`journalfs compact`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import click
import trio

from journalfs.account.entries import NONE, Entry
from journalfs.account.taking import account_of
from journalfs.cli.books import say_losses
from journalfs.cli.common import force_option, json_option, say, store_argument, write_json, write_table
from journalfs.config.layout import locate_store
from journalfs.live.missing import note_missing
from journalfs.records.files.kept_damage import discard_damage
from journalfs.store import open_store
from journalfs.store.refused import refuse_unreadable
from journalfs.store.write.compacting import Compacted, compact_store, preview_store
from journalfs.store.write.opening import open_alone


@click.command(epilog="Example: journalfs compact --dry-run /var/lib/artemis/data")
@store_argument
@click.option("--dry-run", is_flag=True, help="Change nothing; list the files to be freed and written.")
@click.option(
    "--discard-damage", is_flag=True, help="Forget missing files, and delete unreadable parts that were kept."
)
@click.option("--shrink", is_flag=True, help="Delete all free files, too.")
@force_option
@json_option
def compact(*, store: Path, dry_run: bool, discard_damage: bool, shrink: bool, as_json: bool) -> None:
    """Rewrite the live records of STORE's journals into new files, packed, and set the old ones free.

    No broker and no mount for writing can have the store meanwhile; --dry-run works beside them. Free files
    stay for use, up to journal-pool-files, and there are no more files than before; --shrink gives the room
    of all free files back.

    Unreadable parts of the old files are kept below journalfs/damaged in the store, and count as damage,
    until --discard-damage deletes them, lists them as `check` does, and says how many messages they had.
    """
    if dry_run:
        _preview(store, as_json)
        return
    done = _compact(store, discard_damage, shrink)
    if as_json:
        write_json(done)
    else:
        header = ["JOURNAL", "FILES", "BYTES", "WITH RECORDS", "WRITTEN BYTES"]
        rows = [
            (
                one.journal,
                f"{one.files_before} -> {one.files_after}",
                f"{one.bytes_before} -> {one.bytes_after}",
                f"{one.with_records_before} -> {one.with_records_after}",
                one.written_bytes,
            )
            for one in done
        ]
        write_table(header, rows)


def _compact(path: Path, discards: bool, shrinks: bool) -> list[Compacted]:
    refuse_unreadable(locate_store(path))  # one in a database has no files to be packed
    store = open_alone(path)
    try:
        before = account_of(store).losses if discards else ()  # compaction closes gaps between ids
        done = trio.run(lambda: compact_store(store, shrinks=shrinks))
        if discards:
            discard_damage(store.core.root)
            # What a missing file held is gone for good; without this `check` would list its id for ever.
            note_missing(store.core.layout)
            _tell_discarded(before, _losses(path))
        return done
    finally:
        store.close()


def _losses(path: Path) -> Sequence[Entry]:
    """Return what the account of a store lists as lost now, read anew."""
    with closing(open_store(path, index=False)) as store:
        return account_of(store).losses


def _tell_discarded(before: Sequence[Entry], after: Sequence[Entry]) -> None:
    """Print each entry that the account no longer has, as `check` prints it, and their sum."""
    still = {_place(one) for one in after}
    gone = [one for one in before if _place(one) not in still]
    say_losses(gone)
    lost = sum((one.messages for one in gone), start=NONE)
    say(f"discarded: {_places(gone)}, with {lost.text()} messages", to_people=True)
    if after:
        say(f"still there: {_places(after)}, as journalfs check lists", to_people=True)


def _places(entries: Sequence[Entry]) -> str:
    return f"{len(entries)} place{'' if len(entries) == 1 else 's'} of damage"


def _place(entry: Entry) -> tuple[str, str, int | None, int | None]:
    return entry.kind, entry.file, entry.offset, entry.id


def _preview(path: Path, as_json: bool) -> None:
    refuse_unreadable(locate_store(path))
    found = preview_store(path)
    if as_json:
        write_json(found)
        return
    header = ["JOURNAL", "FILES", "BYTES", "WOULD FREE", "WOULD WRITE", "WOULD WRITE BYTES"]
    write_table(
        header,
        [
            (
                one.journal,
                one.files,
                one.bytes,
                len(one.frees),
                one.writes_files,
                one.writes_bytes,
            )
            for one in found
        ],
    )
