"""`journalfs put`: files, or what comes on the input, as messages."""

from __future__ import annotations

import os
import shutil
import sys
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
import trio

from journalfs import door
from journalfs.broker.limits.admission import FOREVER
from journalfs.cli.common import (
    SEPARATOR,
    GivenPath,
    act_as_owner,
    config_option,
    force_option,
    name_in_warnings,
    named_queue,
    through_option,
)
from journalfs.cli.mounts import mount_of, refused_by
from journalfs.errors import WrongCall, failing
from journalfs.store.write.opening import change
from journalfs_mount.start.mountpoint import resolved

if TYPE_CHECKING:
    from journalfs.store.write.store import WritingStore
    from journalfs.through.store import ThroughStore

READ_BYTES = 1 << 20
INPUT = "-"


@click.command(epilog="Example: journalfs put /mnt/orders new.json; date | journalfs put STORE log::log")
@click.argument("path", metavar="MNT/ADDRESS[/QUEUE] | STORE", type=GivenPath())
@click.argument("files", metavar="[ADDRESS[::QUEUE]] [FILE...|-]", nargs=-1)
@click.option(
    "--as",
    "kind",
    metavar="NAME",
    default="in.txt",
    show_default=True,
    help="Name whose suffix tells the kind of the input.",
)
@config_option
@force_option
@through_option
def put(*, path: Path, files: tuple[str, ...], kind: str, through: str | None) -> None:
    """Publish files, all of them or none, to an address or queue in a mount, or in a STORE nobody has open.

    The suffix of a name says what one message is, as in a mount: a line, a JSON value, an envelope line, or
    the whole file. Without a file, or with -, the input is published as it comes, a line a message.
    """
    if INPUT in files[:-1] or (INPUT in files and len(files) > 1 + (mount_of(path) is None)):
        raise WrongCall("- stands alone: files are published together, and the input as it comes")
    root = mount_of(path)
    if root is not None and through is not None:
        raise WrongCall(f"{path}: lies in a mount, which knows how it is written; --through is for a store")
    if root is not None:
        _refuse_other_than_destination(root, path, files)
    with failing("publish", path, found=True) if root is None else refused_by(root, path, "publish"):
        if root is not None:
            _put_into_mount(path, files or (INPUT,), kind)
        elif not files:
            raise WrongCall(f"{path}: lies in no mount; of a store, say which ADDRESS[::QUEUE] is meant")
        else:
            _put_into_store(path, files[0], files[1:] or (INPUT,), kind, through)


def _refuse_other_than_destination(root: Path, path: Path, files: Sequence[str]) -> None:
    """Raise `WrongCall` for a path in a mount where nothing is published, saying what would be right."""
    if files and SEPARATOR in files[0] and not os.path.lexists(files[0]):
        give = root.joinpath(*(one for one in named_queue(files[0]) if one))
        raise WrongCall(f"{path}: lies in a mount: the path says where to publish; give {give}")
    for file in files:
        if file != INPUT and not os.path.lexists(file):
            raise WrongCall(f"{file}: there is no such file to be published")
    names = resolved(path).relative_to(root).parts
    if not names:
        raise WrongCall(f"{path}: is the whole mount; give an address or queue of it: {root}/ADDRESS[/QUEUE]")
    if len(names) > 2:
        raise WrongCall(f"{path}: is no address or queue; give {root.joinpath(*names[:2])}")
    if not path.is_dir():
        kind = "address" if len(names) == 1 else "queue"
        raise WrongCall(f"{path}: there is no such {kind}; mkdir -p {path} makes it")


def _pieces() -> Iterator[bytes]:
    """The input as it comes: what is there is not kept waiting for more."""
    while piece := os.read(sys.stdin.fileno(), READ_BYTES):
        yield piece


def _put_into_mount(path: Path, files: Sequence[str], kind: str) -> None:
    """Files by way of a staged directory: to rename it publishes all that is in it at once."""
    name = f"put-{uuid.uuid4().hex}"
    if INPUT in files:
        with (path / f"{name}-{Path(kind).name}").open("wb", buffering=0) as out:
            for piece in _pieces():
                door.write_all(out.fileno(), piece)
        return
    staged = path / f"_{name}"
    staged.mkdir()
    try:
        for number, file in enumerate(files):
            shutil.copyfile(file, staged / f"{number:09d}-{Path(file).name}")
        staged.rename(path / name)
    except OSError:
        shutil.rmtree(staged, ignore_errors=True)
        raise


def _put_into_store(path: Path, target: str, files: Sequence[str], kind: str, through: str | None) -> None:
    address, queue = named_queue(target)

    async def put_all(store: WritingStore | ThroughStore) -> None:
        if INPUT not in files:
            named = [(Path(file), Path(file).name) for file in files]
            await store.publish_files(address, queue, named, FOREVER)
            return
        publisher = store.publisher(address, queue, kind, FOREVER)
        pieces = _pieces()
        while piece := await trio.to_thread.run_sync(next, pieces, b"", abandon_on_cancel=True):
            await publisher.write(piece)
        await publisher.finish()

    for file in files:
        if file != INPUT:
            Path(file).stat()  # before anything is opened for writing
    name_in_warnings()
    act_as_owner()
    if through is not None:
        from journalfs.through.opening import change_through  # noqa: PLC0415 - few do

        change_through(path, through, put_all)
        return
    change(path, put_all)
