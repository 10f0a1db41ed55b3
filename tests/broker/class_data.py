"""Archives of the classes that a broker and its client load: with one, each starts in half the time.

Made once for a user, of a broker that is started and a client that sends and receives.
"""

from __future__ import annotations

import hashlib
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Final

from tests.broker import distribution

BROKER: Final = "org.apache.activemq.artemis.cli.Artemis"
CLIENT: Final = "journalfs.tests.BrokerClient"
_making = False


@cache
def class_path() -> str:
    """Of both: archives are for one class path, of jars alone."""
    jars = sorted((distribution.distribution_home() / "lib").glob("*.jar"))
    return ":".join(map(str, [distribution.compiled(distribution.JAVA_SOURCES), *jars]))


@cache
def _archives() -> dict[str, Path]:
    version = subprocess.run(["java", "-version"], capture_output=True, check=True).stderr
    key = hashlib.sha256(class_path().encode() + version).hexdigest()[:16]
    return {name: distribution.cache_dir() / f"{name}-{key}.jsa" for name in (BROKER, CLIENT)}


def options(main_class: str) -> list[str]:
    """What a JVM is started with to run one of the two."""
    archive = _archives()[main_class]
    if _making:
        archiving = [f"-XX:ArchiveClassesAtExit={archive}.unfinished"]
    else:
        archiving = [f"-XX:SharedArchiveFile={archive}"] if archive.exists() else []
    return ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData", "-Xlog:cds=off", *archiving]


def make() -> None:
    """Make the archives, if they are not there."""
    with distribution.locked("class-data"):
        if not all(archive.exists() for archive in _archives().values()):
            _make()


def _make() -> None:
    from tests.broker.client import CoreClient  # noqa: PLC0415 - it imports this module
    from tests.broker.instance import Broker  # noqa: PLC0415 - so does it
    from tests.broker.settings import BrokerSettings  # noqa: PLC0415 - and this imports those

    global _making  # noqa: PLW0603 - both are started from elsewhere
    _making = True
    try:
        with tempfile.TemporaryDirectory(dir=distribution.cache_dir()) as scratch:
            broker = Broker(Path(scratch) / "broker", settings=BrokerSettings())
            with broker, CoreClient(broker.port) as client:
                client.create_queue("archived")
                client.send("archived", count=1)
                client.browse("archived")
                client.consume("archived")
                client.close()
                broker.stop()
    finally:
        _making = False
    for archive in _archives().values():
        archive.with_name(f"{archive.name}.unfinished").rename(archive)
