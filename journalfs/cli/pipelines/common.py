"""Options that all pipelines have."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import TypeVar, cast

import click

from journalfs.cli.common import name_in_warnings, opened
from journalfs.errors import NotAStore, ReadOnlyStore, SystemFailure, WrongCall, failing

C = TypeVar("C", bound=Callable[..., object])


class Setting(click.ParamType[tuple[str, str]]):
    """`NAME=VALUE`."""

    name = "setting"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        name, equals, given = str(value).partition("=")
        if not name or not equals:
            self.fail(f"{value!r} is not NAME=VALUE", param, ctx)
        return name, given


class Names(click.ParamType[tuple[str, ...]]):
    """A comma-separated list, or a JSON array."""

    name = "names"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        if isinstance(value, tuple):
            return cast("tuple[str, ...]", value)
        from journalfs.spark.names import names_in  # noqa: PLC0415 - takes longer than the help text

        try:
            return names_in(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


def spark_options(command: C) -> C:
    """Where Spark runs."""
    command = click.option(
        "--conf",
        "settings",
        type=Setting(),
        metavar="NAME=VALUE",
        multiple=True,
        help="A setting of Spark, as for spark-submit.",
    )(command)
    return click.option(
        "--master", metavar="URL", help="A Spark cluster, or local[N]; otherwise this machine."
    )(command)


def engine_option(command: C) -> C:
    """`--engine`: what reads a store of this machine."""
    return click.option(
        "--engine",
        type=click.Choice(["auto", "local", "spark"]),
        default="auto",
        show_default=True,
        help="What reads: `local` is this process, with DuckDB; `auto` is that for a store of this machine, "
        "unless --master or --conf is given.",
    )(command)


def refuse_local(engine: str, what: str) -> None:
    """Raise `WrongCall` where the local engine is asked for what Spark alone does."""
    if engine == "local":
        raise WrongCall(f"--engine local: {what} needs Spark; leave --engine out")


def source_options(command: C) -> C:
    """What to read."""
    command = click.option(
        "--where", metavar="SELECTOR", default="", help="Only messages that this JMS selector accepts."
    )(command)
    command = click.option(
        "--queues",
        type=Names(),
        default=(),
        metavar="NAME[,...]",
        help="Only these: ADDRESS::QUEUE, a queue, or an address for all of its queues. "
        "Names with a comma: a JSON array.",
    )(command)
    return click.argument("store", metavar="STORE")(command)


def output_option(what: str, *, required: bool = False) -> Callable[[C], C]:
    """`--output`: a folder."""
    return click.option("--output", metavar="DIR", required=required, help=what)


def check_report(store: str, output: str | None, *, opened_later: bool = False) -> None:
    """`check_paths`, of what writes a report; and whether there is what it takes."""
    if output is not None:
        from journalfs.pipeline.report import require_libraries  # noqa: PLC0415 - as below

        require_libraries()
    check_paths(store, output, opened_later=opened_later)


def check_paths(store: str, output: str | None, *, opened_later: bool = False) -> None:
    """Raise what is wrong with paths of this machine while that costs nothing: Spark takes long to start.
    What opening the store warns of, such as damage, is said too, which nobody hears from within Spark;
    `opened_later` where this process opens it anyway.
    """
    from journalfs.spark.place import is_elsewhere, place_of  # noqa: PLC0415 - takes longer than the help text

    if not is_elsewhere(store):
        _check_store(store)
    if output is not None:
        _check_output(output, "write results there")
    name_in_warnings()
    if not is_elsewhere(store) and not opened_later:
        with opened(place_of(store).store):
            pass


def check_replay(archive: str, target: str, to: str | None, notes: str | None) -> None:
    """The same of what is replayed."""
    from journalfs.pipeline.folders import LocalFolder, require_archive  # noqa: PLC0415 - as above
    from journalfs.spark.changing import require_route  # noqa: PLC0415
    from journalfs.spark.place import is_elsewhere, local_path, place_of  # noqa: PLC0415

    if not is_elsewhere(archive):
        require_archive(LocalFolder(local_path(archive)))
    if is_elsewhere(target):
        raise WrongCall(f"{target}: messages are published in a mount or a store of this machine")
    place, names = place_of(target), () if to is None else _names(to)
    if place.address is not None and names:
        raise WrongCall(
            f"--to: {target} is an address or a queue in a mount, so that is where messages go: leave --to "
            "out, or give the mount itself as TARGET"
        )
    if place.address is None and len(names) != 1:
        raise WrongCall(
            "--to: a replay needs one address or queue, as ADDRESS, ADDRESS::QUEUE or a queue's name; TARGET "
            "alone does where it is one in a mount"
        )
    _check_store(target)
    require_route(place, names)
    if place.read_only:
        raise ReadOnlyStore(f"{target}: the mount takes no changes, so nothing can be published in it")
    _check_output(notes or archive, "note there what is published")


def _names(to: str) -> tuple[str, ...]:
    from journalfs.spark.names import names_in  # noqa: PLC0415 - as above

    if not to.strip():
        raise WrongCall("--to: it is empty; leave it out where TARGET is an address or a queue of a mount")
    try:
        return names_in(to)
    except ValueError as error:
        raise WrongCall(f"--to: {error}") from None


def _check_store(path: str) -> None:
    from journalfs.pipeline.folders import LocalFolder, runs  # noqa: PLC0415 - as above
    from journalfs.spark.place import local_path, place_of, require_store  # noqa: PLC0415

    try:
        require_store(place_of(path).store)
    except NotAStore:
        folder = local_path(path)
        if not folder.is_dir() or not runs(LocalFolder(folder)):
            raise
        give = "its store; readers of Parquet read the archive, and `replay` publishes it"
        raise NotAStore(path, "this is an archive of messages", give=give) from None


def _check_output(path: str, doing: str) -> None:
    """Whether results can be written to a folder, which need not be there."""
    from journalfs.spark.place import is_elsewhere, local_path  # noqa: PLC0415 - as above

    if is_elsewhere(path):
        return
    folder = local_path(path)
    with failing("look at it", folder):
        there = next(one for one in (folder, *folder.parents) if one.exists())
    for refused, number in (
        (not there.is_dir(), errno.ENOTDIR),
        (not os.access(there, os.W_OK | os.X_OK, effective_ids=True), errno.EACCES),
    ):
        if refused:
            refusal = OSError(number, os.strerror(number))
            raise SystemFailure.from_os(refusal, there, doing=doing)
