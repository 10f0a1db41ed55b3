"""Options that all pipelines have."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import TypeVar, cast

import click

from journalfs.errors import SystemFailure

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
    """A comma-separated list."""

    name = "names"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        if isinstance(value, tuple):
            return cast("tuple[str, ...]", value)
        return tuple(name.strip() for name in str(value).split(",") if name.strip())


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
        help="Only these: ADDRESS::QUEUE, a queue, or an address for all of its queues.",
    )(command)
    return click.argument("store", metavar="STORE")(command)


def output_option(what: str, *, required: bool = False) -> Callable[[C], C]:
    """`--output`: a folder."""
    return click.option("--output", metavar="DIR", required=required, help=what)


def check_paths(store: str, output: str | None) -> None:
    """Raise what is wrong with paths of this machine while that costs nothing: Spark takes long to start."""
    from journalfs.config.layout import locate_store  # noqa: PLC0415 - longer than the help text
    from journalfs.spark.place import is_elsewhere, local_path, place_of  # noqa: PLC0415

    if not is_elsewhere(store):
        locate_store(place_of(store).store)
    if output is None or is_elsewhere(output):
        return
    folder = local_path(output)
    try:
        there = next(one for one in (folder, *folder.parents) if one.exists())
    except OSError as error:
        raise SystemFailure.from_os(error, folder, doing="look at it") from error
    for refused, number in (
        (not there.is_dir(), errno.ENOTDIR),
        (not os.access(there, os.W_OK | os.X_OK, effective_ids=True), errno.EACCES),
    ):
        if refused:
            refusal = OSError(number, os.strerror(number))
            raise SystemFailure.from_os(refusal, there, doing="write results there")
