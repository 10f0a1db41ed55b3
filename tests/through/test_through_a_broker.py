"""A mount for writing while the broker runs: what a shell does there, the broker has, and back."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

import journalfs as library
from scripts.documents.blocks import blocks
from tests.broker.client import CoreClient
from tests.broker.instance import Broker
from tests.broker.polling import eventually
from tests.broker.settings import BrokerSettings
from tests.mounting import JOURNALFS, MountedStore, journalfs, mounted_for_writing
from tests.through.cutting import CutWire
from tests.tidy.sources import ROOT

pytest.importorskip("proton")
pytestmark = [pytest.mark.mount, pytest.mark.broker, pytest.mark.slow, pytest.mark.long]


@pytest.fixture(scope="module")
def broker(artemis_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("through") / "broker", settings=BrokerSettings()) as running:
        yield running


@pytest.fixture(scope="module")
def client(broker: Broker) -> Iterator[CoreClient]:
    with CoreClient(broker.port) as connected:
        yield connected


def url(broker: Broker) -> str:
    return f"amqp://127.0.0.1:{broker.port}"


@pytest.fixture(scope="module")
def mount(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MountedStore]:
    with mounted_for_writing(
        broker.root, tmp_path_factory.mktemp("through-mount") / "mnt", "--through", url(broker)
    ) as mounted:
        yield mounted


@pytest.fixture
def queue(mount: MountedStore, request: pytest.FixtureRequest) -> Path:
    """A new one, made by mkdir: the broker has it when mkdir returns."""
    name = str(request.node.name).partition("[")[0]
    path: Path = mount.path / name / name
    path.parent.mkdir()
    path.mkdir()
    return path


def ids(client: CoreClient, queue: Path) -> list[int]:
    return [message["id"] for message in client.browse(queue.name)]


def bodies(queue: Path) -> list[object]:
    return [json.loads(line).get("body") for line in (queue / ".all.jsonl").read_text().splitlines()]


@pytest.mark.rule("S-385")
def test_what_is_written_is_with_the_broker_when_the_write_returns(queue: Path, client: CoreClient) -> None:
    with (queue / "in.txt").open("a", buffering=1) as lines:
        for number in range(3):
            lines.write(f"line {number}\n")
            assert len(ids(client, queue)) == number + 1
    assert bodies(queue) == ["line 0", "line 1", "line 2"], "and this mount shows it at once"


@pytest.mark.rule("S-385")
def test_a_staged_directory_is_one_transaction_of_the_broker(
    queue: Path, client: CoreClient, tmp_path: Path
) -> None:
    staged = queue / "_staged"
    staged.mkdir()
    for number in range(5):
        (staged / f"{number}.jsonl").write_text(f'{{"body":"m{number}","properties":{{"n":{number}}}}}\n')
    assert ids(client, queue) == []
    (queue / "_staged").rename(queue / "staged")
    assert len(ids(client, queue)) == 5
    bad = queue / "_bad"
    bad.mkdir()
    (bad / "1.jsonl").write_text('{"body":"good"}\n')
    (bad / "2.jsonl").write_text('{"body":"bad","nonsense":1}\n')
    with pytest.raises(OSError, match=r".*"):
        bad.rename(queue / "bad")
    assert len(ids(client, queue)) == 5, "all or nothing"


@pytest.mark.rule("S-386")
def test_what_is_removed_and_moved_is_by_the_broker(
    queue: Path, mount: MountedStore, client: CoreClient
) -> None:
    (queue / "in.txt").write_text("".join(f"{number}\n" for number in range(10)))
    target = mount.path / "moved-to" / "moved-to"
    target.parent.mkdir()
    target.mkdir()
    messages = sorted(os.listdir(queue / ".messages"), key=lambda name: int(name.partition(".")[0]))
    (queue / ".messages" / messages[0]).unlink()
    (queue / ".messages" / messages[1]).rename(target / messages[1])
    assert len(ids(client, queue)) == 8
    assert len(ids(client, target)) == 1
    assert bodies(target) == ["1"]
    (queue / ".all.jsonl").unlink()
    assert ids(client, queue) == []
    (target / ".all.jsonl").unlink()
    target.rmdir()
    target.parent.rmdir()
    assert not target.parent.exists()


@pytest.mark.rule("S-385")
def test_many_at_once(queue: Path, client: CoreClient) -> None:
    """Writers, removers and askers share one connection, and each gets its own answers."""
    (queue / "in.txt").write_text("".join(f"{number}\n" for number in range(40)))
    names = os.listdir(queue / ".messages")

    def remove(name: str) -> None:
        (queue / ".messages" / name).unlink()

    def write(number: int) -> None:
        (queue / f"{number}.txt").write_text(f"new {number}\n")

    with ThreadPoolExecutor(8) as pool:
        done = [*pool.map(remove, names), *pool.map(write, range(40))]
    assert len(done) == 80
    assert len(ids(client, queue)) == 40
    assert sorted(map(str, bodies(queue))) == sorted(f"new {number}" for number in range(40))


@pytest.mark.rule("S-386")
def test_what_a_consumer_holds_stays(queue: Path, broker: Broker) -> None:
    (queue / "in.txt").write_text("one\n")
    name = f"{queue.name}::{queue.name}"
    with (
        library.open(broker.root, through=url(broker)) as store,
        store[name].take(timeout=10) as held,
    ):
        assert held.body == "one"
        with pytest.raises(OSError, match="busy") as refused:
            (queue / ".all.jsonl").unlink()
        assert refused.value.errno == 16
    eventually(lambda: bodies(queue) == [], deadline_s=20, what="it is acknowledged")


@pytest.mark.rule("S-387")
def test_takers_compete_with_the_brokers_clients(queue: Path, client: CoreClient) -> None:
    (queue / "in.txt").write_text("a\nb\nc\n")
    done = subprocess.run(
        ["head", "-n1", str(queue / ".take")], capture_output=True, check=True, text=True, timeout=60
    )
    assert json.loads(done.stdout)["body"] == "a"
    assert len(ids(client, queue)) == 2


@pytest.mark.rule("S-387")
def test_python_workers_give_back_what_raises(queue: Path, broker: Broker, client: CoreClient) -> None:
    (queue / "in.txt").write_text("a\nb\n")
    with library.open(broker.root, through=url(broker)) as store:
        one = store[f"{queue.name}::{queue.name}"]
        with pytest.raises(KeyError), one.take(timeout=10):
            raise KeyError("the worker fails")
        assert len(ids(client, queue)) == 2
        with suppress(KeyError), store.transaction():
            one.publish("never")
            raise KeyError("nothing of it happens")
        with store.transaction():
            one.publish("c", properties={"n": 1})
            with one.take(timeout=10) as taken:
                assert taken.body == "a"
        assert len(ids(client, queue)) == 2
        with pytest.raises(library.NoMessage), one.where("n = 2").take(timeout=0):
            pass
        assert one.where("n = 1").remove() == 1
    assert len(ids(client, queue)) == 1


@pytest.mark.rule("S-385")
def test_commands(queue: Path, broker: Broker, client: CoreClient, tmp_path: Path) -> None:
    name = f"{queue.name}::{queue.name}"
    file = tmp_path / "new.jsonl"
    file.write_text('{"body":"one"}\n{"body":"two"}\n')
    done = journalfs("put", broker.root, name, file, "--through", url(broker))
    assert (done.returncode, done.stderr) == (0, "")
    assert len(ids(client, queue)) == 2
    done = journalfs("take", broker.root, name, "--max", "1", "--through", url(broker))
    assert done.returncode == 0
    assert json.loads(done.stdout)["body"] == "one"
    assert len(ids(client, queue)) == 1


@pytest.mark.rule("S-383")
def test_another_brokers_store_is_refused(broker: Broker, tmp_path: Path) -> None:
    assert journalfs("create", tmp_path / "data").returncode == 0
    (tmp_path / "mnt").mkdir()
    done = journalfs("mount", tmp_path / "data", tmp_path / "mnt", "--through", url(broker))
    assert done.returncode == 7
    assert "is the broker of another store" in done.stderr
    assert not os.path.ismount(tmp_path / "mnt")


@pytest.mark.rule("S-386")
def test_what_a_broker_cannot_do_whole_is_refused_with_a_reason(queue: Path, mount: MountedStore) -> None:
    (queue / "in.txt").write_text("one\n")
    for change in (
        lambda: (queue / ".settings").write_text("max-delivery-attempts = 3\n"),
        (mount.path / ".journalfs/snapshots/now").mkdir,
        lambda: os.setxattr(queue / ".all.jsonl", "user.journalfs.deliveryCount", b"1"),
    ):
        with pytest.raises(OSError, match=r".*"):
            change()
    refused = [one["message"] for one in mount.events() if one["event"] == "refused"]
    assert any("stop the broker and mount the store for writing" in one for one in refused), refused
    os.setxattr(queue, "user.journalfs.paused", b"1")
    os.setxattr(queue, "user.journalfs.paused", b"0")


@pytest.mark.rule("S-384")
def test_a_wire_that_is_cut_loses_and_doubles_nothing(
    broker: Broker, client: CoreClient, tmp_path: Path
) -> None:
    """Each write is one transaction of three messages. Cut at any moment, also while the broker commits."""
    client.create_queue("cut")
    cuts = random.Random(7)
    with CutWire(broker.port) as wire:
        through = f"amqp://127.0.0.1:{wire.port}"
        with mounted_for_writing(broker.root, tmp_path / "mnt", "--through", through) as mount:
            place = mount.path / "cut" / "cut"
            ends = threading.Event()

            def cut() -> None:
                while not ends.wait(cuts.uniform(0.0, 0.4)):
                    wire.cut()

            cutter = threading.Thread(target=cut)
            cutter.start()
            try:
                with (place / "in.txt").open("ab", buffering=0) as lines:
                    for number in range(60):
                        lines.write(b"".join(b"%d.%d\n" % (number, part) for part in range(3)))
            finally:
                ends.set()
                cutter.join()
            assert wire.cuts > 10
            assert bodies(place) == [f"{number}.{part}" for number in range(60) for part in range(3)]
            for path in list((place / ".messages").iterdir())[:30]:
                wire.cut()
                path.unlink()
            assert len(ids(client, place)) == 150


def test_the_recipe_is_typed_as_it_stands(broker: Broker, client: CoreClient, tmp_path: Path) -> None:
    """docs/recipes/production.md, in one shell: its commands go on from where the last one was."""
    client.create_queue("orders")
    for number in range(6):
        client.send("orders", body=f"order {number}", properties={"region": "EX" if number % 3 else "EU"})
    page = ROOT / "docs/recipes/production.md"
    typed = "".join(block.text for block in blocks(page) if block.kind == "sh")
    places = {
        "/var/lib/artemis/instance": broker.root,
        "/mnt/live": tmp_path / "live",
        "/tmp/mended": tmp_path / "mended",
        "amqp://127.0.0.1:61616": url(broker),
    }
    for written, place in places.items():
        assert written in typed
        typed = typed.replace(written, str(place))
    (tmp_path / "live").mkdir()
    environment = {**os.environ, "PATH": f"{JOURNALFS.parent}:{os.environ['PATH']}"}
    try:
        done = subprocess.run(
            ["bash", "-eu", "-o", "pipefail", "-c", typed],
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.split("\n")[0] == "4"
    finally:
        journalfs("umount", tmp_path / "live")
    assert client.message_count("orders.wrong") == 0
    with library.open(broker.root) as store:
        found = [(str(one.body), one.properties["region"]) for one in store["orders::orders"]]
    assert sorted(found) == [(f"order {number}", "EU") for number in range(6)]


@pytest.mark.rule("S-384")
def test_a_killed_broker_loses_and_doubles_nothing(artemis_home: Path, tmp_path: Path) -> None:
    """A writer goes on over three kills; what was answered is there once, and nothing else but, perhaps, what
    was being written when an answer was lost.
    """
    broker = Broker(tmp_path / "broker", settings=BrokerSettings())
    with broker:
        port = broker.port
        with mounted_for_writing(broker.root, tmp_path / "mnt", "--through", url(broker)) as mount:
            place = mount.path / "ledger" / "ledger"
            place.parent.mkdir()
            place.mkdir()
            answered: list[str] = []
            failed: list[str] = []
            ends = threading.Event()

            def write() -> None:
                number = 0
                with (place / "in.txt").open("ab", buffering=0) as lines:
                    while not ends.is_set():
                        text = f"line {number}"
                        number += 1
                        try:
                            lines.write(text.encode() + b"\n")
                            answered.append(text)
                        except OSError:
                            failed.append(text)

            writer = threading.Thread(target=write)
            writer.start()
            try:
                for _ in range(3):
                    before = len(answered)
                    eventually(lambda: len(answered) > before + 50, deadline_s=120, what="lines are written")  # noqa: B023
                    broker.kill()
                    broker.start(port)
                before = len(answered)
                eventually(lambda: len(answered) > before, deadline_s=120, what="it goes on")
            finally:
                ends.set()
                writer.join()
            eventually(lambda: len(bodies(place)) >= len(answered), deadline_s=60, what="all is shown")
            shown = bodies(place)
            assert [one for one in shown if one not in set(failed)] == answered
            assert len(shown) == len(set(map(str, shown)))
        shutil.rmtree(tmp_path / "mnt", ignore_errors=True)
