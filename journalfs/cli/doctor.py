"""`journalfs doctor`: whether this machine keeps what a store promises."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from journalfs.cli.common import json_option, name_in_warnings, say, store_argument, write_json, write_table
from journalfs.config.layout import locate_store
from journalfs.errors import EXIT_SYSTEM, JournalfsError
from journalfs.exchange.targets import mounted_store

if TYPE_CHECKING:
    from journalfs.inspect.doctor import Finding


@click.command(epilog="Example: journalfs doctor /var/lib/artemis/data")
@store_argument
@json_option
def doctor(*, store: Path, as_json: bool) -> None:
    """Look at the machine and the disk below STORE, beside a broker or a mount too: its filesystem and mount
    options, the disk's cache, which backend writes the journal and why, how long a flush takes, limits, FUSE,
    the clock, versions. Each finding has what to do.

    A file of 1 MiB is written beside the journal files, and removed. Ends with 2 if something is bad:
    messages may be lost, or a mount fails.
    """
    from journalfs.inspect.doctor import State, examine  # noqa: PLC0415 - takes longer than the help text

    name_in_warnings()
    found = [*examine(locate_store(mounted_store(store) or store)), *_of_fuse(), _versions()]
    if as_json:
        write_json(found)
    else:
        write_table(["STATE", "WHAT", "FOUND"], [[one.state, one.name, one.found] for one in found])
        for one in found:
            if one.remedy:
                say(f"{one.name}: {one.remedy}", to_people=True)
    sys.exit(EXIT_SYSTEM if any(one.state is State.BAD for one in found) else 0)


def _of_fuse() -> Iterator[Finding]:
    """Whether this user can mount, and show a mount to others."""
    from journalfs.inspect.doctor import Finding, State  # noqa: PLC0415 - as above
    from journalfs_mount.start.mountpoint import check_fuse  # noqa: PLC0415 - as above

    try:
        check_fuse()
    except JournalfsError as error:
        yield Finding("fuse", State.BAD, "no mount is possible", str(error))
        return
    tool = shutil.which("fusermount3")
    yield Finding("fuse", State.OK, f"/dev/fuse can be opened; fusermount3 is {tool or 'not there'}")
    if os.geteuid() != 0 and not _others_allowed():
        remedy = "root adds the line user_allow_other to /etc/fuse.conf; only -o allow_other needs it"
        yield Finding("allow-other", State.NOTE, "users may not show their mounts to others", remedy)


def _others_allowed() -> bool:
    try:
        lines = Path("/etc/fuse.conf").read_text().splitlines()
    except OSError:
        return False
    return any(line.strip() == "user_allow_other" for line in lines)


def _versions() -> Finding:
    from journalfs.cli.version import version_line  # noqa: PLC0415 - as above
    from journalfs.inspect.doctor import Finding, State  # noqa: PLC0415 - as above

    return Finding("versions", State.OK, version_line())
