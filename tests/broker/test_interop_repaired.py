"""A real broker on what `repair`, `recover` and `convert` made of damaged stores: it has, shows and delivers
exactly what the books say, and complains of nothing.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from journalfs.account.advice import PREPARED
from journalfs.account.taking import account_of as account_of_store
from journalfs.store import open_store
from tests.broker.client import CoreClient
from tests.broker.instance import Broker
from tests.broker.settings import BrokerSettings
from tests.broker.writing import account_of, complaints
from tests.frozen import PristineStores
from tests.mounting import journalfs
from tests.reference.journal import scan

pytestmark = pytest.mark.timeout(300)

EXIT_DAMAGED = 5
SETTINGS = BrokerSettings(journal_file_size="10M", message_expiry_scan_period_ms=-1)
Damaging = Callable[[Path], None]
"""Damages a data directory."""


# ---- kinds of damage ----


def lose_bindings(data: Path) -> None:
    shutil.rmtree(data / "bindings")


def damage_a_binding(data: Path) -> None:
    """One byte in the middle of a queue's record, behind its name: how long the record is, at its end."""
    path = next(iter(sorted((data / "bindings").iterdir())))
    name = "images.multi.left".encode("utf-16-le")
    content = bytearray(path.read_bytes())
    at = content.index(name)
    content[at + len(name) + 8] ^= 0x55
    content[at - 8 : at] = bytes(8)
    path.write_bytes(content)


def overwrite_journal(data: Path) -> None:
    """Bytes that are no records over some of a transaction's, and others: from the head of a record on,
    since nothing tells of a change within a body.
    """
    path = max((data / "journal").glob("*.amq"), key=used_bytes)
    content = path.read_bytes()
    records = scan(content, int.from_bytes(content[8:16], "big") & 0x7FFFFFFF).records
    at = min(3000, used_bytes(path) // 2)
    with path.open("r+b") as file:
        file.seek(next(one.offset for one in records if one.offset >= at))
        file.write(b"\xff" * 100)


def used_bytes(path: Path) -> int:
    return len(path.read_bytes().rstrip(b"\0"))


def remove_journal_file(data: Path) -> None:
    files = sorted((data / "journal").glob("*.amq"), key=lambda path: path.stat().st_mtime)
    files[len(files) // 2].unlink()


def empty_journal(data: Path) -> None:
    for path in (data / "journal").glob("*.amq"):
        path.unlink()


def cut_journal_file(data: Path) -> None:
    """A file that was copied by half."""
    path = max((data / "journal").glob("*.amq"), key=used_bytes)
    content = path.read_bytes()
    path.write_bytes(content[: len(content.rstrip(b"\0")) // 2])


def zero_an_end(data: Path) -> None:
    path = max((data / "journal").glob("*.amq"), key=used_bytes)
    content = path.read_bytes()
    used = used_bytes(path)
    path.write_bytes(content[: used // 2] + bytes(len(content) - used // 2))


def hurt_bodies(data: Path) -> None:
    """One is gone, one is cut."""
    bodies = sorted((data / "large-messages").glob("*.msg"), key=lambda path: -path.stat().st_size)
    bodies[0].unlink()
    bodies[1].write_bytes(bodies[1].read_bytes()[:5000])


def cut_a_page(data: Path) -> None:
    page = max((data / "paging").rglob("*.page"), key=lambda path: path.stat().st_size)
    page.write_bytes(page.read_bytes()[:-3])


def remove_a_page(data: Path) -> None:
    max((data / "paging").rglob("*.page"), key=lambda path: path.stat().st_size).unlink()


def all_at_once(data: Path) -> None:
    for damaging in (damage_a_binding, overwrite_journal, hurt_bodies, cut_a_page):
        damaging(data)


NOTHING_TELLS = frozenset({remove_journal_file})
"""Kinds that leave a store which may be whole: what is gone may have held nothing."""


# ---- the judge ----


def expected_by(report: Mapping[str, Any], prepared: Mapping[str, int]) -> Counter[str]:
    """How many messages each queue of the new store has, by the books alone. What prepared transactions send
    is in none yet.
    """
    books = report["books"]
    counts: Counter[str] = Counter()
    for queue, messages in books["carried"].items():
        counts[books["renamed"].get(queue, queue)] += messages
    for aside in books["setAside"]:
        counts[aside["into"]] += aside["messages"]
    counts.subtract(prepared)
    return +counts


def prepared_in(new: Path) -> Counter[str]:
    """How many messages prepared transactions send to each queue."""
    store = open_store(new, index=False)
    try:
        entries = account_of_store(store).entries
    finally:
        store.close()
    sent = Counter[str]()
    for one in entries:
        if one.kind == PREPARED and one.queue is not None:
            sent[one.queue] += one.messages.messages or 0
    return sent


def judge(broker: Broker, report: Mapping[str, Any]) -> list[str]:
    """What the running broker has otherwise than the books say, in words; none: it agrees."""
    wanted = expected_by(report, prepared_in(broker.data))
    found: Counter[str] = Counter()
    wrong: list[str] = []
    with CoreClient(broker.port) as client:
        account = account_of(client)
        for name, queue in account.queues.items():
            full = f"{queue['address']}::{name}"
            found[full] = int(queue["messageCount"])
            due = len(account.messages.get(name, ()))  # what has expired is counted, and given to nobody
            if due and "mqtt" not in name and queue.get("paused") != "true":
                got = client.do("messages-take", queue=name, count=due)["messages"]
                if len(got) != due:
                    wrong.append(f"{full}: {len(got)} of {due} messages are delivered")
        said = complaints(broker.log)
    wrong += [f"{one}: {found[one]} instead of {wanted[one]}" for one in wanted if found[one] != wanted[one]]
    wrong += [f"{one}: {count} that no book has" for one, count in (+found).items() if one not in wanted]
    return wrong + said


def made(command: str, source: Path, broker: Broker, *options: str) -> Mapping[str, Any]:
    """Make a broker's store, and return the report; the end is with 5 for a store that is not whole."""
    broker.lay_out()
    store = open_store(source, anew=True)
    whole = account_of_store(store).whole
    store.close()
    given = [source, broker.data] if command == "convert" else [source, "--out", broker.data]
    done = journalfs(command, "--json", *given, *options)
    assert done.returncode == (0 if whole else EXIT_DAMAGED), done.stderr
    report: Mapping[str, Any] = json.loads(done.stdout)
    return report


def copied(stores: PristineStores, name: str, to: Path) -> Path:
    shutil.copytree(stores[name], to, symlinks=True)
    return to / "data" if (to / "data").is_dir() else to


@pytest.mark.rule("S-310", "S-311", "S-312", "S-313")
@pytest.mark.parametrize(
    ("name", "damaging"),
    [
        ("large-and-paged", all_at_once),
        *(
            pytest.param(name, damaging, marks=pytest.mark.long)
            for name, kinds in {
                "large-and-paged": (
                    lose_bindings, overwrite_journal, remove_journal_file, empty_journal, cut_journal_file,
                    zero_an_end, hurt_bodies, cut_a_page, remove_a_page,
                ),
                "orders-basic": (lose_bindings, overwrite_journal, remove_journal_file, cut_journal_file),
                "transactions": (lose_bindings, overwrite_journal, cut_journal_file, zero_an_end),
                "killed": (lose_bindings, cut_journal_file),
            }.items()
            for damaging in kinds
        ),
    ],
)  # fmt: skip
def test_a_broker_has_what_the_books_of_repair_say(
    name: str, damaging: Damaging, stores: PristineStores, artemis_home: Path, tmp_path: Path
) -> None:
    data = copied(stores, name, tmp_path / "source")
    damaging(data)
    broker = Broker(tmp_path / "broker", settings=SETTINGS)
    report = made("repair", data, broker)
    if damaging not in NOTHING_TELLS:
        assert report["books"]["sourceWhole"] is False
    with broker:
        assert judge(broker, report) == []
        broker.stop()
