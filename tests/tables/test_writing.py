"""What is written to a store in a database is in its tables, whatever becomes of the process."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import inspect, select

from journalfs.errors import NotAStore
from journalfs.records.tables.database import Database
from journalfs.store import open_store
from journalfs.store.write.store import WritingStore
from tests.broker.writing import lines_in, publish, queue_in, write_in
from tests.kinds import DATABASES
from tests.tables.instances import instance_at
from tests.tables.servers import Server
from tests.tables.test_lease import settings_of

BIG = bytes(range(256)) * 2000


@pytest.fixture(params=DATABASES)
def url(request: pytest.FixtureRequest, empty_database: Callable[[str], str]) -> str:
    return empty_database(request.param)


def shown(url: str | Path) -> dict[str, list[dict[str, Any]]]:
    """The lines of every queue, and that there is no damage."""
    store = open_store(url)
    try:
        assert store.status()["damage"] == 0
        found = {}
        for address in store.addresses():
            for queue in address.queues():
                source = queue.open_all()
                text = bytes(source.read(0, source.size_bytes))
                source.close()
                found[queue.name] = [json.loads(line) for line in text.splitlines()]
        return found
    finally:
        store.close()


async def make(store: WritingStore, *names: str) -> None:
    for name in names:
        await store.create_address(name)
        await store.create_queue(name, name)


@pytest.mark.rule("S-220", "S-222")
def test_every_change_is_in_the_tables(url: str) -> None:
    async def work(store: WritingStore) -> dict[str, list[dict[str, Any]]]:
        await make(store, "orders", "done", "gone")
        await publish(store, "orders", None, "in.txt", b"".join(b"line %d\n" % n for n in range(500)))
        await publish(store, "orders", None, "in.json", b'{"n": 1} {"n": 2}')
        await publish(store, "orders", "orders", "big.bin", BIG)
        orders = queue_in(store, "orders")
        ids = [int(orders.listing().message_id(index)) for index in range(len(orders.listing()))]
        await store.acknowledge(("orders", "orders"), ids[:10])  # type: ignore[arg-type]
        await store.move(("orders", "orders"), ids[10:20], ("done", "done"))  # type: ignore[arg-type]
        await store.delete_queue("gone", "gone")
        await store.set_attribute("done", None, "user.journalfs.max-delivery-attempts", b"3")
        return {name: lines_in(store, name) for name in ("orders", "done")}

    left = write_in(url, work)  # type: ignore[arg-type]
    assert len(left["orders"]) == 483
    assert shown(url) == left
    # Another life goes on behind it, with ids of its own.
    write_in(url, lambda store: publish(store, "orders", None, "in.txt", b"later\n"))  # type: ignore[arg-type]
    again = shown(url)
    assert again["orders"][:-1] == left["orders"]
    assert again["orders"][-1]["body"] == "later"
    assert len({line["id"] for lines in again.values() for line in lines}) == 494


PAGED = """<configuration><core><store><database-store>
<jdbc-connection-url>jdbc:{url}</jdbc-connection-url>
<jdbc-max-page-size-bytes>4096</jdbc-max-page-size-bytes></database-store></store>
<address-settings><address-setting match="#"><max-size-bytes>20K</max-size-bytes>
<page-size-bytes>10K</page-size-bytes><address-full-policy>PAGE</address-full-policy>
</address-setting></address-settings></core></configuration>"""


@pytest.mark.rule("S-112", "S-222")
def test_pages_are_numbered_on_from_an_empty_one(url: str, tmp_path: Path) -> None:
    """What was consumed is known by the number of its page: that is never given again."""
    instance = instance_at(tmp_path / "instance", url)
    always = '<address-setting match="orders"><max-size-messages>0</max-size-messages></address-setting>'
    config = (instance / "broker.xml").read_text()
    config = config.replace("</core>", f"<address-settings>{always}</address-settings></core>")
    (instance / "broker.xml").write_text(config)
    write_in(instance, lambda store: make(store, "orders"))
    for number in range(3):

        async def come_and_go(store: WritingStore, number: int = number) -> None:
            await publish(store, "orders", None, "in.txt", b"%d\n" % number)
            (line,) = lines_in(store, "orders")
            assert line["body"] == str(number)
            assert await store.acknowledge(("orders", "orders"), [line["id"]]) == 1
            await store.published()

        write_in(instance, come_and_go)
        assert shown(instance)["orders"] == []
    (address,) = (one for one in open_store(instance).addresses() if one.name == "orders")
    assert address.status()["pages"] == 1


@pytest.mark.rule("S-222")
def test_pages_are_in_the_tables(url: str, tmp_path: Path) -> None:
    store_dir = tmp_path / "instance"
    store_dir.mkdir()
    (store_dir / "broker.xml").write_text(PAGED.format(url=re.sub(r"//root@", "//", url) + "?user=root"))
    if "mysql" not in url:
        (store_dir / "broker.xml").write_text(PAGED.format(url=url))

    async def publish_much(store: WritingStore) -> dict[str, list[dict[str, Any]]]:
        await make(store, "orders")
        for part in range(4):
            text = b"".join(b"%d %s\n" % (part, b"x" * 100) for _ in range(100))
            await publish(store, "orders", None, "in.txt", text)
        address = store.address("orders")
        assert address is not None
        assert address.status()["paging"]
        return {"orders": lines_in(store, "orders")}

    left = write_in(store_dir, publish_much)
    assert len(left["orders"]) == 400
    database = Database(settings_of(url))
    with database.reading("look at pages") as connection:
        (name,) = (
            one
            for one in inspect(connection).get_table_names()
            if one.startswith("page_store") and one != "page_store"
        )
        pages = database.page_table(name.removeprefix("page_store"))
        sizes = [
            database.content_bytes(connection, pages, row.id)
            for row in connection.execute(select(pages.c.id, pages.c.filename))
            if row.filename.endswith(".page")
        ]
    database.close()
    assert len(sizes) > 10
    assert max(size or 0 for size in sizes) < 5 * 1024, "jdbc-max-page-size-bytes counts"
    assert shown(store_dir) == left

    async def consume_most(store: WritingStore) -> dict[str, list[dict[str, Any]]]:
        ids = [line["id"] for line in lines_in(store, "orders")]
        await store.acknowledge(("orders", "orders"), ids[:350])
        await store.look()
        return {"orders": lines_in(store, "orders")}

    rest = write_in(store_dir, consume_most)
    assert len(rest["orders"]) == 50
    assert shown(store_dir) == rest


@pytest.mark.rule("S-222")
@pytest.mark.slow
def test_nothing_durable_is_missing_after_kills(url: str, tmp_path: Path) -> None:
    write_in(url, lambda store: make(store, "orders"))  # type: ignore[arg-type]
    told: list[str] = []
    for life in range(3):
        command = [sys.executable, "-m", "tests.tables.publisher", url, str(life)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ.copy())
        assert process.stdout is not None
        for line in process.stdout:
            told.append(line.strip())
            if line.strip().endswith(f" {20 + 7 * life}"):
                process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
    bodies = [line["body"] for line in shown(url)["orders"]]
    missing = [one for one in told if one not in bodies]
    assert not missing
    assert len(bodies) == len(set(bodies))
    # At most what was under way in each life was not told.
    assert len(bodies) - len(told) <= 3


FLUSHED = """
import os, signal, sys
from tests.broker.writing import write_in

async def work(store):
    publisher = store.publisher("orders", None, sys.argv[2])
    await publisher.write(b"whole\\n" + b"x" * int(sys.argv[3]))
    await publisher.flush()
    os.kill(os.getpid(), signal.SIGKILL)

write_in(sys.argv[1], work)
"""


@pytest.mark.rule("S-222")
@pytest.mark.parametrize(("name", "length", "lines"), [("in.txt", 5, 2), ("in.bin", 600_000, 1)])
def test_what_was_flushed_is_published_after_a_kill(url: str, name: str, length: int, lines: int) -> None:
    """An unfinished line, and a file that was not closed; once, and nothing is left of the note."""
    write_in(url, lambda store: make(store, "orders"))  # type: ignore[arg-type]
    killed = subprocess.run([sys.executable, "-c", FLUSHED, url, name, str(length)], check=False)
    assert killed.returncode == -signal.SIGKILL
    for _ in range(2):

        async def published(store: WritingStore) -> list[dict[str, Any]]:
            await store.publish_left()
            await store.look()
            return lines_in(store, "orders")

        found = write_in(url, published)  # type: ignore[arg-type]
        assert len(found) == lines
        assert shown(url)["orders"] == found
    database = Database(settings_of(url))
    with database.reading("count") as connection:
        assert connection.execute(database.tables.flushed.select()).all() == []
    database.close()


@pytest.mark.rule("S-224")
def test_a_restart_of_the_database_is_waited_for(
    empty_database: Callable[[str], str], postgres: Server
) -> None:
    url = empty_database("postgresql")

    async def work(store: WritingStore) -> None:
        await make(store, "orders")
        await publish(store, "orders", None, "in.txt", b"before\n")
        postgres.kill()
        postgres.restart()
        await publish(store, "orders", None, "in.txt", b"after\n")

    write_in(url, work)  # type: ignore[arg-type]
    assert [line["body"] for line in shown(url)["orders"]] == ["before", "after"]


@pytest.mark.rule("S-220")
def test_what_is_no_store_is_said(empty_database: Callable[[str], str], tmp_path: Path) -> None:
    with pytest.raises(NotAStore, match="no table messages in this database"):
        open_store(empty_database("postgresql"))
    with pytest.raises(NotAStore, match=r"no/such\.db: there is no such file"):
        open_store(f"sqlite:///{tmp_path}/no/such.db")
