"""What we export is taken by the real tools: `artemis data imp` and `artemis data decode`."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.broker.instance import Broker
from tests.broker.settings import BrokerSettings
from tests.exchange.exported import by_queue, read_xml
from tests.mounting import journalfs

pytestmark = pytest.mark.timeout(300)

TOOL_S_MAX = 120
STORES = [
    "transactions",
    *(pytest.param(one, marks=pytest.mark.long) for one in ("orders-basic", "compacted", "large-and-paged")),
]

Taken = list[tuple[Any, ...]]


def tool(home: Path, *arguments: str | Path) -> str:
    command = ["java", "-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", f"-Dartemis.home={home}"]
    command += ["-classpath", f"{home}/lib/artemis-boot.jar", "org.apache.activemq.artemis.boot.Artemis"]
    done = subprocess.run(
        [*command, "data", *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TOOL_S_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def exported(store: Path, out: Path, form: str) -> bytes:
    done = journalfs("export", "--format", form, store, out)
    # What a prepared transaction sent is in no queue, so neither in an export: that is told, and ends with 5.
    assert (done.returncode == 0) == (" prepared" not in done.stderr), done.stderr
    return out.read_bytes()


@pytest.mark.rule("S-218")
@pytest.mark.parametrize("name", STORES)
def test_data_imp_takes_our_xml(
    store_copy: Callable[[str], Path], artemis_home: Path, tmp_path: Path, name: str
) -> None:
    """A broker that was empty has the same messages in the same queues."""
    document = tmp_path / "out.xml"
    wanted = taken(exported(store_copy(name) / "data", document, "xml"))
    broker = Broker(tmp_path / "broker", settings=BrokerSettings())
    with broker:
        port = str(broker.port)
        said = tool(artemis_home, "imp", "--host", "127.0.0.1", "--port", port, "--input", document)
        assert "Exception" not in said
        broker.stop()
    found = taken(exported(broker.data, tmp_path / "back.xml", "xml"))
    assert len(found) == len(wanted)
    assert [pair for pair in zip(found, wanted, strict=True) if pair[0] != pair[1]] == []


EXPIRED = ("overdue", "ExpiryQueue")
"""Messages whose time was over long ago go from the one to the other when they arrive."""


def taken(document: bytes) -> Taken:
    """But for what the broker that gets them makes anew: user ids, and which ones are large."""
    return sorted(
        (
            (
                queue,
                [one for one in attributes if one[0] != "user-id"],
                [one for one in properties if dict(one)["name"] != "_AMQ_LARGE_SIZE"],
                body,
            )
            for queue, attributes, properties, body, _ in by_queue(read_xml(document)[0])
            if queue not in EXPIRED
        ),
        key=repr,
    )


@pytest.mark.rule("S-217")
@pytest.mark.parametrize("name", STORES)
def test_data_decode_takes_our_lines(
    store_copy: Callable[[str], Path], artemis_home: Path, tmp_path: Path, name: str
) -> None:
    """The journal that it makes of them holds the same messages."""
    data = store_copy(name) / "data"
    before = messages(data)
    lines = tmp_path / "lines"
    exported(data, lines, "lines")
    for path in (data / "journal").glob("*.amq"):
        path.unlink()
    given: dict[str, str | Path] = {
        "--directory": data / "journal",
        "--prefix": "activemq-data",
        "--suffix": "amq",
    }
    given |= {"--file-size": "10485760", "--input": lines}
    words = [word for pair in given.items() for word in pair]
    tool(artemis_home, "decode", *words)
    assert messages(data) == before


def messages(data: Path) -> list[dict[str, Any]]:
    done = journalfs("cat", "--no-index", data)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]
