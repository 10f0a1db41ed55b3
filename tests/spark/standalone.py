"""Spark's standalone cluster on this machine: a master, and workers on hosts of their own, all of which are
addresses of the loopback device.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.broker.polling import eventually
from tests.spark.drivers import QUICK_START

START_S_MAX = 120
MASTER = "127.0.0.1"


@contextmanager
def standalone(home: Path, hosts: Sequence[str]) -> Iterator[str]:
    """A master and a worker of one core on each host; the URL of the master."""
    with ExitStack() as running:
        here = ("--host", MASTER, "--port", "0")
        url = running.enter_context(_daemon(home, "master.Master", MASTER, *here, says=r"spark://[\d.]+:\d+"))
        for host in hosts:
            words = ("--host", host, "--cores", "1", "--memory", "1g", "--work-dir", f"{home}/{host}", url)
            said = "Successfully registered with master"
            running.enter_context(_daemon(home, "worker.Worker", host, *words, says=said))
        yield url


@contextmanager
def _daemon(home: Path, name: str, host: str, *words: str, says: str) -> Iterator[str]:
    """A process of the cluster, from when its log says that it is there; what it says."""
    log = home / f"{name}-{host}.log"
    environment = {
        **{key: value for key, value in os.environ.items() if key != "SPARK_CONF_DIR"},
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": host,
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": QUICK_START,
    }
    program = [
        str(home / "bin" / "spark-class"),
        f"org.apache.spark.deploy.{name}",
        "--webui-port",
        "0",
        *words,
    ]
    with log.open("wb") as out:
        process = subprocess.Popen(
            program, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
        )

    def said() -> re.Match[str] | None:
        assert process.poll() is None, log.read_text()
        return re.search(says, log.read_text())

    try:
        found = eventually(said, deadline_s=START_S_MAX, what=f"{name} on {host} says {says}")
        assert found is not None
        yield found[0]
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
