"""`journalfs check`: reads everything there is and lists what cannot be read."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import click

from journalfs.account.advice import advice_of
from journalfs.cli import common
from journalfs.errors import EXIT_DAMAGED
from journalfs.inspect.deep import checked
from journalfs.store.odd_settings import facts, odd_settings
from journalfs.store.write.opening import open_alone

Facts: TypeAlias = Mapping[str, object]
"""Of one damage, by what `--json` calls it."""

_COLUMNS = {"FILE": "file", "OFFSET": "offset", "BYTES": "bytes", "KIND": "kind", "REASON": "reason"}


@click.command(epilog="Example: journalfs check --deep /var/lib/artemis/data")
@common.store_argument
@common.older_options
@click.option("--deep", is_flag=True, help="Verify every record, count and body, also against each other.")
@click.option("--set-aside", is_flag=True, help="Move large bodies that no message has out of the way.")
@common.json_option
def check(*, store: Path, older: common.Older, deep: bool, set_aside: bool, as_json: bool) -> None:
    """Read all of STORE and list the damage: journals, pages, large bodies, and every message that is live
    or in a prepared transaction.

    Ends with 0 without damage and with 5 with damage. Nothing is changed. Three things are listed that are no
    damage: large bodies that no message has (a crash leaves them), pages that were renamed instead of
    deleted, and ids that no journal file has, though none was deleted as far as is known. The index is asked
    for one thing only: which files are gone. --deep and --json say what to do, too.

    --set-aside takes the store for writing, as a mount does, and moves such bodies to journalfs/orphans.
    """
    if set_aside:
        _set_aside(store)
    with common.opened(store, anew=True, older=older) as found:
        done = checked(found, deep=deep)
        notes = [*map(_orphan, found.orphaned_bodies()), *map(_page, found.pages_set_aside())]
        gaps = [_gap(ids) for ids in found.missing_journal_files()]
        unknown = found.references_to_unknown()
        settings = [facts(one) for one in odd_settings(found)]
    damage = [one.json() for one in done.findings]
    listed = [*damage, *notes, *gaps]
    if as_json:
        sound = {"kind": "sound", "messages": done.read.messages, "damage": 0}
        rows = [{**one, "do": advice_of(str(one["kind"]))} for one in listed] or [sound]
        common.write_json([*rows, *settings])
    elif listed:
        common.write_table(
            list(_COLUMNS), [[facts.get(key) for key in _COLUMNS.values()] for facts in listed]
        )
    if not as_json:
        for one in settings:
            common.say(f"{one['kind']}: {one['file']}: {one['reason']}")
        for kind in sorted({str(one["kind"]) for one in listed}) if deep else ():
            common.say(f"{kind}: {advice_of(kind)}", to_people=True)
        common.say(f"{done.counted()}, {_summary(damage, notes, gaps, unknown)}", to_people=True)
    sys.exit(EXIT_DAMAGED if damage else 0)


def _summary(
    damage: Sequence[Facts], notes: Sequence[Facts], gaps: Sequence[Facts], unknown: Mapping[str, int]
) -> str:
    orphans = sum(one["kind"] == "orphan" for one in notes)
    pages = len(notes) - orphans
    said = f"{len(damage)} damaged" if damage else "no damage"
    said += f", {orphans} bodies without a message" if orphans else ""
    said += f", {pages} page{'s' * (pages > 1)} set aside" if pages else ""
    said += f", no journal file {', '.join(str(gap['ids']) for gap in gaps)}" if gaps else ""
    of = ", ".join(f"{count} of {queue}" for queue, count in sorted(unknown.items()))
    total = sum(unknown.values())
    return said + (f"; {total} references to messages that no record has ({of})" if unknown else "")


def _set_aside(path: Path) -> None:
    """Opening a store for writing does it; each body is an event, which is logged."""
    open_alone(path).close()


def _orphan(name: str) -> Facts:
    reason = "no message has this body; --set-aside moves it out of the way"
    return {"file": name, "offset": 0, "bytes": 0, "kind": "orphan", "reason": reason}


def _page(name: str) -> Facts:
    reason = "something was wrong with this page when nothing was left to consume in it: it was renamed"
    return {"file": name, "offset": 0, "bytes": 0, "kind": "page-set-aside", "reason": reason}


def _gap(ids: str) -> Facts:
    reason = (
        f"no file has id {ids}, and neither use under a later id nor the pool of free files explains it: one "
        "that was taken away took with it what was in it"
    )
    return {"file": "journal", "offset": 0, "bytes": 0, "kind": "missing-id", "reason": reason, "ids": ids}
