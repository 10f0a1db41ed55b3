"""What a mount remembers of what it refused."""

from __future__ import annotations

import errno
import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from journalfs.advice import advice
from journalfs.cli.common import nearest

EVENTS = ".journalfs/events.jsonl"
REPORT = ".journalfs/mount.json"
REFUSED = ".refused.jsonl"
"""What whoever reads it was refused: the events are the owner's where addresses have modes of their own."""


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


def missing_addresses(mount: Path) -> Iterator[Refusal]:
    """Names that somebody looked for below the mount, as a shell does that is to write there, and that no
    address has. Nothing, where only the mount's owner may know.
    """
    try:
        report: dict[str, Any] = msgspec.json.decode((mount / REPORT).read_bytes())
    except PermissionError:
        return
    there = os.listdir(mount)
    for one in report.get("missing", ()):
        name = str(one["name"])
        if name in there:
            continue
        reason = f"there is no address {name}{nearest(name, there)}"
        do = f"mkdir -p {shlex.join([f'{mount}/{name}/{name}'])} makes it, with a queue"
        yield Refusal(int(one["time"]), name, "ENOENT", os.strerror(errno.ENOENT), reason, do)


def refusals(mount: Path) -> Iterator[Refusal]:
    """All that a mount remembers."""
    try:
        lines = (mount / EVENTS).read_bytes().splitlines()
    except PermissionError:
        lines = (mount / REFUSED).read_bytes().splitlines()
    for line in lines:
        event: dict[str, Any] = msgspec.json.decode(line)
        if event["event"] != "refused":
            continue
        path, _, name = str(event["what"]).rpartition(": ")
        number = getattr(errno, name, None)
        printed = os.strerror(number) if isinstance(number, int) else name
        reason = str(event["reason"])
        do = advice(name, reason).replace("`", "").replace("MOUNTPOINT", str(mount))
        yield Refusal(int(event["time"]), path, name, printed, reason, do)
