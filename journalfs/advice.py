"""What an errno of the mount means, and what to do: by the reason of a refusal, else by its errno.

`journalfs why` prints the first, and `docs/errnos.md` is made of the second.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple


class Advice(NamedTuple):
    """What a caller has to know of an errno. `rules` are the numbers that say so."""

    why: str
    do: str
    rules: tuple[int, ...]


ADVICE: Final[Mapping[str, Advice]] = {
    "EPERM": Advice("never done here, or not with this mount", "`journalfs why`", (76, 88)),
    "EIO": Advice("the store or its disk is damaged or unreadable", "`journalfs check STORE`", (49, 54)),
    "EOPNOTSUPP": Advice("messages take no such attribute; no hard links", "leave it out", (22, 129)),
    "EINVAL": Advice("no JSON, no envelope, no such setting, name or selector", "mend it", (64, 87, 32)),
    "ENOSPC": Advice("the disk is full; nothing was published", "consume, make room", (103,)),
    "ENOENT": Advice("consumed, published already, or never there", "list again; do not retry", (11, 71)),
    "ENOTDIR": Advice("a part of the path is a file", "name a directory", ()),
    "EISDIR": Advice("it is a directory", "name a file in it", ()),
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
    "EBADMSG": Advice(
        "a staged file is not what its name says", "mend the line that `journalfs why` names", (79, 261)
    ),
    "EUSERS": Advice("`max-consumers` readers have `.take` open", "end one", (122,)),
    "EMSGSIZE": Advice("it fits no record", "raise `journal-buffer-size`", (67,)),
    "ENODEV": Advice("no FUSE; a shared mapping of what may change", "load fuse; read it", (40,)),
}
"""By errno. A test fails where the product gives another one."""

_NEW_NAME: Final = "write to a new name in a queue or an address: `echo TEXT > ADDRESS/QUEUE/new.txt`"
_STAGE: Final = "stage it: write to `ADDRESS/.new`, then `mv ADDRESS/.new ADDRESS/new.txt`"
_FIXED: Final = "nothing: it cannot be set or removed; what can be set is in `.settings`"
_TRANSACTION: Final = (
    "`mv` the transaction into `committed/` or `rolled-back/` by its own name, or `rmdir` it"
)
_BY_CHMOD: Final = "have the owner of the address or queue, or root, allow it with `chmod` or `chown`"
_SETTINGS: Final = "`cat .settings` of that place lists the settings and their values; set one of these"
_SELECTOR: Final = "mend the selector: text in single quotes, `%` written as `%25`, `/` as `%2F`"
_LATER: Final = "end the reader or the transaction that has it, or wait for it; then repeat the command"

BY_REASON: Final = (
    (r"mounted with -o browse", "unmount, and mount without `-o browse` to take messages away"),
    (r"mounted to be read only", "unmount, stop the broker, and mount without `--read-only`"),
    (
        r"no more changes|takes no changes",
        "mend the disk or database that the reason names, unmount, mount again",
    ),
    (
        r"which is only read",
        "copy its messages into a mount of a store: `cp HISTORY/.all.jsonl ADDRESS/QUEUE/`",
    ),
    (
        r"stop the broker and mount the store for writing",
        "unmount, stop the broker, and mount without `--through`",
    ),
    (r"has no partitions", "leave `partitionBy` out, or write to the address: each partition is a queue"),
    (r"snapshot never changes", "copy from it; `rmdir` of the snapshot's directory removes it"),
    (r"a snapshot keeps its name", "`mkdir` another snapshot, and `rmdir` this one"),
    (r"is history", "leave it: `journal-retention-directory` and its limits say how long it is kept"),
    (r"^this was removed", "`journalfs undo MOUNTPOINT`, or `mv` it into the directory of a queue"),
    (
        r"come back into the directory of a queue",
        "`mv` it into `ADDRESS/QUEUE/`, or `journalfs undo MOUNTPOINT`",
    ),
    (r"nothing is written here|messages are (?:written|published) (?:in|into)", _NEW_NAME),
    (
        r"have no mode, owner",
        "leave it out: `cp --no-preserve=all`, `tar --no-same-owner --touch`, `rsync -r`",
    ),
    (r"cannot be set here|no attribute that can be set", "leave it out; `getfattr -d` lists what there is"),
    (r"there is no attribute", "`getfattr -d` lists what there is"),
    (
        r"attribute shows a state|a queue always has this value|its value comes from|configuration says the",
        _FIXED,
    ),
    (r"readers have no settings", "leave it out: each reader of `.take` asks for its next message"),
    (r"there are no links", "copy instead of linking: `cp`"),
    (r"there are no special files", "make pipes, sockets and devices outside the mount"),
    (
        r"^this cannot be removed",
        "remove messages instead: `rm QUEUE/.all.jsonl`, or `rm QUEUE/.messages/ID.txt`",
    ),
    (
        r"files of a selection or state",
        "`rm DIR/.all.jsonl` for all of it, or `rm DIR/.messages/ID.txt` for one",
    ),
    (r"emptying it takes no message away", "`rm` it to acknowledge its messages"),
    (
        r"only messages, parts and staged names",
        "`mv` messages, parts or staged names; copy anything else with `cp`",
    ),
    (r"names are fixed", "nothing: the message is in that queue already"),
    (r"messages are moved into", "`mv` into the directory of a queue: `mv … ADDRESS/QUEUE/`"),
    (r"addresses and queues keep their names", "`mkdir` a new one, `mv OLD/*.jsonl NEW/`, `rmdir OLD`"),
    (r"a queue holds messages and no directories", "`mkdir` it in the address, beside this queue"),
    (r"no directory is made here", "`mkdir ADDRESS` at the top of the mount, `mkdir ADDRESS/QUEUE` below it"),
    (
        r"this directory always stays",
        "`rm DIR/.all.jsonl` takes its messages; `rmdir` is for queues and addresses",
    ),
    (
        r"part of this name is there|name is there already",
        "write under a new name, then remove the old messages",
    ),
    (r"packed, the file would be", "pack elsewhere: `gzip < QUEUE/.all.jsonl > /elsewhere/queue.jsonl.gz`"),
    (r"settings are written in place", "`echo 'paused = true' > .settings`"),
    (r"name is that of a view", "give it another name: this one is the view's"),
    (r"Spark file sink", 'write each batch from `foreachBatch`, or with `format("journalfs")`'),
    (r"is user \d+'s: begin", "begin a transaction of your own: `mkdir .journalfs/transactions/NAME`"),
    (r"is staged by user", "have its owner publish it, or make it readable with `chmod`"),
    (r"^user \d+ may not", _BY_CHMOD),
    (r"a transaction (?:is renamed|keeps its name)", _TRANSACTION),
    (r"undecided cannot be decided", "`cp .journalfs/transactions/NAME/messages.jsonl ADDRESS/QUEUE/`"),
    (r"it is prepared$", "decide it: `mv` it into `committed/` or `rolled-back/`"),
    (
        r"below a transaction are",
        "make the address and the queue in the mount first, then write to it in the transaction",
    ),
    (
        r"is staged: give it a plain name",
        "give the staged name within a plain one, or remove it; then `mv` again",
    ),
    (
        r"not there any more, and nothing",
        "take the name out of the transaction, or `mkdir` it again; then `mv` again",
    ),
    (r"a transaction has it: it goes back", "`mv` it back to its own queue, and elsewhere from there"),
    (r"acknowledged meanwhile", "`rmdir` the transaction: it gives back the rest that it holds"),
    (r"held by the prepared transaction", "decide it: `mv` it into `committed/` or `rolled-back/` beside it"),
    (r"there is a transaction ", "another name: `mkdir .journalfs/transactions/OTHER`"),
    (
        r"waits? for an answer|no answer, nothing",
        "read a line of `.take`, then write `ack` or `nack` to the same descriptor",
    ),
    (r"only what was read here is answered", "answer each message once, from the reader that read it"),
    (r"written at \d+ after|cannot be (?:cut|made)|front to back", _STAGE),
    (r"it is being written", "close it first; a name that begins with `_` or `.` can be renamed"),
    (r"it is still being written", "close it (`lsof` says who has it open), then `mv` again"),
    (r"it is being published", "wait: it is messages in a moment"),
    (r"was broken off", "write it again from its beginning, under a new name"),
    (r"^it was published", "write what comes later to a new name"),
    (r"refused this name", "mend the staged file that was refused, or remove it; then write again"),
    (r"somebody has a file of it open", "close it (`lsof` says who has it open), then `rmdir` again"),
    (r"names cannot be exchanged", "two renames, by way of a third name"),
    (r"a rename cannot wait", "consume messages of the full address, or raise its limit; then `mv` again"),
    (r"has staged as much as", "publish or remove some of what you staged"),
    (r"settings are at most", "write only the settings that change"),
    (r"it takes `last`", "`journalfs undo` writes it for you"),
    (r"^selector ", _SELECTOR),
    (r"selector is not valid UTF-8", "write the selector in UTF-8"),
    (
        r"no such key in an envelope",
        "see `docs/reference/envelope.md` for the keys; properties go below `properties`",
    ),
    (
        r"nothing (?:of this write )?was published|rest was not published",
        "mend that line; text that is no JSON goes to a name in `.txt`",
    ),
    (r"is no text, and no broker loads it", "give the message's last-value key a text"),
    (r"there is no such queue|no queue is bound", "make the queue: `mkdir ADDRESS/QUEUE`"),
    (r"there is no such address$", "make the address: `mkdir ADDRESS`"),
    (
        r"no such address setting|no setting of a queue|is neither|there is no table|no TOML|can be changed",
        _SETTINGS,
    ),
    (r"names are unique in a store", "another name for the queue"),
    (r"such an address already", "another name; or use the address that is there"),
    (r"queues are bound to it", "`rmdir` its queues first, or `rm -r` for all of it, messages included"),
    (r"it holds messages", "`rm QUEUE/.all.jsonl` first, or `rm -r QUEUE`"),
    (r"reader has it|readers consume it|transaction has messages|is held by", _LATER),
    (r"max-consumers", "end another reader of `.take`, or raise `max-consumers` in `.settings`"),
    (
        r"is reached, nothing is taken",
        "consume messages there, or raise the limit that the reason names in `.settings`",
    ),
    (
        r"no room for another journal file",
        "`rm` the oldest messages, few at a time, or make room on the disk",
    ),
    (r"this format has nothing for it", "`journalfs convert STORE NEW` makes a store that has it"),
    (r"in its name: address::queue|empty name", "a name of at least one character, without `::`"),
    (
        r"damaged at offset|cannot be read",
        "`journalfs check STORE` lists the damage, `journalfs repair STORE NEW` copies the rest",
    ),
    (r"a fault of journalfs", "report it, with the line of the mount's log (`--log-file`)"),
)
"""What to do, by what a reason says: (regular expression, advice), the first one that is found counts."""


def advice(errno_name: str, reason: str) -> str:
    """Return what to do about a refusal, by its reason, else by its errno; empty for an unknown errno."""
    for pattern, do in BY_REASON:
        if re.search(pattern, reason):
            return do
    by_errno = ADVICE.get(errno_name)
    return "" if by_errno is None else by_errno.do
