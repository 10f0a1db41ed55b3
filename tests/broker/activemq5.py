"""ActiveMQ 5 with its AMQ Message Store: its libraries from Maven Central, and our program that runs one."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any, Final

from tests.broker.older import compiled, libraries

SOURCE = Path(__file__).parents[1] / "older" / "java" / "KahaBroker.java"
RUN_S_MAX = 180
ARTIFACTS: Final = {
    "5.8.0": "activemq-amq-store",
    "5.4.3": "activemq-core",
    "5.18.7": "activemq-kahadb-store",
}
"""The releases that tests run, by what has the store."""
BESIDE: Final = {
    "5.8.0": [
        ("org.slf4j", "slf4j-simple", "1.6.6"),
        ("org.apache.activemq", "activemq-kahadb-store", "5.8.0"),
    ],
    "5.4.3": [],
    "5.18.7": [],
}
"""What logs, and what keeps messages that are not to be kept."""
EXPECTED: Final = (
    "The ReferenceStore is not valid - recovering",
    "Indexes at an older version",
    "SLF4J",
    "log4j:WARN",
)
"""What each start says that replays."""


def taken(version: str, url: str, *arguments: str) -> dict[str, list[dict[str, Any]]]:
    """What clients of a release get from a broker, which may be another: by what each asks for."""
    home = libraries(version, artifact=ARTIFACTS[version], also=BESIDE[version])
    command = ["setpriv", "--pdeathsig", "KILL", "java", "-Xmx512m", "-XX:TieredStopAtLevel=1"]
    command += ["-XX:+UseSerialGC", "-cp", compiled(SOURCE, home), "journalfs.tests.KahaBroker"]
    command += ["take", url, *arguments]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=RUN_S_MAX, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, list[dict[str, Any]]] = json.loads(done.stdout)
    return found


class Activemq5Run:
    """A run of the broker on a store, and what it logged."""

    def __init__(self, version: str, mode: str, store: Path, *arguments: str) -> None:
        home = libraries(version, artifact=ARTIFACTS[version], also=BESIDE[version])
        command = ["setpriv", "--pdeathsig", "KILL", "java", "-Xmx512m", "-XX:TieredStopAtLevel=1"]
        command += ["-XX:+UseSerialGC", "-cp", compiled(SOURCE, home), "journalfs.tests.KahaBroker"]
        command += [mode, str(store), *arguments, "amq=1", "file=33554432"]
        done = subprocess.run(
            command, capture_output=True, encoding="utf-8", timeout=RUN_S_MAX, check=False, cwd=store.parent
        )
        self.log = done.stderr
        assert done.returncode == 0, done.stderr
        self.account: dict[str, Any] = json.loads(done.stdout) if mode == "drain" else {}

    def complaints(self) -> list[str]:
        words = ("WARN", "ERROR", "SEVERE", "Exception")
        return [
            line
            for line in self.log.splitlines()
            if any(word in line for word in words) and not any(word in line for word in EXPECTED)
        ]
