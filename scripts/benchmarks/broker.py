"""Starting a real broker on a copy of a store, as its own `artemis create` sets one up."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scripts.benchmarks.measure import run_quietly

JAVA_SOURCES = Path(__file__).parent / "java"

ACTIVE = "AMQ221007"
"""The code of the log line that says the server is active."""


class BrokerInstance:
    """A broker instance with the distribution's own defaults, over a copy of a store."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.pid = 0
        """Of the process, while it runs."""

    @staticmethod
    def create(root: Path, data: Path | None, *, max_size_bytes: int | None = None) -> BrokerInstance | None:
        """Lay an instance out under `root`: with a copy of a store, or without any and then tuned to the
        disk by its own `create`. `max_size_bytes`: from so much on its addresses page. None when there is no
        distribution to lay out.
        """
        home = _distribution()
        if home is None:
            return None
        if not root.exists():
            flags = "--allow-anonymous --no-web --silent --user admin --password admin"
            if data is not None:
                flags += " --nio --no-autotune"
            run_quietly([str(home / "bin" / "artemis"), "create", *flags.split(), str(root)])
            if data is not None:
                shutil.rmtree(root / "data")
                shutil.copytree(data, root / "data", ignore=shutil.ignore_patterns("journalfs"))
        if max_size_bytes is not None:
            settings = root / "etc" / "broker.xml"
            changed, count = re.subn(
                "<max-size-bytes>[^<]*<", f"<max-size-bytes>{max_size_bytes}<", settings.read_text()
            )
            if not count:
                raise RuntimeError(f"{settings}: no limit to change")
            settings.write_text(changed)
        return BrokerInstance(root)

    def start_and_stop(self) -> float:
        """Seconds from the command to the log line that says it is active; then it is stopped cleanly."""
        with self.running() as seconds:
            return seconds

    def produce(self, messages: int, text_chars: int, threads: int, *, purge: bool = True) -> float:
        """Seconds that the broker's own `producer` takes to send so many texts, as it says itself: without
        the time that it takes to start. `purge`: nothing of them stays.
        """
        took = self._timed("producer", messages, threads, "--text-size", str(text_chars))
        if purge:
            self._purge("orders")
        return took

    def consume(self, messages: int, *, each: bool = False) -> float:
        """Seconds that its own `consumer` takes to receive so many, likewise. `each`: it commits each before
        the next.
        """
        return self._timed("consumer", messages, 1, *(["--commit-interval", "1"] if each else []))

    def _timed(self, command: str, messages: int, threads: int, *more: str) -> float:
        counts = ["--message-count", str(messages // threads), "--threads", str(threads)]
        user = ["--user", "admin", "--password", "admin"]
        where = ["--destination", "queue://orders", "--silent"]
        done = subprocess.run(
            [str(self._root / "bin" / "artemis"), command, *counts, *more, *where, *user],
            capture_output=True,
            text=True,
            check=True,
        )
        said = [int(found) for found in re.findall(r"Elapsed time in milli second : (\d+)", done.stdout)]
        if len(said) != threads:
            raise RuntimeError(f"the {command} did not say how long it took: {done.stdout}{done.stderr}")
        return max(said) / 1000

    def _purge(self, queue: str) -> None:
        """Empty a queue, so that the next round meets the broker as this one did."""
        command = [str(self._root / "bin" / "artemis"), "queue", "purge", "--name", queue]
        run_quietly([*command, "--user", "admin", "--password", "admin"])

    @contextmanager
    def running(self) -> Iterator[float]:
        """Have it run; how many seconds it took until it was active."""
        start = time.perf_counter()
        process = subprocess.Popen(
            [str(self._root / "bin" / "artemis"), "run"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        assert process.stdout is not None
        try:
            # The script becomes the virtual machine.
            self.pid = process.pid
            for line in process.stdout:
                if ACTIVE in line:
                    break
            else:
                raise RuntimeError("the broker ended before it was active")
            yield time.perf_counter() - start
        finally:
            run_quietly([str(self._root / "bin" / "artemis"), "stop"])
            process.stdout.read()
            process.wait(60)


def java_classes(name: str, *, heap: str) -> list[str] | None:
    """The command that compiles a program beside this file against the broker's jars and runs it. None when
    there are none.
    """
    home = _distribution()
    if home is None:
        return None
    libraries = f"-Djava.library.path={home}/bin/lib/linux-x86_64"
    quiet = ["-XX:-UsePerfData", "-Dlog4j2.level=off"]
    return [
        "java",
        f"-Xmx{heap}",
        *quiet,
        libraries,
        "-cp",
        f"{home}/lib/*",
        str(JAVA_SOURCES / f"{name}.java"),
    ]


def artemis_tool(*arguments: str) -> list[str]:
    """The command of one of the distribution's own tools, outside of any instance."""
    home = _distribution()
    if home is None:
        raise RuntimeError("there is no Artemis distribution")
    # An export holds all messages of the store; out of memory it waits for ever.
    boot = ["java", "-Xmx4g", f"-Dartemis.home={home}", "-cp", f"{home}/lib/artemis-boot.jar"]
    return [*boot, "org.apache.activemq.artemis.boot.Artemis", *arguments]


def _distribution() -> Path | None:
    """The unpacked distribution that the broker tests use: named by the environment, or fetched by them."""
    given = os.environ.get("JOURNALFS_ARTEMIS_HOME")
    if given:
        return Path(given)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    found = sorted((cache / "journalfs-tests").glob("apache-artemis-*/bin/artemis"))
    return found[-1].parent.parent if found else None
