"""`journalfs mount` and `journalfs umount`."""

from __future__ import annotations

import os
import select
import sys
from functools import partial
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from journalfs.cli.common import GivenPath, Older, force_option, older_options, store_argument, through_option
from journalfs.config.database import database_named
from journalfs.config.elsewhere import absolute, followed
from journalfs.errors import MountFailed, SystemFailure, WrongCall


class _MountCommand(click.Command):
    """Its help lists the `-o` options from where they are defined."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        from journalfs_mount.options import described, described_words  # noqa: PLC0415

        super().format_options(ctx, formatter)
        with formatter.section("Mount options, for -o"):
            formatter.write_dl(described())
        with formatter.section("Other words of -o"):
            formatter.write_dl([(meaning, ", ".join(words)) for meaning, words in described_words()])


def _complete_words(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Of a comma list, the last word. A word that takes one of a few values comes once with each."""
    from journalfs_mount.options import described  # noqa: PLC0415

    before, comma, last = incomplete.rpartition(",")
    found = []
    for word, meaning in described():
        name, has_value, values = word.partition("=")
        choices = [f"{name}={value}" for value in values.split("|")] if has_value else [name]
        found += [
            CompletionItem(before + comma + choice, help=meaning)
            for choice in choices
            if choice.startswith(last)
        ]
    return found


@click.command(cls=_MountCommand, epilog="Example: journalfs mount /var/lib/artemis/data /mnt/store")
@store_argument
@older_options
@click.argument("mountpoint", type=GivenPath())
@click.option("--read-only", is_flag=True, help="Change nothing; works beside a running broker.")
@click.option(
    "-o",
    "option_lists",
    metavar="OPTION[,...]",
    multiple=True,
    shell_complete=_complete_words,
    help="Mount options, see below.",
)
@click.option("-f", "--foreground", is_flag=True, help="Stay in the foreground and log to stderr.")
@click.option("-d", "--debug", is_flag=True, help="Log everything; implies --foreground without --log-file.")
@click.option("--allow-other", is_flag=True, help="Let other users in, as file permissions say.")
@force_option
@through_option
@click.option("--no-follow", is_flag=True, help="Show the store as it is now; do not watch for changes.")
@click.option("--loop", type=click.Choice(["fast", "stock"]), help="Request loop; fast unless told.")
@click.option("--log-file", type=click.Path(path_type=Path), help="Where a background mount logs.")
def mount(
    *,
    store: Path,
    older: Older,
    mountpoint: Path,
    read_only: bool,
    option_lists: tuple[str, ...],
    foreground: bool,
    debug: bool,
    allow_other: bool,
    through: str | None,
    no_follow: bool,
    loop: str | None,
    log_file: Path | None,
) -> None:
    """Show the message store STORE as a filesystem at MOUNTPOINT.

    Without --read-only the store is this mount's alone: no broker can run on it meanwhile. With --through a
    running broker makes all changes, and the mount reads its files.

    Returns when the mount answers. `journalfs umount MOUNTPOINT` ends it.
    """
    from journalfs_mount.options import MountOptions, parse_options  # noqa: PLC0415
    from journalfs_mount.start.launch import Start, start  # noqa: PLC0415
    from journalfs_mount.start.opening import open_for_mount  # noqa: PLC0415

    chosen = parse_options(option_lists)
    given = {
        "read_only": read_only or None,
        "allow_other": allow_other or None,
        "follow": False if no_follow else None,
        "loop": loop,
        "through": through,
    }
    chosen |= {name: value for name, value in given.items() if value is not None}
    options = MountOptions(**chosen)
    if options.through is not None and (options.read_only or not options.follow):
        raise WrongCall(
            "what is changed through a broker is to be seen: give no --read-only and no --no-follow"
        )
    # Whatever becomes of the working directory and of links, and so that `df` names it.
    database = database_named(store)
    if database is None:
        store = followed(absolute(store))
        _refuse_swapped(store, mountpoint)
    request = Start(
        store=store if database is None else Path(database.shown),
        mountpoint=mountpoint,
        options=options,
        open_store=partial(open_for_mount, store, options, kind=older.kind, derived=older.derived),
        foreground=foreground or (debug and log_file is None),
        debug=debug,
        log_file=None if log_file is None else Path(os.path.abspath(log_file)),
    )
    sys.exit(start(request))


def _refuse_swapped(store: Path, mountpoint: Path) -> None:
    """Raise `WrongCall` where the store stands in the mount point's place."""
    from journalfs.config.layout import looks_like_store  # noqa: PLC0415 - takes longer than the help text

    try:
        is_swapped = not looks_like_store(store) and looks_like_store(mountpoint)
    except SystemFailure:
        return  # a killed mount, which this one replaces, or what opening refuses in its own words
    if is_swapped:
        raise WrongCall(
            f"{mountpoint}: is a store, and {store} is none: the store comes first, "
            f"journalfs mount {mountpoint} {store}"
        )


@click.command(epilog="Example: journalfs umount /mnt/store")
@click.argument("mountpoint", type=GivenPath())
@click.option("-l", "--lazy", is_flag=True, help="Detach now, end when the last file is closed.")
def umount(mountpoint: Path, lazy: bool) -> None:
    """Unmount the journalfs filesystem at MOUNTPOINT.

    Returns when the store's locks are free. If a program uses the mount, names it.
    """
    from journalfs_mount.limits import UNMOUNT_WAIT_S  # noqa: PLC0415
    from journalfs_mount.process import mount_table  # noqa: PLC0415
    from journalfs_mount.start import mountpoint as places  # noqa: PLC0415

    place = places.resolved(mountpoint)
    mounted = mount_table.mounted_at(place)
    if mounted is None or mounted.filesystem != mount_table.FILESYSTEM_TYPE:
        raise MountFailed(f"{place}: no journalfs filesystem is mounted there")
    os.chdir("/")  # whoever is in the mount when calling this uses it, and this process would too
    if lazy:
        places.unmount(place, lazy=True)
        return
    dead = places.is_dead(place)
    server = None if dead else places.serving_process(place)
    # Before it is unmounted: another one may have its device number right after.
    others = [other for other in mount_table.places_of(mounted.device) if other != str(place)]
    try:
        places.unmount(place, lazy=dead)
        now = mount_table.places_of(mounted.device)
        left = [other for other in others if other in now]
        if left:
            raise MountFailed(
                f"{place}: unmounted, but its process holds the store: the same filesystem is mounted at "
                f"{', '.join(left)}; unmount that too"
            )
        if server is not None:
            ended, _, _ = select.select([server], [], [], UNMOUNT_WAIT_S)
            if not ended:
                raise MountFailed(
                    f"{place}: unmounted, but its process still holds the store after {UNMOUNT_WAIT_S:.0f} s"
                )
    finally:
        if server is not None:
            os.close(server)
