"""`journalfs check`: reads everything there is and lists what cannot be read."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from journalfs.account.advice import advice_of
from journalfs.account.entries import Entry
from journalfs.cli import common
from journalfs.errors import EXIT_DAMAGED
from journalfs.inspect.deep import checked
from journalfs.store.odd_settings import facts, odd_settings
from journalfs.store.store import JournalStore
from journalfs.store.write.opening import open_alone

if TYPE_CHECKING:
    from journalfs.account.entries import Account

_COLUMNS = {"FILE": "file", "OFFSET": "offset", "BYTES": "bytes", "KIND": "kind", "REASON": "reason"}


@click.command(epilog="Example: journalfs check --deep /var/lib/artemis/data")
@common.store_argument
@common.older_options
@click.option("--deep", is_flag=True, help="Verify every record, count and body, also against each other.")
@click.option("--set-aside", is_flag=True, help="Move large bodies that no message has out of the way.")
@common.json_option
def check(*, store: Path, older: common.Older, deep: bool, set_aside: bool, as_json: bool) -> None:
    """Read all of STORE and print its account: what is damaged, undecided or missing of journals, pages,
    large bodies and messages, and prepared transactions.

    Ends with 0 for a store that lacks nothing, else with 5. Nothing is changed. Three kinds of rows are no
    loss: prepared transactions, large bodies that no message has (a crash leaves them), and pages that were
    renamed instead of deleted. The index is asked for one thing only: which files are gone. --deep and --json
    say what to do, too.

    --set-aside takes the store for writing, as a mount does, and moves such bodies to journalfs/orphans.
    """
    if set_aside:
        _set_aside(store)
    with common.opened(store, anew=True, older=older) as found:
        done = checked(found, deep=deep)
        unknown, gaps = found.references_to_unknown(), found.missing_journal_files()
        assert isinstance(found, JournalStore), "all that are open for reading are"
        settings = [facts(one) for one in odd_settings(found.core)]
    account = done.account
    if as_json:
        sound = {"kind": "sound", "messages": done.read.messages, "damage": 0}
        sound |= {"notLookedAt": list(account.not_looked_at)}
        keys = dict.fromkeys(Entry.__struct_fields__) | {"bound": None}
        common.write_json([*([*account.json_rows()] or [sound]), *({**keys, **one} for one in settings)])
    else:
        rows = [entry.json() for entry in account.entries]
        if rows:
            common.write_table(list(_COLUMNS), [[row[key] for key in _COLUMNS.values()] for row in rows])
        for kind in sorted({entry.kind for entry in account.entries}) if deep else ():
            common.say(f"{kind}: {advice_of(kind)}", to_people=True)
        common.say(f"{done.counted()}, {_summary(account, unknown, gaps)}", to_people=True)
        for line in () if account.whole else account.lines():
            common.say(line, to_people=True)
        if account.not_looked_at:
            kinds = ", ".join(account.not_looked_at)
            common.say(f"not looked for, or not everywhere: {kinds}; --deep does", to_people=True)
        for one in settings:
            common.say(f"{one['kind']}: {one['file']}: {one['reason']}", to_people=True)
    sys.exit(0 if account.whole else EXIT_DAMAGED)


def _summary(account: Account, unknown: Mapping[str, int], gaps: Sequence[str]) -> str:
    kinds = Counter(entry.kind for entry in account.entries)
    orphans, pages = kinds["orphan"], kinds["page-set-aside"]
    damaged = len(account.losses) - kinds["missing-id"]
    said = f"{damaged} damaged" if damaged else "no damage"
    said += f", {orphans} bodies without a message" if orphans else ""
    said += f", {pages} page{'s' * (pages > 1)} set aside" if pages else ""
    said += f", no journal file {', '.join(gaps)}" if gaps else ""
    of = ", ".join(f"{count} of {queue}" for queue, count in sorted(unknown.items()))
    total = sum(unknown.values())
    return said + (f"; {total} references to messages that no record has ({of})" if unknown else "")


def _set_aside(path: Path) -> None:
    """Opening a store for writing does it; each body is an event, which is logged."""
    open_alone(path).close()
