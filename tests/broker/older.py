"""Brokers of older releases: their libraries from Maven Central, and our program that runs one."""

from __future__ import annotations

import base64
import hashlib
import subprocess
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.broker import distribution

SOURCE = Path(__file__).parent / "java_older" / "OlderBroker.java"
LOGGING = SOURCE.with_name("logging.properties")
NATIVE_LIBRARY = "lib/linux-x86_64/libartemis-native-64.so"
RUN_S_MAX = 120
STARTING = "AMQ221000"
USED = {"NIO": "AMQ221013", "ASYNCIO": "AMQ221012"}
"""The code of the log line that says which journal it is; there is none for MAPPED."""

DEPENDENCY = """\
    <dependency>
      <groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>
    </dependency>"""
POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>journalfs.tests</groupId><artifactId>older-broker</artifactId><version>1</version>
  <dependencies>
{dependencies}
  </dependencies>
</project>
"""


def libraries(
    version: str,
    *,
    group: str = "org.apache.activemq",
    artifact: str = "artemis-server",
    also: Sequence[tuple[str, str, str]] = (),
) -> Path:
    """The jars of a release's server, and of what it is to have beside, fetched once."""
    home = distribution.cache_dir() / f"{artifact}-{version}"
    with distribution.locked("distribution"):
        if not home.is_dir():
            with tempfile.TemporaryDirectory(dir=distribution.cache_dir()) as scratch:
                wanted = [DEPENDENCY.format(*one) for one in ((group, artifact, version), *also)]
                (Path(scratch) / "pom.xml").write_text(POM.format(dependencies="\n".join(wanted)))
                jars = Path(scratch) / "jars"
                command = ["mvn", "-B", "-ntp", "-q", "dependency:copy-dependencies"]
                command += ["-DincludeScope=runtime", f"-DoutputDirectory={jars}"]
                distribution.run(command, folder=Path(scratch), deadline_s=distribution.DOWNLOAD_S_MAX)
                jars.rename(home)
    return home


def native_libraries(version: str) -> Path:
    """The folder of the library that ASYNCIO needs: the release has it within a jar."""
    home = libraries(version)
    folder = distribution.cache_dir() / f"artemis-native-{version}"
    with distribution.locked("distribution"):
        if not folder.is_dir():
            (jar,) = (path for path in home.glob("*artemis-native-*.jar"))
            with tempfile.TemporaryDirectory(dir=distribution.cache_dir()) as scratch:
                with zipfile.ZipFile(jar) as packed:
                    packed.extract(NATIVE_LIBRARY, scratch)
                Path(scratch, NATIVE_LIBRARY).parent.rename(folder)
    return folder


def program(version: str) -> str:
    """The class path of our program for a release."""
    return compiled(SOURCE, libraries(version))


def compiled(source: Path, home: Path) -> str:
    """The class path of a program, built against the jars of `home`, and of these."""
    digest = hashlib.sha256(source.read_bytes()).hexdigest()[:16]
    classes = distribution.cache_dir() / f"older-broker-{home.name}-{digest}"
    with distribution.locked("client"):
        if not classes.is_dir():
            with tempfile.TemporaryDirectory(dir=distribution.cache_dir()) as scratch:
                out = Path(scratch) / "classes"
                command = ["javac", "--release", "11", "-proc:none", "-d", str(out), "-cp", f"{home}/*"]
                distribution.run([*command, str(source)], folder=Path(scratch), deadline_s=120)
                out.rename(classes)
    return f"{classes}:{home}/*"


class OlderRun:
    """What a broker of an older release took from each queue, and what it logged."""

    def __init__(
        self,
        version: str,
        data: Path,
        counts: dict[str, int],
        *,
        journal_type: str,
        file_bytes: int,
        word: str,
    ) -> None:
        """Run it: it takes so many messages of each queue, sends one to its address, and stops."""
        command = ["setpriv", "--pdeathsig", "KILL", "java", "-Xmx512m", "-XX:TieredStopAtLevel=1"]
        command += [
            "-XX:+UseSerialGC",
            f"-Djava.library.path={native_libraries(version)}",
            "-Djava.util.logging.manager=org.jboss.logmanager.LogManager",
            f"-Dlogging.configuration={LOGGING.as_uri()}",
            "-cp",
            program(version),
            "journalfs.tests.OlderBroker",
        ]
        command += [str(data), journal_type, str(file_bytes), word]
        for queue, count in counts.items():
            command += [queue, str(count)]
        done = subprocess.run(
            command, capture_output=True, encoding="utf-8", timeout=RUN_S_MAX, check=False, cwd=data
        )
        self.log = done.stderr
        *lines, end = done.stdout.splitlines() or [""]
        assert (done.returncode, end) == (0, "done"), done.stderr
        assert STARTING in self.log, "nothing is logged"
        assert [kind for kind, code in USED.items() if code in self.log] == [journal_type][
            : journal_type in USED
        ], self.log
        self.taken: dict[str, list[dict[str, Any]]] = {queue: [] for queue in counts}
        for line in lines:
            queue, _, rest = line.partition("\t")
            self.taken[queue].append(described(rest))

    def complaints(self) -> list[str]:
        words = ("WARN", "ERROR", "SEVERE", "Exception")
        return [line for line in self.log.splitlines() if any(word in line for word in words)]


def described(line: str) -> dict[str, Any]:
    """As the client program of the current release describes it, but for what it does not print."""
    kind, durable, priority, expiration, count, large, size, digest, properties = line.split("\t")
    found = {}
    for one in properties.split(",") if properties else ():
        name, value_type, value = one.split(":")
        found[_plain(name)] = {"t": value_type, "v": _plain(value)}
    return {
        "type": int(kind),
        "durable": durable == "true",
        "priority": int(priority),
        "expiration": int(expiration),
        "deliveryCount": int(count),
        "large": large == "true",
        "size": int(size),
        "sha256": digest,
        "properties": found,
    }


def _plain(text: str) -> str:
    return base64.b64decode(text).decode()
