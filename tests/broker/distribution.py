"""The Apache Artemis distribution that the tests run, fetched once from Maven Central into a user's cache.

`JOURNALFS_ARTEMIS_HOME` names an unpacked distribution to use instead. The cache is
`$XDG_CACHE_HOME/journalfs-tests` (`~/.cache/journalfs-tests`); deleting it costs one download of 46 MB.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ARTEMIS_VERSION = "2.44.0"
ARTIFACT = f"org.apache.activemq:apache-artemis:{ARTEMIS_VERSION}:tar.gz:bin"
DOWNLOAD_S_MAX = 480
"""A download of 46 MB at 100 KB/s: slower than this is taken for a network that does not work."""

JAVA_SOURCES = Path(__file__).parent / "java"


class FetchError(Exception):
    """The distribution could not be had; the message says what was tried and what came back."""


def cache_dir() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    path = Path(base) / "journalfs-tests"
    path.mkdir(parents=True, exist_ok=True)
    return path


def distribution_home() -> Path:
    """Return the root of an unpacked distribution, fetching it when it is not there yet."""
    given = os.environ.get("JOURNALFS_ARTEMIS_HOME")
    if given:
        home = Path(given)
        if not (home / "lib" / "artemis-boot.jar").is_file():
            raise FetchError(f"JOURNALFS_ARTEMIS_HOME={given} has no lib/artemis-boot.jar")
        return home
    home = cache_dir() / f"apache-artemis-{ARTEMIS_VERSION}"
    with locked("distribution"):
        if not home.is_dir():
            _fetch(home)
    return home


def compiled(sources: Path) -> Path:
    """The jar of our Java classes whose sources are in a folder; compiled when one of them is new."""
    files = sorted(sources.glob("*.java"))
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16]
    classes = cache_dir() / f"classes-{ARTEMIS_VERSION}-{digest}.jar"
    home = distribution_home()
    with locked("classes"):
        if not classes.is_file():
            _compile(files, home, classes)
    return classes


def class_path(sources: Path) -> str:
    """Of a program of ours and of the classes of the broker."""
    return f"{compiled(sources)}:{distribution_home()}/lib/*"


def _fetch(home: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise FetchError("Maven is not installed (Debian: apt install maven); it fetches " + ARTIFACT)
    with tempfile.TemporaryDirectory(dir=cache_dir()) as scratch:
        copy = ["dependency:copy", f"-Dartifact={ARTIFACT}", f"-DoutputDirectory={scratch}"]
        run([maven, "-B", "-ntp", "-q", *copy], folder=Path(scratch), deadline_s=DOWNLOAD_S_MAX)
        (archive,) = Path(scratch).glob("*.tar.gz")
        run(["tar", "-xzf", str(archive)], folder=Path(scratch), deadline_s=120)
        # The rename comes last, so that a run cut off here leaves no half distribution behind.
        (Path(scratch) / home.name).rename(home)


def _compile(sources: list[Path], home: Path, classes: Path) -> None:
    with tempfile.TemporaryDirectory(dir=cache_dir()) as scratch:
        out = Path(scratch) / "classes"
        command = ["javac", "--release", "17", "-Xlint:all,-serial,-processing,-try", "-Werror", "-proc:none"]
        command += ["-d", str(out), "-cp", f"{home}/lib/*", *map(str, sources)]
        run(command, folder=Path(scratch), deadline_s=120)
        jar = Path(scratch) / "classes.jar"
        run(["jar", "--create", "--file", str(jar), "-C", str(out), "."], folder=Path(scratch), deadline_s=60)
        jar.rename(classes)


def run(command: list[str], *, folder: Path, deadline_s: float) -> None:
    done = subprocess.run(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=deadline_s,
        check=False,
    )
    if done.returncode != 0:
        raise FetchError(f"{' '.join(command)}\n{done.stdout}{done.stderr}")


@contextmanager
def locked(name: str) -> Iterator[None]:
    """Keep two test runs of one user from fetching or compiling the same thing at once."""
    with (cache_dir() / f"{name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


JDBC_DRIVERS = {
    "postgresql": "org.postgresql:postgresql:42.7.4",
    "mysql": "org.mariadb.jdbc:mariadb-java-client:3.4.1",
    **{f"derby{part}": f"org.apache.derby:derby{part}:10.15.2.0" for part in ("", "shared", "tools")},
}
DERBY = "derby", "derbyshared", "derbytools"


def jdbc_driver(database: str) -> Path:
    """The jar that a broker needs to keep its store in such a database, fetched once."""
    _, name, version = JDBC_DRIVERS[database].split(":")
    jar = cache_dir() / "jdbc" / f"{name}-{version}.jar"
    with locked("distribution"):
        if not jar.is_file():
            copy = [
                "dependency:copy",
                f"-Dartifact={JDBC_DRIVERS[database]}",
                f"-DoutputDirectory={jar.parent}",
            ]
            run(["mvn", "-B", "-ntp", "-q", *copy], folder=cache_dir(), deadline_s=DOWNLOAD_S_MAX)
    return jar
