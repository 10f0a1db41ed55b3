"""What an errno of the mount means, and what to do. `docs/errnos.md` is made of this."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple


class Advice(NamedTuple):
    """What a caller has to know of an errno. `rules` are the numbers that say so."""

    why: str
    do: str
    rules: tuple[int, ...]


ADVICE: Final[Mapping[str, Advice]] = {
    "EPERM": Advice("never done here, or not with this mount", "see the event", (76, 88)),
    "EIO": Advice("the store or its disk is damaged or unreadable", "`journalfs check STORE`", (49, 54)),
    "EOPNOTSUPP": Advice("messages take no such attribute; no hard links", "leave it out", (22, 129)),
    "EINVAL": Advice("no JSON, no envelope, no such setting, name or selector", "mend it", (64, 87, 32)),
    "ENOSPC": Advice("the disk is full; nothing was published", "consume, make room", (103,)),
    "ENOENT": Advice("consumed, published already, or never there", "list again; do not retry", (11, 71)),
    "ENOTDIR": Advice("a part of the path is a file", "see the path", ()),
    "EISDIR": Advice("it is a directory", "see the path", ()),
    "EAGAIN": Advice("full, or nothing to read, and not to wait", "try again", (102, 123)),
    "EACCES": Advice("a name being written is not readable; another's files", "wait", (71, 40)),
    "EXDEV": Advice("it lies on another filesystem", "copy it, as `mv` does", (83,)),
    "ENOSYS": Advice("an optional library is missing", "the message names it", ()),
    "EBUSY": Advice("a reader, a writer or a transaction has it", "wait for it", (119, 25, 79)),
    "EINTR": Advice("a signal ended the wait; nothing happened", "try again", (102, 133)),
    "EDQUOT": Advice("an address or disk limit is reached", "consume; see `.status`", (100, 104)),
    "ESTALE": Advice("it changed while opened, or was published", "open the name anew", (45, 79)),
    "EROFS": Advice("a read-only mount, a snapshot, or a failed write", "mount for writing", (38, 129)),
    "ENXIO": Advice("nothing lies behind this place", "read from the front", ()),
    "ENOTCONN": Advice("the mount has lost its process or its connection", "mount again", (134, 57)),
    "ENAMETOOLONG": Advice(
        "a name over 255 bytes, or too long a path below a staged name",
        "a shorter name",
        (6, 191),
    ),
    "EEXIST": Advice("such an address, queue, snapshot or name exists", "another name", (85, 75, 129)),
    "EBADF": Advice("a name being written is read by the same descriptor", "open it twice", (71,)),
    "ENOTEMPTY": Advice("an address with queues, or a queue with messages", "`rm -r`, or empty it", (85,)),
    "ENODATA": Advice("there is no such attribute", "`getfattr -d` lists them", (87,)),
    "EMLINK": Advice("as many names of a file as its filesystem allows", "remove snapshots", (127,)),
    "EFBIG": Advice("settings, or a file, are too long", "write less", (87,)),
    "ENFILE": Advice("no file can be opened any more", "raise the limit, close some", ()),
    "EMFILE": Advice("no more files for this process", "raise `ulimit -n`, close some", ()),
    "ENOMEM": Advice("no memory left", "free some", ()),
    "ELOOP": Advice("a link leads to itself", "`namei -l PATH` shows it", ()),
    "EDESTADDRREQ": Advice("no queue of the address takes it", "`mkdir` a queue", (68,)),
    "ENOMSG": Advice("a broker took what a transaction holds", "`rmdir` the transaction", (261,)),
    "EBADMSG": Advice("a file in a transaction is not what its name says", "mend it", (261,)),
    "EUSERS": Advice("`max-consumers` readers have `.take` open", "end one", (122,)),
    "EMSGSIZE": Advice("it fits no record", "raise `journal-buffer-size`", (67,)),
    "ENODEV": Advice("no FUSE; a shared mapping of what may change", "load fuse; read it", (40,)),
}
"""By errno. A test fails where the product gives another one."""
