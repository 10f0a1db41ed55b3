"""`convert`, `recover` and `repair`: what they make, after a kill too, and what they say of it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from journalfs.convert import Carrying, Mode
from journalfs.convert.carrying import REWRITTEN, _Step
from journalfs.errors import StoreBusy, WrongCall
from journalfs.records.sources import locate_readable
from journalfs.store import open_store
from journalfs.store.write.opening import open_for_writing
from tests.frozen import PristineStores, load_expected, tree_state
from tests.mounting import JOURNALFS, journalfs
from tests.older.truth import envelopes, expected

StoreCopy = Callable[[str], Path]


def held_by(path: Path) -> dict[str, list[dict[str, object]]]:
    store = open_store(path, index=False)
    try:
        return {queue.name: envelopes(queue) for one in store.addresses() for queue in one.queues()}
    finally:
        store.close()


@pytest.mark.rule("S-205")
@pytest.mark.parametrize("name", ["hq-2.1-core", "hq-2.4-main", "art-1.5-main"])
def test_convert_keeps_every_message(name: str, stores: PristineStores, tmp_path: Path) -> None:
    before = tree_state(stores[name])
    report = Carrying(stores[name], tmp_path / "new", Mode.CONVERT).run()
    truth = expected(name)["queues"]
    found = held_by(tmp_path / "new")
    for queue, facts in truth.items():
        new = queue.removeprefix("jms.queue.").removeprefix("jms.topic.")
        if new != "prices":
            wanted = [one["id"] for one in [*facts["messages"], *(facts.get("scheduled") or ())]]
            assert sorted(one["id"] for one in found[new]) == sorted(wanted)  # type: ignore[type-var]
    assert report.messages == sum(map(len, found.values()))
    assert json.loads((tmp_path / "new" / "journalfs" / "made-from.json").read_bytes())["mode"] == "convert"
    assert not list(tmp_path.glob(".*"))
    assert tree_state(stores[name]) == before
    store = open_for_writing(tmp_path / "new")
    assert store.status()["damage"] == 0
    store.close()


@pytest.mark.rule("S-205")
@pytest.mark.parametrize("name", ["orders-basic", "transactions", "large-and-paged"])
def test_convert_of_a_current_store(name: str, stores: PristineStores, tmp_path: Path) -> None:
    Carrying(stores[name], tmp_path / "new", Mode.CONVERT).run()
    before, after = held_by(stores[name]), held_by(tmp_path / "new")
    assert {queue: sorted(map(str, found)) for queue, found in after.items()} == {
        queue: sorted(map(str, found)) for queue, found in before.items()
    }


@pytest.mark.rule("S-207")
@pytest.mark.parametrize("step", [step for step in _Step if step is not _Step.NOTHING])
def test_taken_up_after_a_kill(step: _Step, stores: PristineStores, tmp_path: Path) -> None:
    """At the end of each step, and in the middle of the last: nothing is there twice."""
    new = tmp_path / "new"
    to = ["--to", "hornetq"] if step is _Step.REWRITTEN else []
    kill = (
        "import os, sys, signal\n"
        "from pathlib import Path\n"
        "from journalfs.convert import carrying\n"
        "done = carrying._done\n"
        "def kill_then(staging, state, step):\n"
        "    done(staging, state, step)\n"
        "    if step == sys.argv[3]: os.kill(os.getpid(), signal.SIGKILL)\n"
        "carrying._done = kill_then\n"
        "made = carrying.Carrying(Path(sys.argv[1]), Path(sys.argv[2]), carrying.Mode.CONVERT)\n"
        "made.to = next(iter(sys.argv[5:]), None)\n"
        "made.run()\n"
    )
    python = JOURNALFS.with_name("python")
    killed = subprocess.run([python, "-c", kill, stores["hq-2.4-main"], new, step, *to], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert not (new / "journal").exists()
    unfinished = tmp_path / ".new.unfinished"
    moved = unfinished / REWRITTEN / "bindings" if to else unfinished / "bindings"
    if step in (_Step.PACKED, _Step.REWRITTEN):
        # As if it had moved some of it.
        shutil.copytree(moved, new / "bindings")
        shutil.rmtree(moved)
    done = journalfs("convert", *to, stores["hq-2.4-main"], new)
    assert done.returncode == 0, done.stderr
    assert "187 messages in" in done.stdout
    assert sum(map(len, held_by(locate_readable(new)[0].root).values())) == 187
    assert not list(tmp_path.glob(".*"))


def test_a_destination_in_use_is_refused(store_copy: StoreCopy, tmp_path: Path) -> None:
    source = store_copy("aio")
    with pytest.raises(WrongCall, match="there is a store already"):
        Carrying(source, store_copy("mapped") / "data", Mode.CONVERT).run()
    with pytest.raises(WrongCall, match="this is the source"):
        Carrying(source, source / "data", Mode.CONVERT).run()
    store = open_for_writing(source)
    try:
        with pytest.raises(StoreBusy):
            Carrying(source, tmp_path / "new", Mode.CONVERT).run()
    finally:
        store.close()


@pytest.mark.rule("S-208")
@pytest.mark.parametrize("name", ["hq-2.4-main", "orders-basic"])
def test_recover_brings_acknowledged_messages_back(name: str, stores: PristineStores, tmp_path: Path) -> None:
    live = held_by(stores[name])
    Carrying(stores[name], tmp_path / "new", Mode.RECOVER).run()
    found = held_by(tmp_path / "new")
    for queue, messages in live.items():
        new = queue.removeprefix("jms.queue.").removeprefix("jms.topic.")
        if new != "prices":
            kept = {one["id"] for one in found[new]}
            assert {one["id"] for one in messages} <= kept, queue
    assert sum(map(len, found.values())) > sum(map(len, live.values()))


@pytest.mark.rule("S-209")
def test_repair_carries_what_is_intact(store_copy: StoreCopy, tmp_path: Path) -> None:
    source = store_copy("large-and-paged")
    journal = next(iter(sorted((source / "data" / "journal").glob("*.amq"))))
    with journal.open("r+b") as file:
        file.seek(3000)
        file.write(b"\xff" * 100)
    page = max((source / "data" / "paging").rglob("*.page"), key=lambda path: path.stat().st_size)
    os.truncate(page, page.stat().st_size - 3)
    before = tree_state(source)
    done = journalfs("repair", "--json", source, "--out", tmp_path / "new")
    assert done.returncode == 5, done.stderr
    report = json.loads(done.stdout)
    missing = "large-messages/39.msg"  # as its broker left it
    hurt = {str(path.relative_to(source / "data")) for path in (journal, page)}
    assert {one["file"] for one in report["damage"]} == hurt | {missing}
    assert tree_state(source) == before
    checked = journalfs("check", tmp_path / "new")
    assert (checked.returncode, checked.stdout) == (0, "")
    intact = {queue: len(one) for queue, one in held_by(source).items()}
    intact["images"] -= 1  # message 39 is in `damaged`
    aside = {"damaged": 1, "undecided.63": 1}
    assert {queue: len(one) for queue, one in held_by(tmp_path / "new").items()} == intact | aside
    assert load_expected("large-and-paged")["liveMessages"] > report["messages"]
