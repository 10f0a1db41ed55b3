"""What a mount can be told: the `-o` list, checked, with the place of a mistake."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, Literal, get_args

from journalfs.errors import WrongCall

Loop = Literal["fast", "stock"]
Sync = Literal["always", "close", "none"]

_IGNORED: Final = frozenset(
    (
        *("auto", "noauto", "nofail", "_netdev", "user", "nouser", "users", "group", "owner", "defaults"),
        *("relatime", "norelatime", "strictatime", "default_permissions", "async", "nomand", "nolazytime"),
        *("silent", "loud", "follow", "xattr", "rw"),
    )
)
"""Words of fstab that say nothing to this filesystem, or ask for what it does anyway."""

_FLAGS: Final = {
    "ro": "read_only",
    "browse": "browse",
    "allow_other": "allow_other",
    "noxattr": "no_xattr",
    "nonempty": "allow_nonempty",
    "nofollow": "no_follow",
}

_KERNEL: Final = frozenset(
    ("nosuid", "nodev", "noexec", "suid", "dev", "exec", "noatime", "atime", "nodiratime", "dirsync", "sync")
)
"""Handed to the kernel as they are."""

_VALUED: Final = ("uid", "gid", "umask", "loop", "sync", "fsname", "subtype")

_WORDS: Final = {"loop": get_args(Loop), "sync": get_args(Sync)}
"""Options whose value is one of a few words."""


@dataclass(frozen=True, slots=True)
class MountOptions:
    """How one mount behaves. Times of caches are in `caching.py`; they follow from `follow`."""

    read_only: bool = False
    browse: bool = False
    """Publish, but take nothing away: no acknowledging, moving or deleting."""
    sync: Sync = "always"
    """When a writer is told that what it wrote is durable: at once, at its last close, or never."""
    follow: bool = True
    """Watch the store for what a live broker writes."""
    xattr: bool = True
    allow_other: bool = False
    allow_nonempty: bool = False
    loop: Loop = "fast"
    uid: int = field(default_factory=os.getuid)
    gid: int = field(default_factory=os.getgid)
    umask: int = 0
    """Permission bits taken away from 0444 and 0555."""
    fsname: str | None = None
    """What `df` and `mount` show as the source; the store's path when None."""
    subtype: str = "journalfs"
    kernel: tuple[str, ...] = ()
    """Options for the kernel, such as `noexec`."""

    def fuse_options(self, source: str) -> set[str]:
        """The words that pyfuse3 takes. `source` is the store's path."""
        words = {f"fsname={_safe_source(self.fsname or source)}", f"subtype={self.subtype}"}
        # Without default_permissions the kernel would let everyone do everything once allow_other is on.
        words |= {"default_permissions", "nosuid", "nodev"}
        words -= {"nosuid" if "suid" in self.kernel else "", "nodev" if "dev" in self.kernel else ""}
        words |= set(self.kernel)
        if self.allow_other:
            words.add("allow_other")
        words.add("ro" if self.read_only else "rw")
        return words


def parse_options(lists: Iterable[str], *, ignore_unknown: bool = False) -> dict[str, Any]:
    """Turn comma lists of `-o` into keyword arguments of `MountOptions`. Later words win.

    Raises `WrongCall` naming the word that is not known, with the nearest one that is.
    """
    chosen: dict[str, Any] = {}
    kernel: list[str] = []
    for word in (word.strip() for text in lists for word in text.split(",")):
        name, has_value, value = word.partition("=")
        if not word or word in _IGNORED or name.startswith(("x-", "X-")) or name == "comment":
            if word == "rw":
                chosen["read_only"] = False
            if word in ("xattr", "follow"):
                chosen[word] = True
        elif word in _FLAGS:
            target = _FLAGS[word]
            negated = target.startswith("no_")
            chosen[target.removeprefix("no_")] = not negated
        elif word in _KERNEL:
            kernel.append(word)
        elif name in _VALUED and has_value:
            chosen[name] = _value(name, value)
        elif not ignore_unknown:
            raise WrongCall(f"unknown mount option {word!r}{_suggestion(name)}")
    if kernel:
        chosen["kernel"] = tuple(kernel)
    return chosen


def _value(name: str, value: str) -> str | int:
    if name in _WORDS:
        if value not in _WORDS[name]:
            right = " or ".join(f"{name}={word}" for word in _WORDS[name])
            raise WrongCall(f"mount option {name}={value}: give {right}")
        return value
    if name in ("fsname", "subtype"):
        return value
    base = 8 if name == "umask" else 10
    limit = 0o777 if name == "umask" else 0xFFFF_FFFE
    try:
        number = int(value, base)
    except ValueError:
        number = -1
    if not 0 <= number <= limit:
        kind = "an octal number up to 777" if name == "umask" else "a number"
        raise WrongCall(f"mount option {name}={value}: give {kind}")
    return number


def _suggestion(word: str) -> str:
    known = [*_FLAGS, *_KERNEL, *_VALUED, *_IGNORED]
    near = difflib.get_close_matches(word, known, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def _safe_source(source: str) -> str:
    # The list is split at commas and must be ASCII; the library below turns octal escapes back into bytes.
    plain = set(range(0x20, 0x7F)) - set(b",\\")
    return "".join(chr(byte) if byte in plain else f"\\{byte:03o}" for byte in os.fsencode(source))
