"""`journalfs why`: why a mount refused something, and what to do."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import click

from journalfs.cli.common import GivenPath, json_option, say, when, write_json
from journalfs.cli.mounts import the_mount

EVENTS = ".journalfs/events.jsonl"


class Refusal(NamedTuple):
    """One event. `path` is that in the mount, `printed` what a shell said."""

    time_ms: int
    path: str
    errno: str
    printed: str
    reason: str
    do: str

    def matches(self, words: str) -> bool:
        said = f"{self.path}: {self.printed} ({self.errno}) {self.reason}"
        return words.casefold() in said.casefold()


@click.command(epilog="Example: journalfs why /mnt -n 3")
@click.argument("mountpoint", type=GivenPath(), required=False)
@click.option("-n", "count", default=5, show_default=True, help="So many refusals, the last ones.")
@click.option("--printed", metavar="TEXT", help="Only refusals that a shell printed so, or of this path.")
@json_option
def why(*, mountpoint: Path | None, count: int, printed: str | None, as_json: bool) -> None:
    """Say why the mount at MOUNTPOINT, or around the working directory, refused its last changes.

    Each has the text of the shell, the reason and the remedy. A path in the mount names the mount, too.
    """
    root = the_mount(mountpoint)
    found = [one for one in refusals(root) if printed is None or one.matches(printed)][-count:]
    if as_json:
        write_json(one._asdict() for one in found)
        return
    for one in found:
        say(f"{when(one.time_ms)}  {one.path}: {one.printed} ({one.errno})")
        say(f"    {one.reason}")
        say(f"    what to do: {one.do}")
    if not found:
        which = "nothing" if printed is None else f"nothing with {printed!r}"
        say(f"{root}: {which} was refused since this was mounted", to_people=True)


def refusals(mount: Path) -> Iterator[Refusal]:
    """All that a mount remembers."""
    import msgspec  # noqa: PLC0415

    from journalfs.advice import ADVICE  # noqa: PLC0415

    for line in (mount / EVENTS).read_bytes().splitlines():
        event: dict[str, Any] = msgspec.json.decode(line)
        if event["event"] != "refused":
            continue
        path, _, name = str(event["what"]).rpartition(": ")
        number = getattr(errno, name, None)
        printed = os.strerror(number) if isinstance(number, int) else name
        advice = ADVICE.get(name)
        do = "see the reason" if advice is None else advice.do.replace("`", "")
        yield Refusal(int(event["time"]), path, name, printed, str(event["reason"]), do)
