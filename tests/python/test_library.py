"""`import journalfs`: the same with a store of this process and with the files of a mount."""

from __future__ import annotations

import doctest
import importlib
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import journalfs
from journalfs.errors import HeldByReaders, NamesUnset, NoSuchName, NotAStore, SelectorError, WrongCall
from journalfs.python.outgoing import duration_s
from tests.mounting import COMMAND_S_MAX, JOURNALFS, mounted_for_writing
from tests.mounting import journalfs as command

ROOT = Path(__file__).parents[2]


@pytest.fixture
def store_path(tmp_path: Path) -> Path:
    assert command("create", "--journal-type", "NIO", tmp_path / "store").returncode == 0
    return tmp_path / "store"


@pytest.fixture(params=["own", "mount", "store of a mount"])
def store(request: pytest.FixtureRequest, store_path: Path, tmp_path: Path) -> Iterator[journalfs.Store]:
    """A store that is open for writing: by this process; by a mount that is named; by one that is found."""
    if request.param == "own":
        with journalfs.open(store_path, write=True) as found:
            yield found
        return
    with mounted_for_writing(store_path, tmp_path / "mnt") as mount:
        path = mount.path if request.param == "mount" else store_path
        with journalfs.open(path, write=True) as found:
            yield found


def bodies(queue: journalfs.Queue) -> list[object]:
    return [message.body for message in queue]


@pytest.mark.rule("S-375")
def test_what_is_published_is_read_back(store: journalfs.Store) -> None:
    queue = store.create("orders::billing")
    before = datetime.now(UTC) - timedelta(seconds=60)
    given: list[object] = [
        "text",
        "zwölf €",
        "",
        b"\0bytes",
        {"a": 1, "b": b"x", "c": None},
        [1.5, "x", True],
        "[1]",
    ]
    for body in given:
        store["orders"].publish(body)  # type: ignore[arg-type]
    assert bodies(queue) == given
    properties = {"region": "EU", "raw": b"\1", "total": 1.5, "whole": 7, "yes": True, "none": None}
    queue.publish(
        "all",
        priority=9,
        properties=properties,
        duplicate_id="o-17",
        group_id="g",
        durable=True,
        expires="1h",
        user_id="6f1c2a7e-4f00-11ee-b962-0242ac120002",
    )
    (message,) = queue.where("region = 'EU'")
    assert {name: message.properties[name] for name in properties} == properties
    assert (message.priority, message.duplicate_id, message.group_id, message.type) == (
        9,
        "o-17",
        "g",
        "text",
    )
    assert message.timestamp is not None
    assert message.expiration is not None
    assert before < message.timestamp < message.expiration
    assert (message.queue, message.address, message.protocol, message.durable) == (
        "billing",
        "orders",
        "CORE",
        True,
    )
    assert message.user_id == "6f1c2a7e-4f00-11ee-b962-0242ac120002"
    assert repr(message).startswith(f"<Message {message.id} in orders::billing, text, priority 9, 20")
    assert "\n" not in repr(message)
    assert queue.where("whole = 7").where("region = 'EU'").lines().__next__() == message.line
    assert json.loads(message.line)["body"] == "all"
    assert (len(queue), len(queue.where("whole = 8"))) == (8, 0)


@pytest.mark.rule("S-375")
def test_a_message_is_copied_as_it_is(store: journalfs.Store) -> None:
    queue, other = store.create("a::q"), store.create("b::q2")
    queue.publish("x", priority=7, properties={"n": 1})
    (message,) = queue
    other.publish(message)
    other.publish(message, priority=1)
    copy, changed = other
    assert (copy.body, copy.priority, copy.properties["n"], copy.timestamp) == ("x", 7, 1, message.timestamp)
    assert (changed.priority, changed.properties["n"]) == (1, 1)


@pytest.mark.rule("S-376")
def test_taking_acknowledges_at_the_end_of_the_block(store: journalfs.Store) -> None:
    queue = store.create("jobs::jobs")
    queue.publish("one")
    queue.publish("two")
    with pytest.raises(ZeroDivisionError), queue.take(timeout=5) as message:
        print(len(message.body) // 0)
    assert [(one.body, one.delivery_count) for one in sorted(queue, key=lambda one: one.id or 0)] == [
        ("one", 1), ("two", 0),
    ]  # fmt: skip
    with store["jobs"].take(timeout=5) as message:
        assert (message.body, message.delivery_count) == ("one", 1)
        with queue.take(timeout=0) as second:
            assert second.body == "two"
        with pytest.raises(journalfs.NoMessage) as refused, queue.take(timeout="50ms"):
            pass
    assert (refused.value.errno, refused.value.remedy) == (11, "timeout=None waits for ever")
    assert len(queue) == 0
    for number in (1, 2):
        queue.publish(f"n {number}", properties={"n": number})
    with queue.where("n > 1").take(timeout=0) as chosen:
        assert chosen.properties["n"] == 2
    assert bodies(queue) == ["n 1"]


@pytest.mark.rule("S-377")
def test_a_transaction_is_all_or_nothing(store: journalfs.Store) -> None:
    jobs, done = store.create("jobs::jobs"), store.create("done::done")
    jobs.publish("one")
    jobs.publish("two")

    def fails() -> None:
        with store.transaction():
            done.publish("never")
            with jobs.take(timeout=5) as message:
                assert message.body == "one"
            print(1 // 0)

    with pytest.raises(ZeroDivisionError):
        fails()
    assert (bodies(jobs), bodies(done)) in ((["one", "two"], []), (["two", "one"], []))
    with store.transaction():
        with jobs.take(timeout=5) as message:
            done.publish(f"{message.body} is done")
        done.publish("more")
        store["jobs"].publish("three")
        assert bodies(done) == []
        with pytest.raises(WrongCall, match="one ends before the next begins"), store.transaction():
            pass
        with pytest.raises(WrongCall, match="no part of a transaction"):
            done.remove()
    assert bodies(done) == [f"{message.body} is done", "more"]
    assert len(jobs) == 2
    with store.transaction(), pytest.raises(ZeroDivisionError), jobs.take(timeout=0):
        print(1 // 0)
    assert len(jobs) == 2, "it was given back, and the transaction goes on"


@pytest.mark.rule("S-378")
def test_removing_moving_and_undoing(store: journalfs.Store) -> None:
    queue, other = store.create("a::q"), store.create("b::q2")
    for number in range(6):
        queue.publish(f"text {number}", properties={"n": number})
    assert queue.where("n < 2").remove() == 2
    assert queue.where("n >= 4").move("b") == 2
    assert (bodies(queue), bodies(other)) == (["text 2", "text 3"], ["text 4", "text 5"])
    assert store["b"].remove() == 2
    assert store.undo()["b::q2"] == 2, "in a mount, what this process removed"
    store.undo(since="1h")
    assert sorted(map(str, bodies(queue)))[:2] == ["text 0", "text 1"]
    with pytest.raises((NamesUnset, WrongCall), match="text stands in single quotes"):
        queue.where('region = "EU"').remove()
    assert queue.where("n = 99").remove() == 0


@pytest.mark.rule("S-375")
def test_following_takes_nothing(store: journalfs.Store) -> None:
    queue = store.create("a::q")
    queue.publish("before")
    following, chosen = queue.follow(timeout="1s"), queue.where("n = 1").follow(timeout="1s")
    queue.publish("one", properties={"n": 1})
    queue.publish("two")
    assert [message.body for message in following] == ["one", "two"]
    assert [message.body for message in chosen] == ["one"]
    assert len(queue) == 3


@pytest.mark.rule("S-379")
def test_snapshots_are_stores(store: journalfs.Store) -> None:
    queue = store.create("a::q")
    queue.publish("one")
    kept = store.snapshot("monday")
    queue.remove()
    assert (bodies(kept["a::q"]), bodies(queue), store.snapshots()) == (["one"], [], ["monday"])
    with pytest.raises(journalfs.ReadOnlyStore):
        kept["a"].publish("x")
    with pytest.raises(NoSuchName):
        store.at_snapshot("tuesday")
    store.drop_snapshot("monday")
    assert store.snapshots() == []
    with pytest.raises(NoSuchName, match="journal-retention-directory"):
        store.history(since="-1h")


@pytest.mark.rule("S-375")
def test_names(store: journalfs.Store) -> None:
    store.create("orders::billing")
    store.create("orders::shipping")
    odd = store.create("a/b.c%::_q")
    odd.publish("x")
    assert bodies(store["a/b.c%"]) == ["x"]
    assert "orders::billing" in store
    assert "orders" in store
    assert "orders::nope" not in store
    assert {"orders::billing", "orders::shipping", "a/b.c%::_q"} <= {queue.name for queue in store}
    store["orders"].publish("both")
    assert len(store["orders"]) == 2
    assert store["orders::billing"].status()["messageCount"] == 1
    for refused in (lambda: len(store["order::billing"]), lambda: store["orders::nope"].publish("x")):
        with pytest.raises(NoSuchName):
            refused()
    with pytest.raises(WrongCall, match="2 queues"), store["orders"].take(timeout=0):
        pass
    with pytest.raises(SelectorError):
        list(store["orders"].where("no selector at all"))
    for wrong in ({1, 2}, 3, {"a": {"b": 1}}):
        with pytest.raises(WrongCall):
            store["orders"].publish(wrong)  # type: ignore[arg-type]


def test_a_store_that_is_read(store_path: Path, tmp_path: Path) -> None:
    with journalfs.open(store_path, write=True) as store:
        store.create("a::q").publish("one")
        with pytest.raises(journalfs.StoreBusy) as busy:
            journalfs.open(store_path, write=True).queues()
        assert busy.value.remedy
        with journalfs.open(store_path) as beside:
            assert bodies(beside["a::q"]) == ["one"]
            store["a::q"].publish("two")
            end = time.monotonic() + 10
            while len(beside["a::q"]) < 2:
                assert time.monotonic() < end, "what the writer publishes is seen"
            assert bodies(beside["a::q"]) == ["one", "two"]
            with pytest.raises(journalfs.ReadOnlyStore, match="write=True"):
                beside["a"].publish("x")
            assert beside.check().totals.live >= 2
        with pytest.raises(WrongCall, match="closed"):
            len(beside["a::q"])
    assert command("backup", "make", store_path, tmp_path / "backups").returncode == 0
    with journalfs.open(tmp_path / "backups") as kept:
        assert bodies(kept["a::q"]) == ["one", "two"]
    for wrong in (tmp_path / "nothing", tmp_path):
        with pytest.raises(NotAStore):
            journalfs.open(wrong).queues()


def test_a_database(tmp_path: Path) -> None:
    pytest.importorskip("sqlalchemy")
    url = f"sqlite:///{tmp_path}/orders.db"
    assert command("create", url).returncode == 0
    with journalfs.open(url, write=True) as store:
        store.create("a::q").publish("one")
        with store["a"].take(timeout=0) as message:
            assert message.body == "one"
        store["a"].publish("two")
    with journalfs.open(url) as store:
        assert bodies(store["a::q"]) == ["two"]


@pytest.mark.rule("S-375")
def test_threads_share_a_store(store: journalfs.Store) -> None:
    queue = store.create("a::q")
    taken: list[object] = []

    def publish(name: int) -> None:
        for number in range(5):
            queue.publish(f"{name} {number}")

    def take() -> None:
        for _ in range(5):
            with queue.take(timeout=30) as message:
                taken.append(message.body)

    threads = [threading.Thread(target=publish, args=(name,)) for name in range(4)]
    threads += [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(map(str, taken)) == sorted(f"{name} {number}" for name in range(4) for number in range(5))
    assert len(queue) == 0


def test_a_block_that_is_interrupted_takes_nothing(store_path: Path) -> None:
    program = """if True:
        import journalfs, os, sys, threading
        with journalfs.open(sys.argv[1], write=True) as store:
            queue = store.create("a::q")
            threading.Timer(0.5, lambda: os.kill(os.getpid(), 2)).start()
            try:
                with queue.take(): pass
            except KeyboardInterrupt:
                queue.publish("after")
                print(len(queue), flush=True)
    """
    with subprocess.Popen(
        [sys.executable, "-c", program, store_path], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "1\n"
        assert process.wait(COMMAND_S_MAX) == 0


def test_the_example_runs(store_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.python.example", store_path],
        capture_output=True, text=True, check=True, timeout=COMMAND_S_MAX, cwd=ROOT,
    )  # fmt: skip
    assert done.stdout == "{'EU': 500.0} True [{'resize': '4711.png'}]\n"


@pytest.mark.long
def test_the_example_is_typed(tmp_path: Path) -> None:
    """As in a project of its own: what it imports is `py.typed`, and its own errors are not the user's, as
    those of an installed package are not.
    """
    (tmp_path / "example.py").write_text((ROOT / "tests/python/example.py").read_text())
    done = subprocess.run(
        [
            sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent",
            "--cache-dir", tmp_path / "cache", "example.py",
        ],
        capture_output=True, text=True, check=False, cwd=tmp_path,
        env={**os.environ, "MYPYPATH": f"{ROOT}:{ROOT / 'mount'}"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert (ROOT / "journalfs/py.typed").exists()


@pytest.mark.parametrize("name", ["message", "outgoing", "names"])
def test_doctests(name: str) -> None:
    found = doctest.testmod(importlib.import_module(f"journalfs.python.{name}"))
    assert found.attempted
    assert not found.failed


def test_the_package_is_imported_lazily() -> None:
    program = "import journalfs, sys; print(len([m for m in sys.modules if m.startswith('journalfs')]))"
    assert subprocess.check_output([sys.executable, "-c", program]) == b"1\n"
    assert journalfs.__version__
    assert {"open", "Store", "Message", "__version__"} <= set(dir(journalfs))
    with pytest.raises(AttributeError):
        print(getattr(journalfs, "nothing"))  # noqa: B009 - no type checker lets it pass
    done = subprocess.run([sys.executable, "-m", "journalfs", "--version"], capture_output=True, check=True)
    assert done.stdout == subprocess.check_output([JOURNALFS, "--version"])


def test_durations() -> None:
    assert duration_s("x", timedelta(minutes=1)) == 60
    for wrong in ("1 h", "", "h", "-1s", True):
        with pytest.raises(WrongCall):
            duration_s("x", wrong)


def test_errors_are_typed() -> None:
    assert issubclass(journalfs.NoMessage, journalfs.JournalfsError)
    assert issubclass(HeldByReaders, journalfs.JournalfsError)


def test_the_page(store_path: Path, tmp_path: Path) -> None:
    """Every program of docs/use/python.md runs, one after the other."""
    page = (ROOT / "docs/use/python.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    program = "\n".join(blocks).replace("/var/lib/orders", str(store_path))
    (tmp_path / "page.py").write_text(program)
    done = subprocess.run(
        [sys.executable, tmp_path / "page.py"], capture_output=True, text=True, check=False,
        timeout=COMMAND_S_MAX,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    assert said[0].endswith(" seven EU")
    assert "handled resize 4711.png" in said
    assert "2 removed" in said
    assert "[('billing', 2)]" in said
    assert said[-1].startswith("read-only-store 30 - journalfs.open(..., write=True)")
