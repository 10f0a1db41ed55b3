"""Dead letters of real brokers, in core and AMQP, and the reasons that only settings tell apart."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from journalfs.pipeline.dlq import EXPIRED, GIVEN_UP, MOVED, SENT, dead_letters
from journalfs.pipeline.engines import Engine
from journalfs.pipeline.messages import Source
from tests.cli.running import journalfs, objects
from tests.frozen import PristineStores
from tests.spark.rows import lines_of
from tests.spark.writing import written_store


def origin(line: dict[str, Any], name: str) -> Any:
    """As the broker wrote it: in a property, or in an annotation."""
    noted = {pair[0]["v"]: pair[1]["v"] for pair in line.get("amqp", {}).get("messageAnnotations", ())}
    noted |= {f"x-opt-{key[5:].replace('_', '-')}": one for key, one in line.get("properties", {}).items()}
    return noted.get(f"x-opt-{name}")


def check(engine: Engine, store: Path) -> set[str]:
    found = dead_letters(engine, Source(str(store)))
    names = ("ORIG-ADDRESS", "ORIG-QUEUE")
    lines = [line for line, _ in lines_of(store) if any(origin(line, name) for name in names)]
    wanted = Counter(
        (
            line["queue"],
            line["address"],
            *(origin(line, name) for name in names),
            origin(line, "ACTUAL-EXPIRY") is not None,
        )
        for line in lines
    )
    assert wanted == Counter(
        {
            (one.queue, one.address, one.fromAddress, one.fromQueue, one.reason == EXPIRED): one.letters
            for one in found
        }
    )
    for one in found:
        of_one = [line for line in lines if origin(line, "ORIG-QUEUE") == one.fromQueue]
        assert one.oldest in [line["timestamp"] or None for line in of_one]
    return {one.reason for one in found}


def test_letters_that_brokers_wrote(engine: Engine, stores: PristineStores) -> None:
    assert {GIVEN_UP, EXPIRED} <= check(engine, stores["orders-basic"])
    assert check(engine, stores["amqp-mqtt-stomp-openwire"])


def test_reasons_and_ages(engine: Engine, tmp_path: Path) -> None:
    def letter(**properties: object) -> dict[str, object]:
        types = (
            {"propertyTypes": {"_AMQ_ACTUAL_EXPIRY": "long"}} if "_AMQ_ACTUAL_EXPIRY" in properties else {}
        )
        return {"body": "x", "timestamp": 1000 + len(properties), "properties": properties, **types}

    store = written_store(
        tmp_path,
        {
            "Dead": [
                letter(_AMQ_ORIG_ADDRESS="a", _AMQ_ORIG_QUEUE="a"),
                letter(_AMQ_ORIG_ADDRESS="a", _AMQ_ORIG_QUEUE="a", n=1),
                letter(_AMQ_ORIG_ADDRESS="a", _AMQ_ORIG_QUEUE="a", _AMQ_ACTUAL_EXPIRY=5000),
                letter(),
            ],
            "b": [letter(_AMQ_ORIG_ADDRESS="a", _AMQ_ORIG_QUEUE="a"), letter()],
        },
    )
    settings = (store / "journalfs.toml").read_text()
    (store / "journalfs.toml").write_text(f'{settings}\n[address-settings.a]\ndead-letter-address = "Dead"\n')
    shown = [
        (one.queue, one.reason, one.fromQueue, one.letters, one.oldest, one.newest, one.lastExpired)
        for one in dead_letters(engine, Source(str(store), ("Dead", "b")))
    ]
    assert sorted(shown, key=str) == [
        ("Dead", EXPIRED, "a", 1, 1003, 1003, 5000),
        ("Dead", GIVEN_UP, "a", 2, 1002, 1003, None),
        ("Dead", SENT, None, 1, 1000, 1000, None),
        ("b", MOVED, "a", 1, 1002, 1002, None),
        ("b", SENT, None, 1, 1000, 1000, None),
    ]
    said = objects("pipeline", "dlq", store, "--json", "--output", tmp_path / "out")
    assert [one["reason"] for one in said] == [GIVEN_UP, EXPIRED, MOVED]
    assert said[1]["firstExpired"] == 5000
    page = (tmp_path / "out" / "report.html").read_text()
    assert page.count("data:image/png") == 2
    assert "<td>given up</td>" in page
    first = journalfs("pipeline", "dlq", store).stdout.splitlines()[0]
    assert first.split("\t")[:5] == ["Dead", "given up", "a", "a", "2"]
