"""`journalfs scrub`: reads everything of a store or of backups against what it was."""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from pathlib import Path
from typing import Final

import click

from journalfs.account.advice import MENDED
from journalfs.backup import Backups
from journalfs.backup.places import is_url
from journalfs.cli import common
from journalfs.config.database import kept_text
from journalfs.config.layout import locate_store
from journalfs.config.sizes import parse_size_bytes
from journalfs.errors import EXIT_DAMAGED, WrongCall
from journalfs.exchange.targets import mounted_store
from journalfs.inspect.scrub import Pace, Scrub
from journalfs.inspect.scrub_memory import Done, Memory, memory_of
from journalfs.showing import advancing

_IOPRIO_SET: Final = {"x86_64": 251, "aarch64": 30}
_WHO_PROCESS, _IDLE = 1, 3 << 13


class _Rate(click.ParamType[int]):
    name = "rate"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        text = str(value)
        try:
            found = parse_size_bytes(text.removesuffix("/s"))
        except ValueError as error:
            self.fail(str(error), param, ctx)
        if found <= 0:
            self.fail(f"{text} would never end", param, ctx)
        return found


@click.command(epilog="Example: journalfs scrub --rate 50MB/s /var/lib/artemis/data")
@click.argument("target", metavar="STORE|MNT|BACKUP", type=common.GivenPlace())
@click.option("--rate", type=_Rate(), metavar="SIZE/s", help="Read no more than this: 50MB/s.")
@click.option(
    "--from",
    "store",
    type=common.GivenPath(),
    metavar="STORE",
    help="BACKUP: mend it from this store, if not from the one that was backed up.",
)
@click.option("--state", type=common.GivenPath(), metavar="FILE", help="Where digests and progress are kept.")
@common.json_option
def scrub(*, target: str, rate: int | None, store: Path | None, state: Path | None, as_json: bool) -> None:
    """Read all of a store, mounted or not, or of a place of backups against checksums.

    Files without checksums that nobody changes any more (closed journal files, pages and bodies) are compared
    with what they were at the last scrub. Ends with 5 if something is damaged. Killed, it goes on where it
    was; the store stays as it is. It yields the disk to others. A bad piece of a backup is written anew if
    the store that was backed up has its bytes still.
    """
    common.name_in_warnings()
    _yield_disk()
    shown = target if is_url(target) else os.path.abspath(target)
    memory = Memory(state or memory_of(shown))
    try:
        with advancing("scrub") as advance:
            done = _scrubbed(Scrub(memory, Pace(rate or 0, advance=advance)), target, store)
        found = [one.json() for one in memory.findings()]
        damaged = sum(one["kind"] != MENDED for one in found)
        memory.ended()
    finally:
        memory.close()
    facts = {"kind": "scrubbed", "files": done.files, "bytes": done.bytes, "compared": done.compared,
             "damage": damaged, "mended": len(found) - damaged}  # fmt: skip
    if as_json:
        common.write_json([*found, facts])
    else:
        columns = ["file", "offset", "bytes", "kind", "reason", "do"]
        if found:
            common.write_table(
                [one.upper() for one in columns], [[one[key] for key in columns] for one in found]
            )
        damage = f"{damaged} damaged" if damaged else "no damage"
        damage += f", {len(found) - damaged} mended" if len(found) > damaged else ""
        common.say(
            f"{done.files} files, {done.bytes} bytes read, {done.compared} of them compared with what they "
            f"were: {damage}",
            to_people=True,
        )
    sys.exit(EXIT_DAMAGED if damaged else 0)


def _scrubbed(scrub: Scrub, target: str, store: Path | None) -> Done:
    backups = Backups.found(target)
    if backups is not None:
        return scrub.backups(backups, store)
    if store is not None:
        raise WrongCall(f"{target}: no backups are here, and --from mends backups only")
    path = Path(kept_text(target))
    return scrub.store(locate_store(mounted_store(path) or path, adopting=False))


def _yield_disk() -> None:
    """Whoever else wants the disk comes first. Where the kernel does not know this, nothing is lost."""
    number = _IOPRIO_SET.get(platform.machine())
    if number is not None:
        ctypes.CDLL(None).syscall(number, _WHO_PROCESS, 0, _IDLE)
