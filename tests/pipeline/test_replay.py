"""A replay publishes each archived message once, as it was, however often it is ended and called again."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from pyspark.sql import SparkSession

from journalfs.errors import NoRoute, NoSuchName, StoreBusy, SystemFailure, WrongCall
from journalfs.pipeline.archive import archive
from journalfs.pipeline.folders import LocalFolder
from journalfs.pipeline.messages import Source
from journalfs.pipeline.replay import Replayed, Target, replay, usual_name, with_duplicate_id
from journalfs.pipeline.session import in_one_line
from journalfs.store.write.opening import open_for_writing
from journalfs.store.write.store import WritingStore
from tests.cli.running import journalfs, objects
from tests.frozen import PristineStores
from tests.mounting import mounted_for_writing
from tests.pipeline.crashing import CrashingFolder, Killed
from tests.pipeline.stores import store_with
from tests.spark.rows import lines_of
from tests.spark.writing import change, publish, written_store

CHANCE = "reflect('java.lang.Math', 'random') < '0.5'"
"""Other rows each time: of `rand()` Spark fixes what it begins with."""
OF_THE_PLACE = ("queue", "address", "id", "duplicateId", "duplicateId_base64")


def archive_of(spark: SparkSession, path: Path, bodies: int) -> LocalFolder:
    store = written_store(path, {"a": [{"body": str(number)} for number in range(bodies)]})
    folder = LocalFolder(path / "archive")
    archive(spark, Source(str(store)), folder)
    return folder


def bodies(store: Path) -> list[str]:
    return [line["body"] for line, _ in lines_of(store)]


def without_ids(line: Mapping[str, Any]) -> str:
    """All that a message says but where it is and its duplicate id."""
    kept = {key: value for key, value in line.items() if key not in OF_THE_PLACE}
    kept["properties"] = {k: v for k, v in line.get("properties", {}).items() if k != "_AMQ_DUPL_ID"}
    types = {k: v for k, v in line.get("propertyTypes", {}).items() if k != "_AMQ_DUPL_ID"}
    kept |= {"propertyTypes": types, "durable": True}
    kept.pop("extraProperties", None)
    if "amqp" in kept:
        amqp = dict(kept["amqp"])
        pairs = [one for one in amqp.get("applicationProperties", []) if one[0]["v"] != "_AMQ_DUPL_ID"]
        kept["amqp"] = {**amqp, "applicationProperties": pairs, "header": None}
    return json.dumps(kept, sort_keys=True)


@pytest.mark.parametrize("name", ["amqp-exotic", pytest.param("orders-basic", marks=pytest.mark.long)])
def test_messages_come_back_as_they_were(
    spark: SparkSession, stores: PristineStores, tmp_path: Path, name: str
) -> None:
    folder = LocalFolder(tmp_path / "archive")
    archive(spark, Source(str(stores[name])), folder)
    store = store_with(tmp_path / "store", id_cache_size=20_000)
    target = Target(str(store), "to::to")
    only = "expiration is null and scheduledTime is null"
    replayed = replay(spark, folder, LocalFolder(tmp_path / "notes"), target, name="n", only=only)
    wanted = [
        line
        for line, _ in lines_of(stores[name])
        if "expiration" not in line and "scheduledTime" not in line and "damage" not in line
    ]
    found = [line for line, _ in lines_of(store)]
    assert replayed.published == len(found) > 20
    assert Counter(map(without_ids, found)) == Counter(map(without_ids, wanted))
    assert all("_AMQ_DUPL_ID" in line["properties"] for line in found)


def test_calling_it_again_publishes_nothing_twice(spark: SparkSession, tmp_path: Path) -> None:
    folder = archive_of(spark, tmp_path, 7)
    store = store_with(tmp_path / "to", id_cache_size=2)
    notes, target, seen = LocalFolder(tmp_path / "notes"), Target(str(store), "to"), list[int]()
    first = replay(spark, folder, notes, target, name="n", only="body < '5'", progress=seen.append)
    assert first == Replayed(published=5, before=0, damaged=0)
    assert seen == [2, 4, 5]
    assert bodies(store) == ["0", "1", "2", "3", "4"]
    # The address remembers two ids: it is the notes that know the others.
    assert replay(spark, folder, notes, target, name="n") == Replayed(2, 5, 0)
    assert replay(spark, folder, notes, target, name="n") == Replayed(0, 7, 0)
    assert bodies(store) == ["0", "1", "2", "3", "4", "5", "6"]
    assert replay(spark, folder, LocalFolder(tmp_path / "more"), target, name="other").published == 7
    assert Counter(bodies(store)) == Counter("01234560123456")


@pytest.mark.parametrize("stride", [4, pytest.param(1, marks=pytest.mark.long)])
def test_a_replay_that_ends_anywhere_and_is_repeated_publishes_once(
    spark: SparkSession, tmp_path: Path, stride: int
) -> None:
    folder = archive_of(spark, tmp_path, 3)
    at, ended = 0, True
    while ended:
        path, ended = tmp_path / str(at), False
        target = Target(str(store_with(path, id_cache_size=2)), "to")
        try:
            replay(spark, folder, CrashingFolder(path / "notes", at), target, name="n")
        except Killed:
            ended = True
        replay(spark, folder, LocalFolder(path / "notes"), target, name="n")
        assert bodies(path) == ["0", "1", "2"]
        at += stride
    assert at > 6


@pytest.mark.long
def test_of_a_batch_that_a_busy_store_refused_nothing_is_left(spark: SparkSession, tmp_path: Path) -> None:
    folder = archive_of(spark, tmp_path, 3)
    store = store_with(tmp_path / "to", id_cache_size=2)
    publish(store, "to", [{"body": "x", "duplicateId": "x"}, {"body": "y", "duplicateId": "y"}])
    notes, target = LocalFolder(tmp_path / "notes"), Target(str(store), "to")

    async def hold() -> None:
        opened = open_for_writing(store)
        try:
            with pytest.raises(StoreBusy), in_one_line():
                await trio.to_thread.run_sync(
                    lambda: replay(spark, folder, notes, target, name="n"), abandon_on_cancel=False
                )
        finally:
            opened.close()

    trio.run(hold)
    assert notes.names() == ["target.json"]
    # Not even what the store would have forgotten meanwhile makes it doubtful.
    publish(store, "to", [{"body": "z", "duplicateId": "z"}, {"body": "w", "duplicateId": "w"}])
    assert replay(spark, folder, notes, target, name="n") == Replayed(3, 0, 0)
    assert bodies(store) == ["x", "y", "z", "w", "0", "1", "2"]


@pytest.mark.parametrize(
    ("to", "kind", "said"),
    [
        ("x::y", NoSuchName, "no queue 'x::y'"),
        ('["x::y,z"]', NoSuchName, "no queue 'x::y,z'"),
        ("bare", NoRoute, "no queue is bound"),
    ],
)
def test_where_no_queue_takes_them_nothing_is_noted(
    spark: SparkSession, tmp_path: Path, to: str, kind: type[Exception], said: str
) -> None:
    store = written_store(tmp_path, {"a": [{"body": "1"}]})
    folder, notes = LocalFolder(tmp_path / "archive"), LocalFolder(tmp_path / "notes")
    archive(spark, Source(str(store)), folder)
    change(store, lambda opened: opened.create_address("bare"))
    with pytest.raises(kind, match=said):
        replay(spark, folder, notes, Target(str(store), to), name="n")
    assert notes.names() == []


async def set_kind(opened: WritingStore, *, kind: bytes) -> None:
    await opened.set_attribute("to", "to", "user.journalfs.routing-type", kind)


@pytest.mark.parametrize("in_mount", [False, pytest.param(True, marks=pytest.mark.long)])
def test_a_batch_of_a_routing_type_that_no_queue_has_is_not_noted(
    spark: SparkSession, tmp_path: Path, in_mount: bool
) -> None:
    """Nor does it become doubtful later, however much the address forgets."""
    stated = {"body": "1", "properties": {"_AMQ_ROUTING_TYPE": 1}}
    source = written_store(tmp_path, {"a": [{"body": "0"}, stated]})
    folder, notes = LocalFolder(tmp_path / "archive"), LocalFolder(tmp_path / "notes")
    archive(spark, Source(str(source)), folder)
    store = store_with(tmp_path / "to", id_cache_size=2)
    change(store, partial(set_kind, kind=b"MULTICAST"))
    publish(store, "to", [{"body": "x", "duplicateId": "x"}, {"body": "y", "duplicateId": "y"}])
    with ExitStack() as stack:
        place = stack.enter_context(mounted_for_writing(store, tmp_path / "mnt")).path if in_mount else store
        with pytest.raises(NoRoute, match=r"states routing type ANYCAST \(1\), and all queues") as caught:
            replay(spark, folder, notes, Target(str(place), "to"), name="n")
    assert "\n" not in str(caught.value)
    assert notes.names() == ["target.json"]
    assert bodies(store) == ["x", "y"]
    publish(store, "to", [{"body": "z", "duplicateId": "z"}, {"body": "w", "duplicateId": "w"}])
    change(store, partial(set_kind, kind=b"ANYCAST"))
    assert replay(spark, folder, notes, Target(str(store), "to"), name="n") == Replayed(2, 0, 0)
    assert bodies(store) == ["x", "y", "z", "w", "0", "1"]


class CutOffFolder(LocalFolder):
    """Ends the run when a batch is noted and not published yet."""

    def commit(self, name: str, final: str) -> None:
        super().commit(name, final)
        if final.startswith("pending-"):
            raise Killed


@pytest.mark.parametrize("only", [pytest.param(None, marks=pytest.mark.long), "body = '4'"])
def test_a_batch_that_never_came_is_published_later(
    spark: SparkSession, tmp_path: Path, only: str | None
) -> None:
    """Whatever rows the next call is about."""
    folder = archive_of(spark, tmp_path, 5)
    store = store_with(tmp_path / "to", id_cache_size=2)
    publish(store, "to", [{"body": "x", "duplicateId": "x"}, {"body": "y", "duplicateId": "y"}])
    notes, target = LocalFolder(tmp_path / "notes"), Target(str(store), "to")
    with pytest.raises(Killed):
        replay(spark, folder, CutOffFolder(notes.path), target, name="n")
    replayed = replay(spark, folder, notes, target, name="n", only=only)
    assert replayed == Replayed(3 if only else 5, 0, 0)
    assert bodies(store) == ["x", "y", *("014" if only else "01234")]
    assert not [name for name in notes.names() if "pending" in name]


def test_the_command_publishes_through_a_mount(spark: SparkSession, tmp_path: Path) -> None:
    folder = archive_of(spark, tmp_path, 5)
    store = store_with(tmp_path / "to", id_cache_size=20_000)
    with mounted_for_writing(store, tmp_path / "mnt") as mount:
        command: list[str | Path] = ["pipeline", "replay", folder.path, mount.path / "to" / "to", "--json"]
        assert objects(*command, "--batch", "2") == [{"published": 5, "before": 0, "damaged": 0}]
        assert objects(*command) == [{"published": 0, "before": 5, "damaged": 0}]
        twice = journalfs(*command, "--to", "to::to")
        assert twice.returncode == 1
        assert "/to/to is an address or a queue in a mount, so that is where messages go" in twice.stderr
        again = journalfs(
            "pipeline", "replay", folder.path, mount.path, "--to", "to::to", "--only", "nothing = 1"
        )
        assert again.returncode == 1
        assert "nothing" in again.stderr
        assert usual_name(Target(str(mount.path), "to::to")) == usual_name(Target(str(store), "to::to"))
    assert bodies(store) == ["0", "1", "2", "3", "4"]
    for bad in ("..", "a/b", ""):
        refused = journalfs("pipeline", "replay", folder.path, store, "--to", "to", "--name", bad)
        assert refused.returncode == 1
        assert "no name of a replay" in refused.stderr
    with pytest.raises(WrongCall, match="writing needs one address or queue"):
        usual_name(Target(str(store)))


def test_one_target_has_one_name_whichever_way_it_is_given(tmp_path: Path) -> None:
    store = store_with(tmp_path / "instance" / "data", id_cache_size=2)
    (tmp_path / "link").symlink_to(store)
    ways = [store, store.parent, store / "journal", tmp_path / "link", store / ".." / "data"]
    with mounted_for_writing(tmp_path / "link", tmp_path / "mnt") as mount:
        found = {usual_name(Target(str(way), "to::to")) for way in (*ways, mount.path)}
        found.add(usual_name(Target(str(mount.path / "to" / "to"))))
    assert len(found) == 1
    assert usual_name(Target(str(store), "to")) not in found
    other = store_with(tmp_path / "other" / "data", id_cache_size=2)
    assert usual_name(Target(str(other), "to::to")) not in found


def test_a_name_is_of_one_target(spark: SparkSession, tmp_path: Path) -> None:
    folder = archive_of(spark, tmp_path, 2)
    store = store_with(tmp_path / "to", id_cache_size=2)
    notes, target = LocalFolder(tmp_path / "notes"), Target(str(store), "to")
    assert replay(spark, folder, notes, target, name="n").published == 2
    with pytest.raises(WrongCall, match=r"published in to of .*/to, not in to::to of .*/to; give another"):
        replay(spark, folder, notes, Target(str(store), "to::to"), name="n")
    other = store_with(tmp_path / "other", id_cache_size=2)
    with pytest.raises(WrongCall, match=r"published in to of .*/to, not in to of .*/other"):
        replay(spark, folder, notes, Target(str(other), "to"), name="n")
    # Another way to the same place is no other target.
    assert replay(spark, folder, notes, Target(f"{store}/journal", "to"), name="n").published == 0
    notes.remove("target.json")
    assert replay(spark, folder, notes, Target(str(other), "to"), name="n") == Replayed(0, 2, 0)


def test_what_the_store_knew_already_counts_as_published_before(spark: SparkSession, tmp_path: Path) -> None:
    folder = archive_of(spark, tmp_path, 3)
    store = store_with(tmp_path / "to", id_cache_size=4)
    target, seen = Target(str(store), "to"), list[int]()
    replay(spark, folder, LocalFolder(tmp_path / "lost"), target, name="n", only="body < '2'")
    notes = LocalFolder(tmp_path / "notes")
    assert replay(spark, folder, notes, target, name="n", progress=seen.append) == Replayed(1, 2, 0)
    assert seen == [1]
    assert bodies(store) == ["0", "1", "2"]
    assert replay(spark, folder, notes, target, name="n") == Replayed(0, 3, 0)


class MetFolder(LocalFolder):
    """Has something come in the way of a replay, once: before a batch is written down, once it is, or when it
    counts; or when the second batch counts.
    """

    def __init__(self, path: Path, when: str, meet: Callable[[], None]) -> None:
        super().__init__(path)
        self._when, self._meet = when, meet

    def write(self, name: str, content: bytes) -> None:
        if self._when == "before" and name.startswith("_pending-"):
            self._meet()
        super().write(name, content)

    def commit(self, name: str, final: str) -> None:
        if self._when == "written" and final.startswith("pending-"):
            self._meet()
        super().commit(name, final)
        if self._when == "counts" and final.startswith("pending-"):
            self._meet()
        if self._when == "second" and final.startswith("pending-") and "batch-000001.jsonl" in self.names():
            self._meet()


@pytest.mark.parametrize(
    ("when", "said"),
    [
        ("before", "written"),
        pytest.param("written", "taken", marks=pytest.mark.long),
        pytest.param("counts", "taken", marks=pytest.mark.long),
    ],
)
def test_of_two_replays_at_once_under_one_name_one_is_to_be_repeated(
    spark: SparkSession, tmp_path: Path, when: str, said: str
) -> None:
    folder = archive_of(spark, tmp_path, 3)
    store = store_with(tmp_path / "to", id_cache_size=20)
    notes, target = LocalFolder(tmp_path / "notes"), Target(str(store), "to")

    def other() -> None:
        if when == "before":
            with pytest.raises(Killed):  # one that is about to publish looks the same
                replay(spark, folder, CutOffFolder(notes.path), target, name="n")
        else:
            assert replay(spark, folder, notes, target, name="n").published == 3

    with pytest.raises(
        SystemFailure, match=f"was {said} (care of )?by another run meanwhile; run this one again"
    ):
        replay(spark, folder, MetFolder(notes.path, when, other), target, name="n")
    done = replay(spark, folder, notes, target, name="n")
    assert done.published + done.before == 3
    assert bodies(store) == ["0", "1", "2"]
    assert notes.names() == ["batch-000001.jsonl", "target.json"]


@pytest.mark.long
def test_what_another_replay_published_meanwhile_is_not_published_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Even where the store has forgotten it: the notes tell."""
    folder = archive_of(spark, tmp_path, 5)
    store = store_with(tmp_path / "to", id_cache_size=2)
    notes, target = LocalFolder(tmp_path / "notes"), Target(str(store), "to")

    def other() -> None:
        assert replay(spark, folder, notes, target, name="n").published == 5

    with pytest.raises(SystemFailure, match=r"batch-000001\.jsonl was written by another run meanwhile"):
        replay(spark, folder, MetFolder(notes.path, "before", other), target, name="n")
    assert bodies(store) == ["0", "1", "2", "3", "4"]
    assert replay(spark, folder, notes, target, name="n") == Replayed(0, 5, 0)


@pytest.mark.long
def test_what_is_chosen_by_a_clock_is_published_as_it_was_noted(spark: SparkSession, tmp_path: Path) -> None:
    """Each query asks the clock anew. What stands for it here is asked as often, and can be turned."""
    folder = archive_of(spark, tmp_path, 7)
    store = store_with(tmp_path / "to", id_cache_size=20)
    notes, target = LocalFolder(tmp_path / "notes"), Target(str(store), "to")
    spark.sql("CREATE DATABASE later")

    def turn(published: int) -> None:
        spark.catalog.setCurrentDatabase("later")

    only = "current_schema() = 'default'"
    try:
        done = replay(spark, folder, notes, target, name="n", only=only, batch_messages=3, progress=turn)
        assert replay(spark, folder, notes, target, name="n", only=only) == Replayed(0, 7, 0)
    finally:
        spark.catalog.setCurrentDatabase("default")
        spark.sql("DROP DATABASE later")
    assert done == Replayed(7, 0, 0)
    assert bodies(store) == list("0123456")


@pytest.mark.long
def test_what_is_chosen_by_chance_is_published_as_it_was_noted(spark: SparkSession, tmp_path: Path) -> None:
    folder = archive_of(spark, tmp_path, 20)
    store = store_with(tmp_path / "to", id_cache_size=100)
    notes, target = LocalFolder(tmp_path / "notes"), Target(str(store), "to")
    some = replay(spark, folder, notes, target, name="n", only=CHANCE, batch_messages=5)
    assert some.published == len(bodies(store)) < 20
    assert replay(spark, folder, notes, target, name="n").published == 20 - some.published
    assert sorted(map(int, bodies(store))) == list(range(20))


@pytest.mark.long
def test_of_a_batch_that_the_archive_no_longer_has_nothing_is_published(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Spark may be told to pass over files that went, and says nothing of what was in them."""
    folder = archive_of(spark, tmp_path, 3)
    archive(spark, Source(str(written_store(tmp_path / "more", {"b": [{"body": "3"}]}))), folder)
    store = store_with(tmp_path / "to", id_cache_size=20)
    target = Target(str(store), "to")

    def lose() -> None:
        (lost,) = (folder.path / "run=000002").rglob("*.parquet")
        lost.unlink()

    notes = MetFolder(tmp_path / "notes", "second", lose)
    spark.conf.set("spark.sql.files.ignoreMissingFiles", "true")
    try:
        with pytest.raises(SystemFailure, match="nothing is published: the job has 0 rows, not the 1 of"):
            replay(spark, folder, notes, target, name="n")
    finally:
        spark.conf.unset("spark.sql.files.ignoreMissingFiles")
    assert bodies(store) == ["0", "1", "2"]
    assert [name[:7] for name in notes.names()] == ["batch-0", "pending", "target."]


@pytest.mark.parametrize("where", ["run=000001/again", pytest.param("run=000002", marks=pytest.mark.long)])
def test_what_is_there_twice_is_published_once(spark: SparkSession, tmp_path: Path, where: str) -> None:
    """In two runs, or in one that somebody put together."""
    folder = archive_of(spark, tmp_path, 5)
    if "/" in where:
        for file in [*folder.path.rglob("*.parquet")]:
            shutil.copy(file, file.with_name(f"again-{file.name}"))
    else:
        shutil.copytree(folder.path / "run=000001", folder.path / where)
    store = store_with(tmp_path / "to", id_cache_size=2)
    notes, target = LocalFolder(tmp_path / "notes"), Target(str(store), "to")
    assert replay(spark, folder, notes, target, name="n") == Replayed(5, 0, 0)
    assert sorted(bodies(store)) == ["0", "1", "2", "3", "4"]


def test_an_id_takes_the_place_of_another() -> None:
    plain = '{"queue":"q","protocol":"CORE","type":"text","body":"\\ud800","properties":{"f":1e-45}}'
    found = with_duplicate_id(plain, "new")
    assert "\\ud800" in found
    assert '"f":1e-45' in found
    own = {
        "protocol": "CORE",
        "duplicateId_base64": "AA==",
        "propertyTypes": {"_AMQ_DUPL_ID": "bytes"},
        "properties": {"_AMQ_DUPL_ID": "AA=="},
    }
    assert json.loads(with_duplicate_id(json.dumps(own), "new")) == {
        "protocol": "CORE",
        "duplicateId": "new",
        "propertyTypes": {},
        "properties": {"_AMQ_DUPL_ID": "new"},
    }
    whole = '{"protocol":"CORE","type":"text","message_base64":"AA=="}'
    assert with_duplicate_id(whole, "new") == whole
