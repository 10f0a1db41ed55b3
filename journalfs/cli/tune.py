"""`journalfs tune`: which settings suit the disk of a journal."""

from __future__ import annotations

from pathlib import Path

import click

from journalfs.cli.common import json_option, say, store_argument, write_json
from journalfs.config.layout import locate_store
from journalfs.errors import failing
from journalfs.exchange.targets import mounted_store
from journalfs.showing import advancing


@click.command(epilog="Example: journalfs tune /var/lib/artemis/data")
@store_argument
@click.option(
    "--flushes",
    metavar="N",
    type=click.IntRange(min=1),
    default=100,
    show_default=True,
    help="How many of each size.",
)
@json_option
def tune(*, store: Path, flushes: int, as_json: bool) -> None:
    """Measure how long the disk of STORE's journal takes to make bytes durable, and print settings that suit
    it: lines for journalfs.toml, and the same for broker.xml. Nothing of STORE is changed.

    Some MiB are written beside the journal files, and removed. Others who use the disk count, too: run it
    when they do what they usually do. In the curve a bar is filled to the middle, and ends with the 99th of
    100 flushes.
    """
    from journalfs.inspect.tuning import SIZES, curve, toml, tuned, xml  # noqa: PLC0415 - takes long

    layout = locate_store(mounted_store(store) or store)
    with advancing("tune", len(SIZES)) as advance, failing("measure the disk", layout.journal_dir):
        found = tuned(layout, flushes, advance)
    if as_json:
        sizes = [
            {"bytes": one.write_bytes, "p50Ns": one.percentile_ns(50), "p99Ns": one.percentile_ns(99)}
            for one in found.latencies
        ]
        write_json([{**found.settings(), "flushesASecond": round(found.flushes_a_second), "sizes": sizes}])
        return
    say(f"{'flush':>10}  {'middle':>12}  {'99 of 100':>12}")
    for line in curve(found.latencies):
        say(line)
    if found.why is not None:
        say(f"ASYNCIO is not used: {found.why}", to_people=True)
    say("")
    say(f"# journalfs.toml, before its first table ({layout.root / 'journalfs.toml'})")
    for line in toml(found).splitlines():
        say(line)
    say("")
    say("<!-- broker.xml, in <core> -->")
    for line in xml(found).splitlines():
        say(line)
