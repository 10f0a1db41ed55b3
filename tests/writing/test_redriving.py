"""Dead letters by where they come from, and back there: in a mount, and by the command."""

from __future__ import annotations

import errno
import json
import os
import re
from pathlib import Path

import pytest

from journalfs.errors import EXIT_WRONG_CALL, DependencyMissing
from tests.kinds import first_is_quick
from tests.mounting import MountedStore, journalfs, mounted_for_writing, read_lines
from tests.writing.conftest import Remount, bodies, errno_of, new_store, shell

LETTERS = [
    {"body": "a1", "properties": {"_AMQ_ORIG_ADDRESS": "a", "_AMQ_ORIG_QUEUE": "q", "tenant": "x"}},
    {"body": "a2", "properties": {"_AMQ_ORIG_ADDRESS": "a", "_AMQ_ORIG_QUEUE": "q", "tenant": "y"}},
    {"body": "a3", "properties": {"_AMQ_ORIG_ADDRESS": "a", "_AMQ_ORIG_QUEUE": "q", "_AMQ_ACTUAL_EXPIRY": 9}},
    {"body": "b1", "properties": {"_AMQ_ORIG_ADDRESS": "b:c", "_AMQ_ORIG_QUEUE": "b/c"}},
    {"body": "gone", "properties": {"_AMQ_ORIG_ADDRESS": "a", "_AMQ_ORIG_QUEUE": "no more"}},
    {"body": "sent"},
]


def filled(mount: MountedStore) -> Path:
    """The directory of a dead-letter queue with letters."""
    for path in ("a/q", "b:c/b%2Fc", "DLQ/DLQ"):
        (mount.path / path).mkdir(parents=True, exist_ok=True)
    folder = mount.path / "DLQ/DLQ"
    (folder / "in.jsonl").write_text("".join(json.dumps(line) + "\n" for line in LETTERS))
    return folder


@pytest.mark.rule("S-232")
def test_letters_are_listed_by_origin_and_reason(remount: Remount) -> None:
    folder = filled(remount())
    assert not {".by-origin", ".by-reason", ".redrive"} & set(os.listdir(folder))
    assert sorted(os.listdir(folder / ".by-origin")) == ["a::no more", "a::q", "b%3Ac::b%2Fc"]
    assert sorted(os.listdir(folder / ".by-reason")) == ["expired", "max-deliveries", "sent"]
    assert [line["body"] for line in read_lines(folder / ".by-origin/a::q")] == ["a1", "a2", "a3"]
    assert [line["body"] for line in read_lines(folder / ".by-origin/a%3A%3Aq")] == ["a1", "a2", "a3"]
    assert [line["body"] for line in read_lines(folder / ".by-reason/expired")] == ["a3"]
    assert len(os.listdir(folder / ".by-reason/max-deliveries/.messages")) == 4
    inner = folder / ".by-reason/max-deliveries/.by-origin"
    assert sorted(os.listdir(inner)) == ["a::no more", "a::q", "b%3Ac::b%2Fc"]
    assert [line["body"] for line in read_lines(inner / "a::q/.where/tenant = 'y'")] == ["a2"]
    assert os.listdir(folder / ".redrive") == []
    assert errno_of(os.stat, folder / ".by-reason/whatever") == errno.ENOENT
    assert errno_of((folder / ".redrive/new.txt").write_text, "x") == errno.EPERM


@pytest.mark.rule("S-230", "S-231")
def test_whatever_is_moved_to_redrive_goes_back(remount: Remount) -> None:
    mount = remount()
    folder, queue = filled(mount), mount.queue("a", "q")
    (first, *_) = os.listdir(folder / ".by-origin/a::q/.messages")
    shell(f"mv .by-origin/a::q/.messages/{first} .redrive", folder)
    assert bodies(queue) == ["a1"]
    shell("mv \".by-origin/a::q/.where/tenant = 'y'/.all.jsonl\" .redrive/", folder)
    assert bodies(queue) == ["a1", "a2"]
    shell("mv .by-origin/a::q .redrive", folder)
    assert bodies(queue) == ["a1", "a2", "a3"]
    assert [line.get("properties") for line in queue.lines()] == [{"tenant": "x"}, {"tenant": "y"}, None]
    assert sorted(os.listdir(folder / ".by-origin")) == ["a::no more", "b%3Ac::b%2Fc"]
    shell("mv .by-reason/sent .redrive", folder, succeeds=False)
    shell("mv .all.jsonl .redrive", folder)
    assert [line["body"] for line in read_lines(folder)] == ["gone", "sent"]
    assert [line["body"] for line in read_lines(mount.path / "b:c/b%2Fc")] == ["b1"]
    event = [one for one in mount.events() if one["event"] == "redriven"][-1]
    assert event["sent"] == {"b:c::b/c": 1}
    assert len(event["stayed"]) == 2
    assert "there is no queue a::no more any more" in event["message"]


@pytest.mark.rule("S-231")
def test_of_many_that_stay_some_are_named_and_all_counted(remount: Remount) -> None:
    mount = remount()
    (filled(mount) / "in.txt").write_text("".join(f"{n}\n" for n in range(30)))
    said = journalfs("dlq", "redrive", mount.path, "DLQ::DLQ", "--where", "_AMQ_ORIG_QUEUE IS NULL").stdout
    assert re.search(r"(\d+, ){19}\d+ and \d+ others stay: nothing says where they come from", said)


@pytest.mark.rule("S-424")
@pytest.mark.parametrize("mounted", first_is_quick(True, False), ids=["mounted", "closed"])
def test_the_command(tmp_path: Path, mounted: bool) -> None:
    root, mountpoint = new_store(tmp_path / "data"), tmp_path / "mnt"
    with (root / "journalfs.toml").open("a") as toml:
        toml.write('[address-settings."#"]\ndead-letter-address = "DLQ"\n')

    def run(place: Path) -> None:
        dry = journalfs("dlq", "redrive", place, "--dry-run", "--json")
        assert (dry.returncode, dry.stderr) == (0, "")
        plan = json.loads(dry.stdout)
        assert plan["sent"] == {"a::q": 2, "b:c::b/c": 1}
        assert plan["staying"]["their time was over; --expired sends them back, too"] == 1
        some = journalfs("dlq", "redrive", place, "DLQ::DLQ", "--where", "tenant = 'x'")
        assert (some.stdout, some.stderr) == ("DLQ::DLQ: 1 sent back to a::q\n", "")
        done = journalfs("dlq", "redrive", place)
        assert done.returncode == 0, done.stderr
        assert "DLQ::DLQ: 1 sent back to a::q\n" in done.stdout
        assert "stay: nothing says where they come from\n" in done.stdout
        assert "stay: their time was over; --expired sends them back, too\n" in done.stdout
        late = journalfs("dlq", "redrive", place, "--expired", "--where", "_AMQ_ORIG_QUEUE = 'q'")
        assert late.stdout == "DLQ::DLQ: 1 sent back to a::q\n", late.stderr
        assert "selector 'n >'" in journalfs("dlq", "redrive", place, "--where", "n >").stderr
        again = journalfs("dlq", "redrive", place, "--json")
        assert (again.returncode, json.loads(again.stdout)["sent"]) == (0, {})

    with mounted_for_writing(root, mountpoint) as mount:
        filled(mount)
        if mounted:
            run(mountpoint)
    if not mounted:
        run(root)
    with mounted_for_writing(root, mountpoint) as mount:
        assert sorted(bodies(mount.queue("a", "q"))) == ["a1", "a2", "a3"]
        assert bodies(mount.queue("DLQ")) == ["gone", "sent"]


def test_a_store_without_dead_letter_addresses_is_asked_which_queue_is_meant(tmp_path: Path) -> None:
    done = journalfs("dlq", "redrive", new_store(tmp_path / "store"))
    assert done.returncode == EXIT_WRONG_CALL
    assert done.stderr.startswith("journalfs: no settings send dead letters")


@pytest.mark.rule("S-430")
@pytest.mark.parametrize("mounted", first_is_quick(True, False), ids=["mounted", "closed"])
def test_letters_are_edited_and_sent_back_at_once(tmp_path: Path, mounted: bool) -> None:
    root, mountpoint = new_store(tmp_path / "data"), tmp_path / "mnt"

    def run(place: Path) -> None:
        call = ("dlq", "edit", place, "DLQ::DLQ")
        for program, said in ((".body |=", "jq: error"), ("empty", "one object"), (".body, .", "one object")):
            done = journalfs(*call, "--jq", program)
            assert (done.returncode, said in done.stderr) == (EXIT_WRONG_CALL, True), done.stderr
            assert "nothing was changed" in done.stderr
        dry = journalfs(*call, "--jq", '.body |= "E" + .  # edited', "--redrive", "--dry-run")
        assert [json.loads(line)["body"] for line in dry.stdout.splitlines()] == ["Ea1", "Ea2", "Eb1"]
        done = journalfs(*call, "--jq", '.body |= "E" + .', "--where", "tenant = 'x'", "--redrive")
        assert (done.stdout, done.stderr) == ("DLQ::DLQ: 1 sent back to a::q\n", "")
        assert "selector 'n >'" in journalfs(*call, "--jq", ".", "--where", "n >").stderr
        done = journalfs(*call, "--jq", '.properties.again = true | .body |= "F" + .', "--redrive", "--json")
        found = json.loads(done.stdout)
        assert (found["edited"], found["to"]) == (2, {"a::q": 1, "b:c::b/c": 1})
        assert sorted(found["stayed"]) == [
            "nothing says where they come from",
            "there is no queue a::no more any more",
        ]
        done = journalfs(*call, "--jq", '.body = "here"', "--where", "_AMQ_ORIG_QUEUE = 'no more'")
        assert done.stdout == "DLQ::DLQ: 1 edited\n", done.stderr

    with mounted_for_writing(root, mountpoint) as mount:
        filled(mount)
        if mounted:
            run(mountpoint)
    if not mounted:
        run(root)
    with mounted_for_writing(root, mountpoint) as mount:
        lines = {line["body"]: line for line in mount.queue("a", "q").lines()}
        assert sorted(lines) == ["Ea1", "Fa2"]
        assert lines["Ea1"]["properties"] == {"tenant": "x"}, "notes are taken away"
        assert lines["Fa2"]["properties"] == {"tenant": "y", "again": True}
        assert bodies(mount.queue("DLQ")) == ["a3", "sent", "here"], "the expired one stays"
        assert mount.queue("DLQ").lines()[-1]["properties"]["_AMQ_ORIG_QUEUE"] == "no more"
        assert not [*(mount.path / ".journalfs/transactions").glob("*-*")]


def test_without_jq_nothing_is_edited(tmp_path: Path) -> None:
    store = new_store(tmp_path / "store")
    with mounted_for_writing(store, tmp_path / "mnt") as mount:
        filled(mount)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PATH", str(tmp_path))
            done = journalfs("dlq", "edit", mount.path, "DLQ::DLQ", "--jq", ".", env={**os.environ})
        assert done.returncode == DependencyMissing.exit_code, done.stderr
        assert "needs the program jq" in done.stderr
        assert len(bodies(mount.queue("DLQ"))) == len(LETTERS)
