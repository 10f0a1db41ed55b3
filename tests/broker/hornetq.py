"""HornetQ 2.4: its libraries from Maven Central, and our program that runs one on a store."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.broker.older import compiled, described, libraries

VERSION = "2.4.7.Final"
SOURCE = Path(__file__).parent / "java_older" / "HornetqBroker.java"
STARTING = "HQ221001"
RUN_S_MAX = 120


class HornetqRun:
    """What HornetQ took from each queue of a store, and what it logged."""

    def __init__(
        self,
        data: Path,
        counts: Mapping[str, int],
        *,
        file_bytes: int = 10 << 20,
        sends: Mapping[str, int] | None = None,
    ) -> None:
        """Run it: it takes so many messages of each queue, sends others, and stops."""
        classes = compiled(SOURCE, libraries(VERSION, group="org.hornetq", artifact="hornetq-server"))
        command = ["setpriv", "--pdeathsig", "KILL", "java", "-Xmx512m", "-XX:TieredStopAtLevel=1"]
        command += ["-XX:+UseSerialGC", "-cp", classes, "journalfs.tests.HornetqBroker"]
        command += [str(data), str(file_bytes)]
        for queue, count in counts.items():
            command += [queue, str(count)]
        for queue, count in (sends or {}).items():
            command += [queue, f"+{count}"]
        done = subprocess.run(
            command, capture_output=True, encoding="utf-8", timeout=RUN_S_MAX, check=False, cwd=data
        )
        self.log = done.stderr
        *lines, end = done.stdout.splitlines() or [""]
        assert (done.returncode, end) == (0, "done"), done.stderr
        assert STARTING in self.log, "nothing is logged"
        self.prepared = 0
        self.taken: dict[str, list[dict[str, Any]]] = {queue: [] for queue in counts}
        for line in lines:
            queue, _, rest = line.partition("\t")
            if queue == "prepared":
                self.prepared = int(rest)
            else:
                self.taken[queue].append(described(rest))

    def complaints(self) -> list[str]:
        words = ("WARN", "ERROR", "SEVERE", "Exception")
        return [line for line in self.log.splitlines() if any(word in line for word in words)]
