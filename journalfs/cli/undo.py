"""`journalfs undo`: what was removed or taken through a mount is in its queues again."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from journalfs.cli.common import SEPARATOR, GivenPath, json_option, say, write_json
from journalfs.cli.mounts import ask, the_mount
from journalfs.clock import SystemClock
from journalfs.times import moment_ms

UNDO: Final = ".journalfs/removed/.undo"


@click.command(epilog="Example: journalfs undo /mnt --since 10m --dry-run")
@click.argument("mountpoint", type=GivenPath(), required=False)
@click.option("--since", metavar="TIME", help="All since 10m (ago), 14:30 or 2026-01-31T14:30 (local time).")
@click.option("--dry-run", is_flag=True, help="Change nothing; say what would come back.")
@json_option
def undo(*, mountpoint: Path | None, since: str | None, dry_run: bool, as_json: bool) -> None:
    """Bring back what was removed or taken through the mount at MOUNTPOINT, or around the working directory.

    Without --since: what the last command removed, that is one process group, or one reader of `.take`
    that has ended. Messages go to the queues that they came from, which are made again if they are gone.
    """
    root = the_mount(mountpoint)
    line = "last" if since is None else f"since {moment_ms(since, SystemClock().now_ms())}"
    answer = ask(
        root / UNDO,
        f"dry-run {line}" if dry_run else line,
        doing="bring removed messages back",
        else_why="this mount removes nothing (--read-only or -o browse)",
    )
    queues, gone = answer["queues"], answer["gone"]
    if as_json:
        write_json(queues)
    else:
        for one in queues:
            said = "would come back" if dry_run else "came back"
            say(f"{one['address']}{SEPARATOR}{one['queue']}: {one['messages']} {said}")
    if gone:
        say(f"{root}: {gone} are gone, as their room is used again", to_people=True)
    if not queues:
        say(f"{root}: nothing was removed that could be brought back", to_people=True)
        raise SystemExit(1)
