"""`mount.journalfs`: what `mount -t journalfs STORE DIR -o ...` and a line in fstab call.

Exit codes are those of mount(8): 1 for a wrong call, 2 for a refusal of the system, 32 when mounting failed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NoReturn

from journalfs import errors
from journalfs.config.database import database_named, kept_text, without_passwords
from journalfs.config.elsewhere import absolute, followed
from journalfs.process_list import hide_passwords
from journalfs.process_start import refuse_relative, set_up
from journalfs.showing import printable
from journalfs_mount.options import MountOptions, parse_options
from journalfs_mount.start.launch import Start, exit_code, start
from journalfs_mount.start.opening import open_for_mount

_MOUNT_CODES = frozenset(
    {errors.EXIT_OK, errors.EXIT_WRONG_CALL, errors.EXIT_SYSTEM, errors.EXIT_MOUNT_FAILED}
)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise errors.WrongCall(message)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Entry point."""
    set_up()
    try:
        code = _mount(helper_parser().parse_args(arguments))
    except errors.JournalfsError as error:
        print(f"mount.journalfs: {printable(without_passwords(str(error)))}", file=sys.stderr)
        # Codes of our own mean other things to mount(8): 4 would be "internal error", 8 "interrupted".
        code = exit_code(error)
        code = code if code in _MOUNT_CODES else errors.EXIT_MOUNT_FAILED
    except OSError as error:
        print(f"mount.journalfs: {printable(str(error))}", file=sys.stderr)
        code = errors.EXIT_SYSTEM
    sys.exit(code)


def helper_parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="mount.journalfs", description="Mount a message store; called by mount(8).")
    parser.add_argument("store")
    parser.add_argument("mountpoint", type=Path)
    parser.add_argument(
        "-o", dest="options", action="append", default=[], metavar="OPTION[,...]", help="as below"
    )
    parser.add_argument("-r", dest="read_only", action="store_true", help="the same as -o ro")
    parser.add_argument("-w", dest="read_write", action="store_true", help="the same as -o rw")
    parser.add_argument("-f", dest="fake", action="store_true", help="check everything, mount nothing")
    parser.add_argument("-v", dest="verbose", action="store_true", help="accepted: mount(8) passes it on")
    parser.add_argument("-n", dest="no_mtab", action="store_true", help="accepted, has no meaning any more")
    parser.add_argument("-s", dest="sloppy", action="store_true", help="ignore options that are not known")
    parser.add_argument("-t", dest="filesystem", help="accepted: the type that mount(8) was asked for")
    return parser


def _mount(called: argparse.Namespace) -> int:
    words = [*called.options, *(["ro"] if called.read_only else []), *(["rw"] if called.read_write else [])]
    options = MountOptions(**parse_options(words, ignore_unknown=called.sloppy))
    hide_passwords()
    for path in (called.store, str(called.mountpoint)):
        if (refusal := refuse_relative(path)) is not None:
            raise errors.WrongCall(refusal)
    database = database_named(kept_text(called.store))
    store = Path(kept_text(called.store)) if database else followed(absolute(called.store))
    request = Start(
        store=Path(database.shown) if database else store,
        mountpoint=called.mountpoint,
        options=options,
        open_store=partial(open_for_mount, store, options),
    )
    if called.fake:
        return errors.EXIT_OK
    code = start(request)
    if called.verbose:
        print(f"{request.store} is mounted on {called.mountpoint}")
    return code
