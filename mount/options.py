"""What a mount can be told: the `-o` list, checked, with the place of a mistake."""

from __future__ import annotations

import difflib
import grp
import os
import pwd
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, cast, get_args

from journalfs.config.older import KINDS
from journalfs.errors import WrongCall

Loop = Literal["fast", "stock"]
NativeFront = Literal["off", "forward", "on"]
Sync = Literal["always", "close", "none"]

FRONT_VARIABLE: Final = "JOURNALFS_FRONT"
"""What the mount option `front` is where nothing else is said."""

_IGNORED: Final = frozenset(
    (
        *("auto", "noauto", "nofail", "_netdev", "user", "nouser", "users", "group", "owner", "defaults"),
        *("relatime", "norelatime", "strictatime", "default_permissions", "async", "nomand", "nolazytime"),
        *("silent", "loud"),
    )
)
"""Words of fstab that say nothing to this filesystem, or ask for what it does anyway."""

_IGNORED_PREFIXES: Final = ("x-", "X-")
_IGNORED_WITH_VALUE: Final = frozenset(("comment", "user"))
"""The second is what libmount writes of who mounted it."""

_REMOUNT: Final = "remount"

_FLAGS: Final[Mapping[str, tuple[Mapping[str, bool], str]]] = {
    "ro": ({"read_only": True, "kernel_told": True}, "read only; works beside a running broker"),
    "rw": ({"read_only": False, "kernel_told": False}, "read and write, as when nothing is said"),
    "browse": ({"browse": True}, "publish, but take nothing away and change no setting"),
    "allow_other": ({"allow_other": True}, "let other users in, as file permissions say"),
    "noxattr": ({"xattr": False}, "no extended attributes"),
    "xattr": ({"xattr": True}, "extended attributes, as when nothing is said"),
    "nonempty": ({"allow_nonempty": True}, "mount on a directory that is not empty"),
    "nofollow": ({"follow": False}, "show the store as it is now; do not watch for changes"),
    "follow": ({"follow": True}, "watch for changes, as when nothing is said"),
    "force": (
        {"force": True},
        "write to a database although others are connected to it as a broker is, or to files that have other "
        "names outside of the store",
    ),
}
"""What each word sets, and what that means."""

_KERNEL: Final = frozenset(
    ("nosuid", "nodev", "noexec", "suid", "dev", "exec", "noatime", "atime", "nodiratime", "dirsync", "sync")
)
"""Handed to the kernel as they are."""

_VALUED: Final = {
    "sync": "messages are durable when a write returns (always; the default), when the last close returns, "
    "or when the kernel writes them (none)",
    "uid": "owner of the files, by number or name; yours unless told, and for root the store's owner",
    "gid": "group of the files, by number or name; likewise",
    "umask": "permission bits that files and directories lack, octal; unless told, those of users who cannot "
    "read the store's own files, and .journalfs is its owner's alone",
    "file_mode": "permission bits of files, octal; 0644 (0444 read only) unless told",
    "dir_mode": "permission bits of directories, octal; 0755 (0555 read only) unless told",
    "loop": "request loop; fast unless told",
    "front": "whether C reads requests before Python does, and answers what it can: on unless told, off with "
    "loop=stock; forward hands all of them on",
    "config": "the broker's configuration, where the store does not lead to it",
    "fsname": "what df and mount show as the source; the path of the store unless told",
    "format": "kind of the store, if not recognised; an older one is then written to",
    "derived": "where the derived store of an older one lies; in the cache directory unless told",
    "through": "the URL of the broker that runs on the store, amqp://USER@HOST:PORT: files are read, and the "
    "broker makes all changes",
    "subtype": "what the type of the filesystem shows behind `fuse.`; journalfs unless told",
}
"""What the value of each is."""

_BY_NAME: Final[Mapping[str, Callable[[str], int]]] = {
    "uid": lambda name: pwd.getpwnam(name).pw_uid,
    "gid": lambda name: grp.getgrnam(name).gr_gid,
}
_OCTAL: Final = frozenset(("umask", "file_mode", "dir_mode"))
_WORDS: Final = {
    "loop": get_args(Loop),
    "front": get_args(NativeFront),
    "sync": get_args(Sync),
    "format": ("artemis", *KINDS),
}
"""Options whose value is one of a few words."""


def front_unless_told() -> NativeFront:
    """As the environment says. Raises `WrongCall`."""
    word = os.environ.get(FRONT_VARIABLE) or "on"
    if word not in get_args(NativeFront):
        raise WrongCall(f"{FRONT_VARIABLE}={word}: give off, forward or on")
    return cast(NativeFront, word)


@dataclass(frozen=True, slots=True)
class MountOptions:
    """How one mount behaves. Times of caches follow from `follow`: `Caching`."""

    read_only: bool = False
    kernel_told: bool = False
    """The mount has the kernel's own flag `ro`, as mount(8) means the word."""
    browse: bool = False
    """Publish, but take nothing away: no acknowledging, moving, deleting or expiring, and settings stay."""
    sync: Sync = "always"
    """When a writer is told that what it wrote is durable: at once, at its last close, or never."""
    follow: bool = True
    """Watch the store for what a live broker writes."""
    xattr: bool = True
    allow_other: bool = False
    allow_nonempty: bool = False
    loop: Loop = "fast"
    front: NativeFront = field(default_factory=front_unless_told)
    uid: int | None = None
    gid: int | None = None
    umask: int | None = None
    """Permission bits taken away from those below."""
    file_mode: int | None = None
    dir_mode: int | None = None
    """Permission bits; None: all may read, and the owner may write where the mount does."""
    force: bool = False
    """Write beside others that may have the same database, or the same files."""
    config: str | None = None
    """The broker's configuration, said by hand."""
    fsname: str | None = None
    """What `df` and `mount` show as the source; the store's path when None."""
    subtype: str = "journalfs"
    format: str | None = None
    """What the store is, against what it looks like."""
    derived: str | None = None
    """The directory of derived stores."""
    through: str | None = None
    """The URL of the running broker that makes all changes."""
    kernel: tuple[str, ...] = ()
    """Options for the kernel, such as `noexec`."""

    def fuse_options(self, source: str) -> set[str]:
        """The words that pyfuse3 takes. `source` is the store's path."""
        words = {f"fsname={_safe_source(self.fsname or source)}", f"subtype={self.subtype}"}
        words |= {"nosuid", "nodev"}
        if not self.refuses_changes:
            # Without it the kernel would let everyone do everything once allow_other is on.
            words.add("default_permissions")
        words -= {"nosuid" if "suid" in self.kernel else "", "nodev" if "dev" in self.kernel else ""}
        words |= set(self.kernel)
        if self.allow_other:
            words.add("allow_other")
        words.add("ro" if self.kernel_refuses else "rw")
        return words

    @property
    def kernel_refuses(self) -> bool:
        """The kernel turns changes away by itself, and tells nobody of what. It has to where it lets in more
        than one user: it would refuse by file modes first, with another errno.
        """
        return self.read_only and (self.kernel_told or self.allow_other)

    @property
    def refuses_changes(self) -> bool:
        """The mount only reads, and is asked for each change, which it refuses. So it is, too, who may do
        what: nobody but who mounted it gets in.
        """
        return self.read_only and not self.kernel_refuses


def parse_options(lists: Iterable[str], *, ignore_unknown: bool = False) -> dict[str, Any]:
    """Turn comma lists of `-o` into keyword arguments of `MountOptions`. Later words win.

    Raises `WrongCall` naming the word that is not known, with the nearest one that is.
    """
    chosen: dict[str, Any] = {}
    kernel: list[str] = []
    for word in (word.strip() for text in lists for word in text.split(",")):
        name, has_value, value = word.partition("=")
        if not word or _is_ignored(word, name):
            continue
        if word in _FLAGS:
            chosen |= _FLAGS[word][0]
        elif word in _KERNEL:
            kernel.append(word)
        elif name in _VALUED and has_value:
            chosen[name] = _value(name, value)
        elif word == _REMOUNT:
            raise WrongCall(
                "a mount that is there is changed by the kernel alone: mount -i -o remount,ro, or rw"
            )
        elif not ignore_unknown:
            raise WrongCall(f"unknown mount option {word!r}{_suggestion(name)}")
    if kernel:
        chosen["kernel"] = tuple(kernel)
    if chosen.get("loop") == "stock":
        chosen.setdefault("front", "off")
    return chosen


def described() -> list[tuple[str, str]]:
    """Every option that has a meaning here, and what it is."""
    flags = [(word, meaning) for word, (_, meaning) in _FLAGS.items()]
    return flags + [(f"{name}={'|'.join(_WORDS.get(name, ()))}", text) for name, text in _VALUED.items()]


def described_words() -> list[tuple[str, list[str]]]:
    """The other words that are accepted, by what becomes of them."""
    prefixed = [f"{prefix}..." for prefix in _IGNORED_PREFIXES]
    ignored = [*sorted(_IGNORED), *(f"{name}=" for name in sorted(_IGNORED_WITH_VALUE)), *prefixed]
    return [("handed to the kernel", sorted(_KERNEL)), ("accepted without effect", ignored)]


def _is_ignored(word: str, name: str) -> bool:
    return word in _IGNORED or name.startswith(_IGNORED_PREFIXES) or name in _IGNORED_WITH_VALUE


def _value(name: str, value: str) -> str | int:
    if name in _WORDS:
        if value not in _WORDS[name]:
            right = " or ".join(f"{name}={word}" for word in _WORDS[name])
            raise WrongCall(f"mount option {name}={value}: give {right}")
        return value
    if name in ("config", "derived"):
        return os.path.abspath(value)
    if name in ("fsname", "subtype", "through"):
        return value
    if name in _BY_NAME and not value.isdecimal():
        return _number_of(name, value)
    base, limit = (8, 0o777) if name in _OCTAL else (10, 0xFFFF_FFFE)
    try:
        number = int(value, base)
    except ValueError:
        number = -1
    if not 0 <= number <= limit:
        kind = "an octal number up to 777" if name in _OCTAL else "a number"
        raise WrongCall(f"mount option {name}={value}: give {kind}")
    return number


def _number_of(name: str, value: str) -> int:
    """Of a user or group by name."""
    try:
        return _BY_NAME[name](value)
    except (KeyError, ValueError):
        kind = "user" if name == "uid" else "group"
        raise WrongCall(f"mount option {name}={value}: there is no {kind} of this name") from None


def _suggestion(word: str) -> str:
    known = [*_FLAGS, *_KERNEL, *_VALUED, *_IGNORED]
    near = difflib.get_close_matches(word, known, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def _safe_source(source: str) -> str:
    # The list is split at commas and must be ASCII; the library below turns octal escapes back into bytes.
    plain = set(range(0x20, 0x7F)) - set(b",\\")
    return "".join(chr(byte) if byte in plain else f"\\{byte:03o}" for byte in os.fsencode(source))
