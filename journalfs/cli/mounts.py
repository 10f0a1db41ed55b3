"""Which mount a path that somebody typed lies in."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import click
import msgspec

from journalfs.advice import ADVICE
from journalfs.cli.common import GivenPath, json_option, say, when, write_json
from journalfs.errors import SystemFailure, WrongCall
from journalfs.python.mounts import mount_of, mount_of_store, mount_roots

__all__ = ["Refusal", "ask", "mount_of", "mount_of_store", "mount_roots", "refusals", "the_mount", "why"]

# Files of a mount that answer what they are asked.

ANSWER_BYTES_MAX: Final = 64 << 20


def ask(file: Path, line: str, *, doing: str, else_why: str) -> dict[str, Any]:
    """What a file of a mount answers to a line. Raises SystemFailure with the reason that the mount has;
    WrongCall, where there is no such file, `else_why`.
    """
    root = mount_of(file) or file
    if not file.exists():
        raise WrongCall(f"{root}: {else_why}")
    try:
        descriptor = os.open(file, os.O_RDWR | os.O_CLOEXEC)
        try:
            os.write(descriptor, line.encode())
            answer = os.pread(descriptor, ANSWER_BYTES_MAX, 0)
        finally:
            os.close(descriptor)
    except OSError as error:
        reasons = [one.reason for one in refusals(root) if one.path.endswith(file.name)]
        raise SystemFailure.from_os(error, root, doing=": ".join([doing, *reasons[-1:]])) from error
    found: dict[str, Any] = msgspec.json.decode(answer)
    return found


@contextmanager
def refused_by(root: Path, path: Path, doing: str) -> Iterator[None]:
    """Give what a mount refuses within as a SystemFailure of the path that somebody typed, with the mount's
    reason and its advice.
    """
    before = {(one.time_ms, one.path) for one in refusals(root)}
    try:
        yield
    except OSError as error:
        name = errno.errorcode.get(error.errno or 0, "")
        told = [one for one in refusals(root) if one.errno == name and (one.time_ms, one.path) not in before]
        if not told:
            raise SystemFailure.from_os(error, path, doing=doing) from error
        message = f"{path}: cannot {doing}: {told[-1].reason}; {told[-1].do}"
        raise SystemFailure(message, system_errno=error.errno) from error


def the_mount(path: Path | None) -> Path:
    """The mount that `path` lies in; without one that of the working directory, or the only one there is.
    Raises WrongCall.
    """
    found = mount_of(Path.cwd() if path is None else path)
    if found is not None:
        return found
    if path is not None:
        raise WrongCall(f"{path}: lies in no journalfs mount; mounts are listed by findmnt -t fuse.journalfs")
    roots = mount_roots()
    if len(roots) != 1:
        others = ", ".join(map(str, roots)) or "there is none"
        raise WrongCall(f"say which mount is meant ({others})")
    return roots[0]


# `journalfs why`: why a mount refused something, and what to do.

EVENTS = ".journalfs/events.jsonl"
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
        advice = ADVICE.get(name)
        do = "see the reason" if advice is None else advice.do.replace("`", "")
        yield Refusal(int(event["time"]), path, name, printed, str(event["reason"]), do)
