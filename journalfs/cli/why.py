"""`journalfs why`: why a mount refused something, and what to do."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Final

import click

from journalfs.cli.common import GivenPath, json_option, say, when, write_json
from journalfs.cli.mounts import the_mount
from journalfs.cli.refusals import Refusal, missing_addresses, refusals
from journalfs.clock import SystemClock
from journalfs_mount.process.mount_table import mounted_at

RECENT_MS: Final = 60_000
GONE: Final = frozenset((errno.ENOTCONN, errno.ECONNABORTED))
"""What everything is answered with in a mount whose process was killed."""


@click.command(epilog="Example: journalfs why /mnt -n 3")
@click.argument("mountpoint", type=GivenPath(), required=False)
@click.option(
    "-n", "count", metavar="N", default=5, show_default=True, help="So many refusals, the last ones."
)
@click.option("--printed", metavar="TEXT", help="Only refusals that a shell printed so, or of this path.")
@json_option
def why(*, mountpoint: Path | None, count: int, printed: str | None, as_json: bool) -> None:
    """Say why the mount at MOUNTPOINT, or around the working directory, refused its last changes.

    Each has the text of the shell, the reason and the remedy. A path in the mount names the mount, too.
    """
    root = the_mount(mountpoint)
    try:
        told = sorted([*refusals(root), *missing_addresses(root)], key=lambda one: one.time_ms)
    except OSError as error:
        if error.errno not in GONE:
            raise
        told = [_without_process(root)]
    found = [one for one in told if printed is None or one.matches(printed)][-count:]
    if as_json:
        write_json(one._asdict() for one in found)
        return
    since_ms = SystemClock().now_ms() - (found[-1].time_ms if found else 0)
    if found and since_ms > RECENT_MS:
        say(f"{root}: nothing in the last minute; the last one was {_long(since_ms)} ago:", to_people=True)
    for one in found:
        say(f"{when(one.time_ms)}  {one.path}: {one.printed} ({one.errno})")
        say(f"    {one.reason}")
        if one.do:
            say(f"    what to do: {one.do}")
    if not found:
        which = "nothing" if printed is None else f"nothing with {printed!r}"
        say(f"{root}: {which} was refused since this was mounted", to_people=True)


def _long(time_ms: int) -> str:
    """A span of time in its largest whole unit."""
    for unit, unit_ms in (("day", 86_400_000), ("hour", 3_600_000), ("minute", 60_000)):
        if time_ms >= unit_ms:
            number = time_ms // unit_ms
            return f"{number} {unit}{'s' if number > 1 else ''}"
    return f"{time_ms // 1000} seconds"


def _without_process(root: Path) -> Refusal:
    """What everything in a mount is refused with whose process is gone."""
    mounted = mounted_at(root)
    source = "STORE" if mounted is None else mounted.source
    reason = "the process of this mount is gone; what callers were told is in the store"
    do = f"mount again, in its place: journalfs mount {source} {root}; journalfs umount {root} gives up"
    return Refusal(SystemClock().now_ms(), "/", "ENOTCONN", os.strerror(errno.ENOTCONN), reason, do)
