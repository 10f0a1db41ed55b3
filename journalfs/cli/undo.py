"""`journalfs undo`: what was removed or taken through a mount is in its queues again."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

import click

from journalfs.cli.common import SEPARATOR, GivenPath, json_option, write_json
from journalfs.cli.mounts import the_mount
from journalfs.clock import SystemClock
from journalfs.errors import SystemFailure, WrongCall
from journalfs.times import moment_ms

UNDO: Final = ".journalfs/removed/.undo"
ANSWER_BYTES_MAX: Final = 64 << 20


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
    answer = _ask(root / UNDO, f"dry-run {line}" if dry_run else line)
    queues, gone = answer["queues"], answer["gone"]
    if as_json:
        write_json(queues)
    else:
        for one in queues:
            said = "would come back" if dry_run else "came back"
            click.echo(f"{one['address']}{SEPARATOR}{one['queue']}: {one['messages']} {said}")
    if gone:
        click.echo(f"{root}: {gone} are gone, as their room is used again", err=True)
    if not queues:
        click.echo(f"{root}: nothing was removed that could be brought back", err=True)
        raise SystemExit(1)


def _ask(file: Path, line: str) -> dict[str, Any]:
    import msgspec  # noqa: PLC0415

    if not file.parent.exists():
        raise WrongCall(f"{file.parents[2]}: this mount removes nothing (--read-only or -o browse)")
    try:
        descriptor = os.open(file, os.O_RDWR | os.O_CLOEXEC)
        try:
            os.write(descriptor, line.encode())
            answer = os.pread(descriptor, ANSWER_BYTES_MAX, 0)
        finally:
            os.close(descriptor)
    except OSError as error:
        doing = f"bring removed messages back (journalfs why {file.parents[2]} says more)"
        raise SystemFailure.from_os(error, file, doing=doing) from error
    found: dict[str, Any] = msgspec.json.decode(answer)
    return found
