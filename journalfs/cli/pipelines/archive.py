"""`journalfs pipeline archive`: add what is new to an archive."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from journalfs.cli.books import end_with
from journalfs.cli.common import json_option, write_json, write_table
from journalfs.cli.pipelines.common import (
    check_paths,
    engine_option,
    output_option,
    source_options,
    spark_options,
)

if TYPE_CHECKING:
    from journalfs.pipeline.archive import Run
    from journalfs.pipeline.balance import Rows
    from journalfs.pipeline.engines import LocalEngine, SparkEngine
    from journalfs.pipeline.messages import Source


@click.command(epilog="Example: journalfs pipeline archive /var/lib/artemis/data --output /archive/messages")
@source_options
@output_option("The archive: a folder of this machine, or any URL that Hadoop writes to.", required=True)
@click.option("--without-bodies", is_flag=True, help="Keep bodies in the envelope only; half as large.")
@engine_option
@spark_options
@json_option
def archive(
    *,
    store: str,
    queues: tuple[str, ...],
    where: str,
    output: str,
    without_bodies: bool,
    engine: str,
    master: str | None,
    settings: tuple[tuple[str, str], ...],
    as_json: bool,
) -> None:
    """Add the messages of STORE that are not in the archive yet, as Parquet files by address, queue and date.

    A run that is killed and repeated neither loses nor doubles a message. Ends with the books of a store on
    this machine, and with 5 if a message is not in the archive that no option left out.
    """
    from journalfs.pipeline.balance import asked_of  # noqa: PLC0415 - takes longer than the help text
    from journalfs.pipeline.engines import chosen, started  # noqa: PLC0415
    from journalfs.pipeline.folders import LocalFolder  # noqa: PLC0415
    from journalfs.pipeline.known import Known  # noqa: PLC0415
    from journalfs.pipeline.mark import mark_at  # noqa: PLC0415
    from journalfs.spark.place import is_elsewhere, local_path  # noqa: PLC0415

    kind = chosen(engine, paths=(store, output), master=master, settings=dict(settings))
    check_paths(store, output, opened_later=True)
    asked = asked_of(store, queues, where)
    known = None
    if asked is not None and not is_elsewhere(output):
        known = Known.of(LocalFolder(local_path(output)), asked, [store, queues, where, without_bodies])
    rows = None if known is None else known.rows()
    run = None
    if rows is None:
        from journalfs.pipeline.messages import Source  # noqa: PLC0415 - as above

        with started(kind, master, dict(settings), title="archiving") as asking:
            run, rows = _archived(asking, Source(store, queues, where), output, bodies=not without_bodies)
        if known is not None:
            known.note(rows, mark_at(store))
    facts = asdict(run) if run is not None else {"run": None, "messages": 0, "bytes": 0}
    if not as_json:
        write_table(["RUN", "MESSAGES", "BYTES"], [[facts[one] for one in ("run", "messages", "bytes")]])
    if asked is not None:
        to = "stdout" if as_json else None
        end_with(asked.books(rows), asked.account.losses, json_to=to, facts=facts)
    elif as_json:
        write_json([{**facts, "books": None}])


def _archived(
    engine: LocalEngine | SparkEngine, source: Source, output: str, *, bodies: bool
) -> tuple[Run | None, Mapping[str, Rows]]:
    """Add what is new by the engine, and count the rows that the archive has of what is live."""
    from journalfs.pipeline.engines import LocalEngine  # noqa: PLC0415 - as above

    if isinstance(engine, LocalEngine):
        from journalfs.pipeline.archive_here import archive_here  # noqa: PLC0415 - as above

        return archive_here(source, engine.folder(output), bodies=bodies)
    from journalfs.pipeline.archive import archive_and_count  # noqa: PLC0415 - as above

    return archive_and_count(engine.spark, source, engine.folder(output), bodies=bodies)
