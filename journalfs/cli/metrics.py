"""`journalfs metrics`: what Prometheus is told of a store."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

import click

from journalfs.cli.common import GivenPath, GivenPlace, name_in_warnings, say
from journalfs.config.database import database_named, kept_text, without_passwords
from journalfs.errors import EXIT_SYSTEM, JournalfsError, WrongCall, failing

if TYPE_CHECKING:
    from journalfs.metrics.samples import Samples
    from journalfs.python.store import Store

QUEUES = 100
"""How many queues have samples of their own, unless told."""


@click.command(epilog="Example: journalfs metrics /var/lib/artemis/data --listen 127.0.0.1:9713")
@click.argument("store", metavar="STORE|MNT|URL", type=GivenPath())
@click.option("--listen", metavar="HOST:PORT", help="Answer Prometheus there until interrupted.")
@click.option(
    "--textfile",
    metavar="DIR",
    type=GivenPath(),
    help="Write a file into node_exporter's directory, and end.",
)
@click.option(
    "--queues",
    metavar="N",
    type=click.IntRange(min=0),
    default=QUEUES,
    show_default=True,
    help="Queues with samples of their own, those with the most messages; the rest is one.",
)
@click.option(
    "--backup",
    "places",
    metavar="DEST",
    multiple=True,
    type=GivenPlace(),
    help="Say how old the newest backup at DEST is.",
)
def metrics(
    *, store: Path, listen: str | None, textfile: Path | None, queues: int, places: tuple[str, ...]
) -> None:
    """Print, serve or write metrics of a store: beside a broker, or of a mount by its files.

    Without --listen and --textfile they are printed once. A store that cannot be read is told by
    journalfs_up 0, and read as soon as it can be. Everybody who reaches HOST:PORT may read them: give an
    address of this machine alone, or put a proxy with passwords before it.
    """
    from journalfs.metrics.exposing import require_client  # noqa: PLC0415 - takes longer than the help text

    if listen is not None and textfile is not None:
        raise WrongCall("--listen and --textfile: say one of them")
    require_client()
    name_in_warnings()
    looking = Looking(store, queues, places)
    try:
        if listen is not None:
            _serve(looking, listen)
        else:
            _once(looking, textfile)
    finally:
        looking.close()


@dataclass(slots=True)
class Looking:
    """Keeps the store open between scrapes, and opens it again once it could not be read."""

    path: Path
    queues: int
    places: Sequence[str] = ()
    failure: JournalfsError | OSError | None = None
    """Why the last look failed."""
    _store: Store | None = None
    _alone: threading.Lock = field(default_factory=threading.Lock)
    """Scrapes may come at once."""

    @property
    def name(self) -> str:
        """The store's path, or its URL without a password: the label of its samples."""
        if database_named(self.path) is not None:
            return without_passwords(kept_text(os.fspath(self.path)))
        return os.path.abspath(self.path)

    def look(self) -> Samples:
        """Return the samples of this moment."""
        from journalfs.engine.waiting import Slices  # noqa: PLC0415 - takes longer than the help text
        from journalfs.live.virtual import made_at_once  # noqa: PLC0415 - as above

        with self._alone:
            try:
                found, self.failure = self._looked(), None
            except (JournalfsError, OSError) as error:
                from journalfs.metrics.samples import Samples  # noqa: PLC0415 - takes longer than the help

                found, self.failure = Samples(), error
                found.add("journalfs_up", 0)
                self._let_go()
            self._add_ages(found)
            return made_at_once(found.top(self.queues, Slices.none()))

    def _looked(self) -> Samples:
        from journalfs.metrics.exposing import parsed  # noqa: PLC0415 - as above
        from journalfs.python.store import open_store  # noqa: PLC0415 - as above

        if self._store is None:
            self._store = open_store(self.path)
        return parsed(self._store.run(lambda backend: backend.metrics()))

    def _add_ages(self, found: Samples) -> None:
        """When the store was scrubbed and backed up last: none of it is known to an open store."""
        from journalfs.backup import Backups  # noqa: PLC0415 - as above
        from journalfs.backup.contents import created_ms  # noqa: PLC0415 - as above
        from journalfs.inspect.scrub_memory import ended_ms, memory_of  # noqa: PLC0415 - as above

        scrubbed_ms = ended_ms(memory_of(os.path.abspath(self.path)))
        if scrubbed_ms is not None:
            found.add("journalfs_scrub_timestamp_seconds", scrubbed_ms / 1000)
        for place in self.places:
            newest_ms = 0  # a place without backups is as one whose backup is very old
            with suppress(JournalfsError, OSError):
                newest_ms = max(map(created_ms, Backups.at(place).names()), default=0)
            found.add("journalfs_backup_timestamp_seconds", newest_ms / 1000, without_passwords(place))

    def _let_go(self) -> None:
        store, self._store = self._store, None
        if store is not None:
            with suppress(JournalfsError, OSError):  # it is what cannot be read
                store.close()

    def close(self) -> None:
        with self._alone:
            self._let_go()


def _once(looking: Looking, folder: Path | None) -> None:
    """Print the metrics, or write them where node_exporter looks."""
    from prometheus_client import generate_latest  # noqa: PLC0415 - an optional library

    from journalfs import caller_files  # noqa: PLC0415 - takes longer than the help text
    from journalfs.metrics.exposing import registry_of  # noqa: PLC0415 - as above

    text = generate_latest(registry_of(looking.name, looking.look))
    if folder is None:
        sys.stdout.buffer.write(text)
        sys.stdout.buffer.flush()
    else:
        file = folder / textfile_name(looking.name)
        with failing("write metrics", file), caller_files.replacing(file, f".{file.name}.unfinished") as out:
            os.fchmod(out.fileno(), 0o644)  # node_exporter is another user
            out.write(text)
    if looking.failure is not None:
        say(f"journalfs: {without_passwords(str(looking.failure))}", to_people=True)
        sys.exit(getattr(looking.failure, "exit_code", EXIT_SYSTEM))


def textfile_name(store: str) -> str:
    """Return a name that each store has to itself: node_exporter reads all files of the directory."""
    return f"journalfs-{blake2b(os.fsencode(store), digest_size=6).hexdigest()}.prom"


def _serve(looking: Looking, listen: str) -> None:
    from prometheus_client import start_http_server  # noqa: PLC0415 - an optional library

    from journalfs.metrics.exposing import registry_of  # noqa: PLC0415 - takes longer than the help text

    host, port = _host_and_port(listen)
    with failing("listen", Path(listen)):
        server, thread = start_http_server(port, host, registry_of(looking.name, looking.look))
    try:
        shown = f"[{host}]" if ":" in host else host
        say(f"http://{shown}:{server.server_port}/metrics", to_people=True)
        while True:
            time.sleep(3600)  # until a signal ends it
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _host_and_port(listen: str) -> tuple[str, int]:
    host, separator, port = listen.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not separator or not host or not port.isdigit() or int(port) >= 1 << 16:
        raise WrongCall(f"--listen {listen}: say HOST:PORT, as 127.0.0.1:9713 or [::1]:9713")
    return host, int(port)
