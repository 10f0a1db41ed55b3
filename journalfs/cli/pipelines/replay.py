"""`journalfs pipeline replay`: publish messages of an archive."""

from __future__ import annotations

import re
from dataclasses import asdict
from typing import Final

import click

from journalfs.cli.common import json_option, write_json, write_table
from journalfs.cli.pipelines.common import check_replay, spark_options
from journalfs.errors import WrongCall

NOTES: Final = "_replays"
"""In the archive, beside what readers of Parquet look at."""
_NAME: Final = re.compile(r"[\w-][\w.-]*", re.ASCII)


@click.command(
    epilog="Example: journalfs pipeline replay /archive/messages /mnt/orders --only \"date = '2026-03-01'\""
)
@click.argument("archive")
@click.argument("target")
@click.option(
    "--to", metavar="ADDRESS[::QUEUE]", help="Where in TARGET, unless that is an address or a queue itself."
)
@click.option("--only", metavar="SQL", help="Only rows of the archive that meet this condition.")
@click.option("--name", metavar="NAME", help="Of the replay: one of another name publishes all again.")
@click.option(
    "--notes", metavar="DIR", help="Directory of the notes on published messages; in the archive unless told."
)
@click.option(
    "--batch", type=click.IntRange(min=1), metavar="MESSAGES", help="In one transaction; 10000 unless told."
)
@spark_options
@json_option
def replay(
    *,
    archive: str,
    target: str,
    to: str | None,
    only: str | None,
    name: str | None,
    notes: str | None,
    batch: int | None,
    master: str | None,
    settings: tuple[tuple[str, str], ...],
    as_json: bool,
) -> None:
    """Publish the messages of ARCHIVE in TARGET: an address or a queue of a mount, or a store, with --to.

    Repeating the command publishes nothing twice, however it ended.
    """
    from journalfs.pipeline.session import session  # noqa: PLC0415 - Spark takes seconds

    if name is not None and not _NAME.fullmatch(name):
        raise WrongCall(f"{name!r} is no name of a replay: letters, digits, - and _")
    check_replay(archive, target, to, notes)
    with session(master, dict(settings), title="replaying") as spark:
        from journalfs.pipeline import replay as pipeline  # noqa: PLC0415 - as above
        from journalfs.pipeline.folders import folder_at  # noqa: PLC0415

        where = pipeline.Target(target, to)
        name = name or pipeline.usual_name(where)
        done = pipeline.replay(
            spark,
            folder_at(spark, archive),
            folder_at(spark, notes or f"{archive.rstrip('/')}/{NOTES}/{name}"),
            where,
            name=name,
            only=only,
            batch_messages=batch or pipeline.BATCH_MESSAGES,
        )
    if as_json:
        write_json([asdict(done)])
    else:
        write_table(["PUBLISHED", "BEFORE", "DAMAGED"], [[done.published, done.before, done.damaged]])
