"""What README.md shows is typed as it stands there, on a store that a real broker wrote."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from journalfs_mount.process.mount_table import mounted_at
from tests.frozen import PristineStores
from tests.mount.conftest import until
from tests.mounting import JOURNALFS, MountedStore, QueueOnDisk, journalfs
from tests.writing.conftest import bodies, shell

README = (Path(__file__).resolve().parents[2] / "README.md").read_text()


def commands(heading: str) -> str:
    """The lines of a section that are to be typed into a shell."""
    section = README.partition(f"\n### {heading}\n")[2].partition("\n### ")[0]
    blocks: list[str] = re.findall(r"^```sh\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    assert blocks, heading
    return "".join(blocks)


@pytest.fixture
def desk(stores: PristineStores, tmp_path: Path) -> Iterator[Path]:
    """A copy of the store, mounted, and what somebody who follows the text has at hand."""
    for name in ("mnt", "backup", "batch"):
        (tmp_path / name).mkdir()
    (tmp_path / "invoice.pdf").write_bytes(b"%PDF-1.4\n\0")
    (tmp_path / "application.log").write_text("started\nready\n")
    for name in ("b", "a"):
        (tmp_path / f"batch/{name}.json").write_text(f'"batch {name}"\n')
    subprocess.run(["cp", "-r", stores["orders-basic"], tmp_path / "store"], check=True)
    done = journalfs("mount", tmp_path / "store", tmp_path / "mnt")
    assert done.returncode == 0, done.stderr
    yield tmp_path
    if mounted_at(tmp_path / "mnt") is not None:
        subprocess.run(["umount", "--lazy", tmp_path / "mnt"], check=True)


def typed(desk: Path, text: str) -> str:
    """Commands with the places of this desk in them."""
    for word, place in (("/mnt", "mnt"), ("/backup", "backup"), (r"\bSTORE", "store"), (r"\bNEW", "new")):
        text = re.sub(rf"{word}\b", str(desk / place), text)
    return text


def follow(desk: Path, heading: str) -> str:
    return shell(f"set -e; PATH={JOURNALFS.parent}:$PATH\n{typed(desk, commands(heading))}", desk)


def test_every_command_does_what_the_text_says(desk: Path) -> None:
    mount = MountedStore(desk / "mnt")
    orders, claims = mount.queue("orders"), mount.queue("claims")
    before = bodies(orders), len(claims.lines())
    dead = {line["id"] for line in mount.queue("DLQ").lines()}
    said = follow(desk, "Read")
    assert "JMSReplyTo" not in said
    assert 'user.property.priority="' in said
    (copy,) = (desk / "backup").iterdir()
    assert copy.name.startswith("DLQ-20")
    assert (copy / "DLQ").is_dir()

    follow(desk, "Publish")
    published = ["one line is one message", '{"total": 12.5}', None, "7", "started", "ready"]
    assert [line.get("body") for line in orders.lines()] == [
        *before[0],
        *published,
        '"batch a"',
        '"batch b"',
    ]
    assert len(claims.lines()) > before[1]
    assert orders.lines()[-5]["priority"] == 9

    follow(desk, "Acknowledge and move")
    assert 130 not in orders.listed_ids()
    assert mount.queue("DLQ").lines() == []
    assert mount.queue("quotes").lines() == []
    moved = {line["properties"].get("_AMQ_ORIG_MESSAGE_ID") for line in claims.lines()} & dead
    assert 0 < len(moved) < len(dead)
    assert not (desk / "mnt/picked").exists()

    said = follow(desk, "Administer")
    assert "\nring-size = 1000\n" in said
    assert "\nmax-delivery-attempts = 3" in said
    assert not (desk / "mnt/returns").exists()

    assert follow(desk, "Keep a moment").strip() == str(len(orders.lines()))

    events = mount.events()
    assert "refused" not in {event["event"] for event in events}
    assert any("only a broker diverts" in event["message"] for event in events)
    (desk / "mnt/nowhere").mkdir()
    with pytest.raises(OSError, match="Destination address required"):
        (desk / "mnt/nowhere/new.txt").write_text("x\n")
    said = follow(desk, "When something is refused")
    event, damage = map(json.loads, said.splitlines())
    assert damage == 0
    assert event["what"] == "nowhere/new.txt: EDESTADDRREQ"
    assert mounted_at(desk / "mnt") is None
    said = follow(desk, "Without mounting")
    assert "activemq-data-1.amq: file id 1" in said
    assert (desk / "new/journal").is_dir()


def test_thirty_seconds(tmp_path: Path) -> None:
    (tmp_path / "mnt").mkdir()
    section = README.partition("\n## Thirty seconds\n")[2].partition("```sh\n")[2].partition("```")[0]
    text = section.replace("/var/lib/orders", str(tmp_path / "orders")).replace("/mnt", str(tmp_path / "mnt"))
    said = shell(f"set -e; PATH={JOURNALFS.parent}:$PATH\n{text}", tmp_path).splitlines()
    assert [json.loads(line)["body"] for line in said if line.startswith("{")] == ["resize 1.png"]
    assert said[-1] == "resize 2.png"
    assert mounted_at(tmp_path / "mnt") is None


def test_consuming(desk: Path) -> None:
    orders = MountedStore(desk / "mnt").queue("orders")
    before = len(orders.lines())
    take, loop, head, tail = [typed(desk, line) for line in commands("Consume").splitlines()]

    # The hand that takes the third message fails. It reads its input, too, as ssh does.
    handle = 'handle() { printf "%s\\n" "$1" >> handled; cat > rest; [ $(wc -l < handled) -lt 3 ]; }'
    shell(f"{handle}\n{loop}", desk, succeeds=False)
    handled = [json.loads(line) for line in (desk / "handled").read_text().splitlines()]
    assert len(handled) == 3
    assert not (desk / "rest").read_bytes(), "what it reads is not the next message"
    until(lambda: orders.status()["deliveringCount"] == 0, "the third one is given back")
    assert len(orders.lines()) == before - 2

    program = desk / "handle"
    program.write_text("#!/bin/sh\ncat >> taken\nexit 1\n")
    program.chmod(0o755)
    shell(f"PATH={desk}:{JOURNALFS.parent}:$PATH; {take}", desk, succeeds=False)
    assert json.loads((desk / "taken").read_text())["id"] == handled[2]["id"]
    assert len(orders.lines()) == before - 2

    assert json.loads(shell(head, desk))["id"] == handled[2]["id"]
    assert len(orders.lines()) == before - 3

    with subprocess.Popen(["bash", "-c", tail], stdout=subprocess.PIPE, text=True, process_group=0) as shown:
        try:
            assert shown.stdout is not None
            until(lambda: is_followed(shown.pid), "tail has begun")
            shell(f"echo new > {orders.path}/new.txt", desk)
            assert shown.stdout.readline() == '"new"\n'
        finally:
            os.killpg(shown.pid, signal.SIGTERM)
    assert len(orders.lines()) == before - 2


def is_followed(group: int) -> bool:
    """Whether a process of the group has a stream open."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if os.getpgid(int(process.name)) != group:
                continue
            opened = [os.readlink(entry) for entry in (process / "fd").iterdir()]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if any(name.endswith("/.follow") for name in opened):
            return True
    return False


def test_where_what_was_not_published_is(desk: Path) -> None:
    """The event says where a whole file is kept that could not be published at its last close."""
    queue = QueueOnDisk(desk / "mnt/leavers/gone")
    queue.path.mkdir(parents=True)
    with (queue.path / "in.bin").open("wb") as file:
        file.write(b"whole")
        file.flush()
        os.close(os.dup(file.fileno()))
        queue.path.rmdir()
    shell("ls leavers", desk / "mnt")
    [kept] = [event for event in MountedStore(desk / "mnt").events() if event["event"] == "kept"]
    assert Path(kept["message"].rpartition(" is in ")[2]).read_bytes() == b"whole"
